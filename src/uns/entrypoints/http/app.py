"""
The ASGI application: the parts of a container behind their routes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext

from litestar import Litestar
from litestar.di import Provide
from litestar.exceptions import HTTPException, InternalServerException, ValidationException

from uns.core.loops.worker import Worker
from uns.entrypoints.container import Container
from uns.entrypoints.http.access import Gate
from uns.entrypoints.http.envelope import Envelope
from uns.entrypoints.http.errors import (
    on_any_error,
    on_broken_off,
    on_http_error,
    on_invalid,
    on_uns_error,
)
from uns.entrypoints.http.leaving import told_to_leave
from uns.entrypoints.http.notifications import AnswerController, NotificationController
from uns.entrypoints.http.policies import reload_policies
from uns.entrypoints.http.probes import health, ready
from uns.entrypoints.http.recovery import RuntimeController, resolve_failure
from uns.entrypoints.http.sending import MAX_BODY, send_route
from uns.entrypoints.http.service import HttpService
from uns.ports.errors import UnsError

THREADS = 16

_log = logging.getLogger(__name__)

_ROUTES = (NotificationController, AnswerController, RuntimeController, resolve_failure, reload_policies)
_PROBES = (health, ready)


def create_app(container: Container, *, work: bool = True, stop: asyncio.Event | None = None) -> Litestar:
    """
    The service over the parts of ``container``, which it closes when it stops.

    Args:
        work: whether a worker runs inside; else other processes send what this one accepts.
        stop: set by a server that tells the service early that it is to end; without one the
            service listens for the signal itself.

    Raises:
        UnsError: a setting is wrong, or the database does not open.
    """
    service = _service(container, work=work)
    app = Litestar(
        route_handlers=[send_route(service), *_ROUTES, *_PROBES],
        middleware=[Gate(service.settings.credentials)],
        dependencies={"service": Provide(lambda: service, sync_to_thread=False)},
        exception_handlers={
            UnsError: on_uns_error,
            ValidationException: on_invalid,
            HTTPException: on_http_error,
            InternalServerException: on_broken_off,
            Exception: on_any_error,
        },
        lifespan=[lambda _: _running(service, stop)],
        request_max_body_size=MAX_BODY,
        logging_config=None,
        openapi_config=None,
    )
    app.asgi_handler = Envelope(app.asgi_handler)
    return app


@asynccontextmanager
async def _running(service: HttpService, told: asyncio.Event | None) -> AsyncGenerator[None, None]:
    """
    The worker beside the doors; both end when the process is told to leave.
    """
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="uns-http")
    asyncio.get_running_loop().set_default_executor(threads)
    stop = told or asyncio.Event()

    def leave() -> None:
        stop.set()
        service.submitter.hurry()

    work = asyncio.ensure_future(_work(service.worker, stop)) if service.worker is not None else None
    try:
        with told_to_leave(leave) if told is None else nullcontext():
            yield
    finally:
        leave()
        if work is not None:
            await asyncio.wait({work})
        await asyncio.to_thread(service.runtime.close)


async def _work(worker: Worker, stop: asyncio.Event) -> None:
    try:
        await worker.run(stop)
    except Exception:  # the doors stay open: others may send; readiness says that nobody here does
        _log.exception("the worker has ended")


def _service(container: Container, *, work: bool) -> HttpService:
    return HttpService(
        settings=container.settings(),
        runtime=container.runtime(),
        submitter=container.submitter(),
        worker=container.worker() if work else None,
    )
