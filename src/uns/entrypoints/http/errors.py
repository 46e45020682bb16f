"""
Errors as RFC 9457 problem details. No answer shows a stack, SQL or a secret.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from uns.ports.errors import Conflict, Rejected, UnsError

PROBLEM = "application/problem+json"

_log = logging.getLogger(__name__)


def problem(status: int, code: str, detail: str, **more: Any) -> Response[bytes]:
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
    return Response(msgspec.json.encode(body), status_code=status, media_type=PROBLEM)


def on_uns_error(_: Request[Any, Any, Any], error: UnsError) -> Response[bytes]:
    """
    The service's own errors carry their code and status.
    """
    more: dict[str, Any] = {}
    if isinstance(error, Rejected):
        more["errors"] = error.errors
    elif isinstance(error, Conflict):
        more["obligation_owner_id"] = error.obligation_owner_id
        more["replay_blocked_by"] = error.replay_blocked_by
    return problem(error.status, error.code, str(error), **more)


def on_http_error(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """
    What the framework refuses: an unknown path, a wrong method, a body that is too large.
    """
    status = HTTPStatus(error.status_code)
    return problem(status, status.name.lower(), status.description or status.phrase)


def on_any_error(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """
    A fault of ours: told in the log, not to the caller.
    """
    _log.error("unhandled error", exc_info=error)
    return problem(500, "internal_error", "the service failed to answer; its log says why")
