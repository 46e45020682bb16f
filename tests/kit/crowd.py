"""
A crowd of HTTP clients, each sending one request after another, that notes what became of each.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec

from kit.builders import AGENT
from kit.receiver import LOOPBACK

PAUSE_SECONDS = 0.02
"""Before a door that was closed is tried again."""

_END = b"\r\n\r\n"


class Crowd:
    """
    Half of the clients keep their connection while the service lets them, half open one for each request.

    ``answers`` are the statuses by idempotency key, ``accepted`` the ids, ``cut`` the keys of requests
    that went out and were not answered. A connection that was refused is none of these.
    """

    def __init__(self, port: int, key: str, *, clients: int = 16, prefer: str = "") -> None:
        self.answers: dict[str, int] = {}
        self.accepted: dict[str, str] = {}
        self.cut: list[str] = []
        self.refused = 0
        self._port = port
        self._head = (
            f"POST /api/v1/notifications HTTP/1.1\r\nHost: {LOOPBACK}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nPrefer: {prefer or 'none'}\r\nContent-Length: "
        )
        self._clients = clients
        self._gone = asyncio.Event()

    async def __aenter__(self) -> Crowd:
        self._tasks = [asyncio.ensure_future(self._client(n, keeps=n % 2 == 0)) for n in range(self._clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._gone.set()
        await asyncio.gather(*self._tasks)

    async def _client(self, number: int, *, keeps: bool) -> None:
        turn, pipe = 0, None
        while not self._gone.is_set():
            if pipe is None:
                try:
                    pipe = await asyncio.open_connection(LOOPBACK, self._port)
                except OSError:
                    self.refused += 1
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
            key, turn = f"{number}-{turn}", turn + 1
            kept = await self._ask(key, pipe)
            if not (keeps and kept):
                pipe[1].close()
                pipe = None
        if pipe is not None:
            pipe[1].close()

    async def _ask(self, key: str, pipe: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bool:
        """
        Whether the connection may be used again.
        """
        reader, writer = pipe
        body = msgspec.json.encode(a_body(key))
        try:
            writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            head = (await reader.readuntil(_END)).decode("latin-1").lower()
            lines = dict(line.partition(": ")[::2] for line in head.split("\r\n")[1:])
            answer = await reader.readexactly(int(lines["content-length"]))
        except (OSError, asyncio.IncompleteReadError):
            self.cut.append(key)
            return False
        status = self.answers[key] = int(head.split(" ", 2)[1])
        if status == HTTPStatus.ACCEPTED:
            self.accepted[key] = msgspec.json.decode(answer)["notification_id"]
        return lines.get("connection") != "close"


def a_body(key: str) -> dict[str, Any]:
    """
    The request under an idempotency key, which is its title as well.
    """
    return {
        "notification_type": "crowd.alert",
        "intent": "OPERATIONAL",
        "title": key,
        "message": "m",
        "source": "crowd",
        "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": AGENT},
        "idempotency_key": key,
    }


async def until_accepted(crowd: Crowd, count: int, seconds: float = 30.0) -> None:
    """
    Wait until so many were accepted.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while len(crowd.accepted) < count:  # noqa: ASYNC110 - a test polls
                await asyncio.sleep(PAUSE_SECONDS)
    assert count <= len(crowd.accepted)
