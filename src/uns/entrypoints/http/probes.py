"""
Probes: is the process alive, and can it do its work?
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from litestar import Response, get

from uns.entrypoints.http.types import Service
from uns.ports.errors import UnsError

OK = "ok"
PATIENCE_SECONDS = 3.0
"""Whoever probes has little patience, and a database that answers later is as good as none."""


@get(["/health", "/healthz"], summary="Whether the process is alive")
async def health() -> dict[str, str]:
    """
    Public, and independent of the database.
    """
    return {"status": OK}


@get(["/ready", "/readyz"], summary="Whether the process can do its work")
async def ready(service: Service) -> Response[dict[str, Any]]:
    """
    503, with what is missing, while it cannot.

    The database must answer, every loop of the worker come round, and each channel that a policy
    in force names be set up here.
    """
    checks = {"database": await _asked(lambda: _answers(service))}
    if service.worker is not None:
        alive = service.worker.healthy(asyncio.get_running_loop().time())
        checks["worker"] = OK if alive else "a loop is dead or stuck"
        if checks["database"] == OK:
            checks["channels"] = await _asked(lambda: _channels(service))
    fit = all(state == OK for state in checks.values())
    body = {"status": "ready" if fit else "not_ready", "checks": checks}
    return Response(body, status_code=200 if fit else 503)


def _answers(service: Service) -> str:
    service.runtime.ping()
    return OK


def _channels(service: Service) -> str:
    missing = service.runtime.missing_channels()
    return f"not set up here: {', '.join(sorted(missing))}" if missing else OK


async def _asked(question: Callable[[], str]) -> str:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.to_thread(question)
    except TimeoutError:
        return f"no answer within {PATIENCE_SECONDS:g} s"
    except UnsError as error:
        return str(error)
