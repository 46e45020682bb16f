"""
An HTTP client without sockets: it calls an ASGI application, byte for byte as a server would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from urllib.parse import quote

import msgspec
from msgspec import Struct

CHUNK = 65_536


class Answer(Struct, frozen=True):
    """
    One whole answer; header names in lower case.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """
        The body, parsed as strictly as JSON is defined.
        """
        return json.loads(self.body.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_once)

    @property
    def code(self) -> str | None:
        """
        The code of a problem; None for what is none.
        """
        if self.headers.get("content-type") != "application/problem+json":
            return None
        code: str = self.json["code"]
        return code


class Asgi:
    """
    Sends requests to ``app``, with ``key`` where a request names no other.
    """

    def __init__(self, app: Any, key: str | None = None) -> None:
        self.app = app
        self.key = key

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.request("GET", path, **more)

    async def post(self, path: str, body: Any = b"", **more: Any) -> Answer:
        return await self.request("POST", path, body, **more)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = b"",
        *,
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
        query: str = "",
    ) -> Answer:
        """
        The answer to one request.

        Args:
            body: bytes as they are, or what is to be JSON.
            key: who asks, if not this client's own key; None for nobody.
            query: as it stands in the URL.
        """
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        known = self.key if key == "" else key
        named = {"host": "uns.test", "content-length": str(len(content))}
        named |= {"authorization": f"Bearer {known}"} if known is not None else {}
        named |= {name.lower(): value for name, value in (headers or {}).items()}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        exchange = _Exchange(content)
        await self.app(scope, exchange.receive, exchange.send)
        return exchange.answer()


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[None]:
    """
    ``app`` between its start and its end, which one task sees through, as in a server.
    """
    started, stop = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            started.set()
            await stop.wait()

    life = asyncio.ensure_future(live())
    await started.wait()
    try:
        yield
    finally:
        stop.set()
        await life


class _Exchange:
    def __init__(self, content: bytes) -> None:
        self._parts = [content[at : at + CHUNK] for at in range(0, len(content), CHUNK)] or [b""]
        self._start: Any = None
        self._body = b""
        self._ended = False

    async def receive(self) -> dict[str, Any]:
        if not self._parts:
            await asyncio.Event().wait()  # the caller stays, and says nothing more
        part = self._parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self._parts)}

    async def send(self, message: dict[str, Any]) -> None:
        assert not self._ended, "more after the end of an answer"
        if message["type"] == "http.response.start":
            assert self._start is None, "a second answer"
            self._start = message
        else:
            assert message["type"] == "http.response.body"
            self._body += message.get("body", b"")
            self._ended = not message.get("more_body", False)

    def answer(self) -> Answer:
        assert self._ended, "an answer without an end"
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._start["headers"]}
        assert len(headers) == len(self._start["headers"]), "a header twice"
        return Answer(int(self._start["status"]), headers, self._body)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a name twice"
    return dict(pairs)
