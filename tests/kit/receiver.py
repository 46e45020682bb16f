"""
An HTTP server on loopback, raw enough to misbehave in every way that a receiver can.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from msgspec import Struct

LOOPBACK = "127.0.0.1"

_KNOWN = frozenset(HTTPStatus)

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Received(Struct, frozen=True):
    """
    One request; header names in lower case.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """
    Answers each connection with the next of ``script``, then the last one for ever.

    ``requests`` are those that arrived whole, ``connections`` all that were opened, ``names`` what
    TLS clients asked for.
    """

    def __init__(self, *script: Behaviour) -> None:
        self.requests: list[Received] = []
        self.connections = 0
        self.names: list[str | None] = []
        self.host, self.port = LOOPBACK, 0
        self._scheme = "http"
        self._script = list(script) or [answers()]
        self._busy: set[asyncio.Task[None]] = set()

    def url(self, path: str = "/hook", host: str | None = None) -> str:
        """
        Where it listens, or the same port under another name.
        """
        return f"{self._scheme}://{host or self.host}:{self.port}{path}"

    async def listen(self, host: str, tls: ssl.SSLContext | None) -> asyncio.Server:
        if tls is not None:
            self._scheme = "https"
            tls.sni_callback = lambda _, name, __: self.names.append(name)
        server = await asyncio.start_server(self._serve, host, 0, ssl=tls)
        self.host, self.port = server.sockets[0].getsockname()[:2]
        return server

    async def stop(self) -> None:
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._busy.add(task)
        self.connections += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                self.requests.append(await _received(reader))
                behaviour = self._script.pop(0) if len(self._script) > 1 else self._script[0]
                await behaviour(writer)
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            self._busy.discard(task)
            writer.close()


class Names:
    """
    A resolver that answers each question about a name with the next of its lists, then the last.
    """

    def __init__(self, names: Mapping[str, Sequence[list[str]]]) -> None:
        self.asked: list[str] = []
        self._names = {host: list(answers) for host, answers in names.items()}

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self._names.get(host)
        if not answers:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@asynccontextmanager
async def receiving(
    *script: Behaviour, host: str = LOOPBACK, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """
    A receiver that listens.
    """
    receiver = Receiver(*script)
    server = await receiver.listen(host, tls)
    try:
        yield receiver
    finally:
        server.close()
        await receiver.stop()
        await server.wait_closed()


def answers(status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Behaviour:
    """
    A whole answer.
    """
    named = {"Content-Length": str(len(body))} | dict(headers or {})
    return says(head(status, named) + body)


def says(raw: bytes) -> Behaviour:
    """
    These bytes, and then the end.
    """

    async def behave(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return behave


def hangs(after: bytes = b"") -> Behaviour:
    """
    These bytes, and then nothing for ever.
    """

    async def behave(writer: asyncio.StreamWriter) -> None:
        await says(after)(writer)
        await asyncio.Event().wait()

    return behave


def trickles(before: bytes, pause: float) -> Behaviour:
    """
    These bytes, and then one more with every pause, for ever.
    """

    async def behave(writer: asyncio.StreamWriter) -> None:
        await says(before)(writer)
        while True:
            await asyncio.sleep(pause)
            await says(b"x")(writer)

    return behave


def floods(before: bytes) -> Behaviour:
    """
    These bytes, and then as many more as the other side will take.
    """

    async def behave(writer: asyncio.StreamWriter) -> None:
        await says(before)(writer)
        while True:
            await says(b"x" * 65_536)(writer)

    return behave


def resets() -> Behaviour:
    """
    A connection that is torn down instead of being answered.
    """

    async def behave(writer: asyncio.StreamWriter) -> None:
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return behave


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """
    Status line and headers.
    """
    phrase = HTTPStatus(status).phrase if status in _KNOWN else "Odd"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _received(reader: asyncio.StreamReader) -> Received:
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = start.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, target, headers, body)
