"""
``POST /api/v1/notifications``: the busiest route, without what the framework does for the others.

It reads its body and writes its answer itself and gets the service by closure, which saves a third
of what the framework costs here (``benchmarks/bench_http.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec
from litestar import post
from litestar.exceptions import InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.handlers import HTTPRouteHandler
from litestar.types import HTTPDisconnectEvent, HTTPRequestEvent, Receive, Scope, Send
from msgspec import Struct

from uns.entrypoints import views
from uns.entrypoints.http.bodies import decoded_aside
from uns.entrypoints.http.service import HttpService
from uns.entrypoints.http.types import Caller
from uns.ports.requests import SendNotificationRequest

ACCEPTED = 202
MAX_BODY = 2 * 1024 * 1024
RESPOND_ASYNC = b"respond-async"
_DIGITS = 9

_encode = msgspec.json.Encoder().encode


def send_route(service: HttpService) -> HTTPRouteHandler:
    """
    The route, over this service.
    """

    @post("/api/v1/notifications", status_code=ACCEPTED, summary="Accept a notification; a worker sends it")
    async def send(request: Caller) -> Encoded:
        """
        202 says that the obligation is durable; ``status`` in the body says what became of it.

        Waits for the first attempt to settle, unless the request says ``Prefer: respond-async``.
        """
        headers = dict(request.scope["headers"])
        wanted = await decoded_aside(await whole_body(request, headers), SendNotificationRequest)
        asynchronous = b"prefer" in headers and prefers_async(request)
        wait = 0.0 if asynchronous else service.settings.send_wait_seconds
        submitted = await service.submitter.submit(wanted, request.user.principal, wait_seconds=wait)
        sent = views.sent(submitted.row, submitted.projection, replayed=submitted.replayed)
        return Encoded(sent, ACCEPTED)

    return send


class Encoded:
    """
    A struct as a JSON answer.
    """

    __slots__ = ("_body", "_status")

    def __init__(self, answer: Struct, status: int) -> None:
        self._body = _encode(answer)
        self._status = status

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        """
        Send it.
        """
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._body))]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


async def whole_body(request: Caller, headers: Mapping[bytes, bytes]) -> bytes:
    """
    The body, of up to 2 MiB.

    Raises:
        RequestEntityTooLarge: it is, or says that it is, larger.
        InternalServerException: the caller went away.
    """
    announced = headers.get(b"content-length", b"0")
    if len(announced) > _DIGITS or (announced.isdigit() and int(announced) > MAX_BODY):
        raise RequestEntityTooLarge
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = cast(HTTPRequestEvent | HTTPDisconnectEvent, await request.receive())
        if message["type"] == "http.disconnect":
            raise InternalServerException("the caller went away")
        part, more = message["body"], message["more_body"]
        size += len(part)
        if size > MAX_BODY:
            raise RequestEntityTooLarge
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def prefers_async(request: Caller) -> bool:
    """
    Whether one of the request's preferences (RFC 7240) is ``respond-async``.
    """
    given = [value for name, value in request.scope["headers"] if name == b"prefer"]
    preferences = [preference.partition(b";")[0].strip() for preference in b",".join(given).split(b",")]
    return RESPOND_ASYNC in map(bytes.lower, preferences)
