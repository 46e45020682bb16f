"""
The ASGI application: a runtime with its worker behind a few routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from litestar import Litestar, get
from litestar.di import Provide
from litestar.exceptions import HTTPException

from uns.entrypoints.http.errors import on_any_error, on_http_error, on_uns_error
from uns.entrypoints.http.notifications import NotificationController
from uns.entrypoints.sdk import Runtime
from uns.ports.errors import UnsError

MAX_BODY = 2 * 1024 * 1024


@get(["/health", "/healthz"], summary="Whether the process is alive")
async def health() -> dict[str, str]:
    """
    Public, and independent of the database.
    """
    return {"status": "ok"}


def create_app(runtime: Runtime) -> Litestar:
    """
    The service over ``runtime``, which it closes when it stops.
    """

    @asynccontextmanager
    async def working(_: Litestar) -> AsyncGenerator[None, None]:
        stop = asyncio.Event()
        worker = asyncio.create_task(runtime.worker(stop), name="uns-worker")
        try:
            yield
        finally:
            stop.set()
            await worker
            await asyncio.to_thread(runtime.close)

    return Litestar(
        route_handlers=[NotificationController, health],
        dependencies={"runtime": Provide(lambda: runtime, sync_to_thread=False)},
        exception_handlers={
            UnsError: on_uns_error,
            HTTPException: on_http_error,
            Exception: on_any_error,
        },
        lifespan=[working],
        request_max_body_size=MAX_BODY,
        logging_config=None,
        openapi_config=None,
    )
