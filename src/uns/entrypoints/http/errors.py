"""
Errors as RFC 9457 problem details. No answer shows a stack, SQL or a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, InternalServerException, ValidationException

from uns.ports.errors import Conflict, Rejected, StoreUnavailable, UnsError

PROBLEM = "application/problem+json"
RETRY_AFTER_SECONDS = "1"

_log = logging.getLogger(__name__)


def problem(
    status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> Response[bytes]:
    """
    One problem details answer; members of ``more`` that are None are left out.
    """
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    body |= {name: value for name, value in more.items() if value is not None}
    return Response(
        msgspec.json.encode(body), status_code=status, media_type=PROBLEM, headers=dict(headers or {})
    )


def on_uns_error(_: Request[Any, Any, Any], error: UnsError) -> Response[bytes]:
    """
    The service's own errors carry their code and status.
    """
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, StoreUnavailable):
        _log.error("%s: %s", error.code, error, exc_info=error)
    more: dict[str, Any] = {}
    if isinstance(error, Rejected):
        more["errors"] = error.errors
    elif isinstance(error, Conflict):
        more["obligation_owner_id"] = error.obligation_owner_id
        more["replay_blocked_by"] = error.replay_blocked_by
    return problem(error.status, error.code, str(error), headers=_headers(error), **more)


def _headers(error: UnsError) -> dict[str, str]:
    if error.status == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, StoreUnavailable):
        return {"Retry-After": RETRY_AFTER_SECONDS}
    return {}


def on_invalid(_: Request[Any, Any, Any], error: ValidationException) -> Response[bytes]:
    """
    A parameter that is not of its type or range: 422, where the framework says 400.
    """
    found = [_fault(entry) for entry in error.extra or [] if isinstance(entry, dict)]
    sentence = "; ".join(f"{f['path']}: {f['message']}" for f in found) or "a parameter is wrong"
    return problem(422, Rejected.code, sentence, errors=found)


def _fault(entry: dict[str, Any]) -> dict[str, str]:
    return {"path": str(entry.get("key", "")), "message": str(entry.get("message", ""))}


def on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """
    What the framework refuses: an unknown path, a wrong method, a body that is too large.
    """
    status = HTTPStatus(error.status_code)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return on_any_error(request, error)
    detail = status.description or status.phrase
    return problem(status, status.name.lower(), detail, headers=error.headers)


def on_broken_off(_: Request[Any, Any, Any], error: InternalServerException) -> Response[bytes]:
    """
    The caller went away before the body had arrived: nobody reads this answer, and nobody is at fault.
    """
    _log.info("a request was not read to its end: %s", error.detail)
    return problem(500, "internal_error", "the request was not read to its end")


def on_any_error(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """
    A fault of ours: told in the log, not to the caller.
    """
    _log.error("unhandled error", exc_info=error)
    return problem(500, "internal_error", "the service failed to answer; its log says why")
