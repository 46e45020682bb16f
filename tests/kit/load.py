"""
Load over HTTP: connections that are kept open, each posting one body after another.

Raw sockets and the least of a parser: what is to be measured is the other side.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from kit.receiver import LOOPBACK

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Load(Struct, frozen=True):
    """
    What became of the requests: how many had which status, and how long all of them took.
    """

    statuses: dict[int, int]
    seconds: float

    @property
    def rate(self) -> float:
        """
        Requests a second.
        """
        return sum(self.statuses.values()) / self.seconds


async def load(
    port: int,
    path: str,
    bodies: Iterator[bytes],
    headers: Mapping[str, str] | None = None,
    *,
    connections: int = 32,
) -> Load:
    """
    Post every one of ``bodies``, as many at once as there are ``connections``.
    """
    head = _head(path, headers or {})
    loop, statuses = asyncio.get_running_loop(), Counter[int]()
    opened = [
        await loop.create_connection(lambda: _Connection(head, bodies, statuses), LOOPBACK, port)
        for _ in range(connections)
    ]
    begun = time.perf_counter()
    for _, connection in opened:
        connection.next()
    await asyncio.gather(*(connection.done for _, connection in opened))
    return Load(dict(statuses), time.perf_counter() - begun)


class _Connection(asyncio.Protocol):
    """
    One request at a time, the next one as soon as the last one is answered.
    """

    def __init__(self, head: bytes, bodies: Iterator[bytes], statuses: Counter[int]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = head
        self._bodies = bodies
        self._statuses = statuses
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def next(self) -> None:
        """
        Post the next body; close when there is none.
        """
        body = next(self._bodies, None)
        if body is None:
            self._transport.close()
        else:
            self._transport.write(self._head + b"%d" % len(body) + _END + body)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(_END)
        if end and len(body) >= _length(head):
            self._statuses[int(head[9:12])] += 1
            self._answer = b""
            self.next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None) if error is None else self.done.set_exception(error)


def _head(path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {LOOPBACK}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Content-Length: "]).encode()


def _length(head: bytes) -> int:
    at = head.lower().index(_LENGTH) + len(_LENGTH)
    return int(head[at:].partition(b"\r\n")[0])
