"""
What a relay needs of whatever carries its messages, and how it keeps time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from uns.adapters.pubsub.envelope import Format, Message
from uns.adapters.sources import SystemChance
from uns.ports.sources import Chance

CLOSE_SECONDS = 1.0


class Link(Protocol):
    """
    A connection that stands, and listens already. It is used by one task for each of its methods.
    """

    async def send(self, messages: Sequence[Message]) -> None:
        """
        Gives up when there is no reply in time. Any exception means that the link is of no more use.
        """
        ...

    async def hear(self) -> Sequence[Message]:
        """
        The next messages. Looks after the connection in the meantime, and raises once it is dead.
        """
        ...

    async def close(self) -> None: ...


class Wire(Protocol):
    """
    Where links are made, and how what goes over them is written.
    """

    @property
    def name(self) -> str:
        """
        What the log calls it: no secret.
        """
        ...

    @property
    def format(self) -> Format: ...

    async def connect(self) -> Link: ...


class Pace(Struct, frozen=True, kw_only=True):
    """
    Seconds. ``send_every`` is the least between two messages of wake-ups.

    Pauses between attempts to connect double from ``first_pause`` to ``longest_pause``. A link that
    said nothing for ``quiet`` is asked whether it is alive, and has ``reply`` to answer, as every
    command has.
    """

    send_every: float = 0.02
    first_pause: float = 0.1
    longest_pause: float = 5.0
    connect: float = 5.0
    quiet: float = 10.0
    reply: float = 5.0
    leave: float = 0.5


class Timing(Struct, frozen=True, kw_only=True):
    """
    Where a relay's time and chance come from.
    """

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Chance = SystemChance()


async def to_the_end(ending: Coroutine[Any, Any, None]) -> None:
    """
    Await what cleans up; a cancellation in the meantime is passed on once that is done.

    What goes wrong in it is of no more interest. It is given a second.
    """
    task = asyncio.ensure_future(asyncio.wait_for(ending, CLOSE_SECONDS))
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
    finally:
        if task.done() and not task.cancelled():
            task.exception()  # seen: nobody is warned of it


def place(kind: str, url: str) -> str:
    """
    A server as the log may name it: without user, password and options.
    """
    try:
        parts = urlsplit(url)
        return f"{kind} at {parts.hostname or 'localhost'}" + (f":{parts.port}" if parts.port else "")
    except ValueError:  # several hosts
        return kind
