"""
What every request passes through first, whether or not a route takes it: its id, and HEAD as GET.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import cast

from litestar.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import STRUCTLOG_KEY_PREFIX

from uns.adapters.sources import new_id

HEADER = b"x-request-id"
_ACCEPTABLE = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")

_logged: ContextVar[str] = ContextVar(f"{STRUCTLOG_KEY_PREFIX}request_id")
"""Named so that structlog puts it on every line; set here, at a third of the price of having it set."""


class Envelope:
    """
    Names each request: ``X-Request-ID`` is taken or made, answered, and on every log line.

    What a caller sends is kept if it could not forge a log line. HEAD is answered as GET is, without
    the body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Serve the request under its id.
        """
        request_id = dict(scope["headers"]).get(HEADER, b"")
        if not _ACCEPTABLE.fullmatch(request_id):
            request_id = new_id().encode()
        bare = scope.get("method") == "HEAD"
        if bare:
            scope = cast(Scope, {**scope, "method": "GET"})  # a copy: the server goes by its own

        async def enveloped(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (HEADER, request_id)]
            elif bare and message["type"] == "http.response.body":
                message["body"] = b""
            await send(message)

        token = _logged.set(request_id.decode())
        try:
            await self._app(scope, receive, enveloped)
        finally:
            _logged.reset(token)
