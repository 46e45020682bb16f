"""
A wire that breaks when told, for relays whose pauses take no time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import contextmanager

from kit.process import Even
from kit.waiting import soon
from uns.adapters.pubsub.envelope import Format, Message
from uns.adapters.pubsub.relay import RelayPubSub
from uns.adapters.pubsub.wire import Pace, Timing
from uns.ports.decision import Signal

FORMAT = Format(wake_channel="wakes", reload_channel="reloads")
PACE = Pace(first_pause=0.1, longest_pause=5.0)


class Broken(Exception):
    """
    What a wire says when it breaks.
    """


class ScriptedLink:
    """
    One connection: what was sent over it, and what others are made to say.
    """

    def __init__(self, *, sends: bool) -> None:
        self.sent: list[Message] = []
        self.closed = False
        self._sends = sends
        self._loop = asyncio.get_running_loop()
        self._said: asyncio.Queue[Message | None] = asyncio.Queue()

    def say(self, channel: str, payload: str | bytes) -> None:
        self._loop.call_soon_threadsafe(self._said.put_nowait, Message(channel, payload))

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._said.put_nowait, None)

    async def send(self, messages: Sequence[Message]) -> None:
        if not self._sends:
            raise Broken("cannot send")
        self.sent.extend(messages)

    async def hear(self) -> Sequence[Message]:
        message = await self._said.get()
        if message is None:
            raise Broken("was cut")
        return [message]

    async def close(self) -> None:
        self.closed = True


class ScriptedWire:
    """
    ``refuses`` connections before it makes one, and makes one that ``cannot_send`` at first.
    """

    name = "the wire"
    format = FORMAT

    def __init__(self, refuses: int = 0, *, cannot_send: int = 0) -> None:
        self.refuses = refuses
        self.cannot_send = cannot_send
        self.links: list[ScriptedLink] = []

    async def connect(self) -> ScriptedLink:
        if self.refuses:
            self.refuses -= 1
            raise Broken("refused\nat once")
        self.cannot_send -= 1
        link = ScriptedLink(sends=self.cannot_send < 0)
        self.links.append(link)
        return link

    @property
    def sent(self) -> list[Message]:
        return [message for link in self.links for message in link.sent]


class Time:
    """
    Pauses are noted and take none, but that after a message, which lasts while ``held``.
    """

    def __init__(self, chance: float = 0.0) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self.free = threading.Event()
        self.free.set()
        self.timing = Timing(sleep=self._sleep, clock=lambda: self.now, chance=Even(chance))

    @contextmanager
    def held(self):
        self.free.clear()
        try:
            yield
        finally:
            self.free.set()

    async def _sleep(self, seconds: float) -> None:
        if seconds != PACE.send_every:
            self.pauses.append(seconds)
        elif not self.free.is_set():
            await asyncio.to_thread(self.free.wait)
        await asyncio.sleep(0)


@contextmanager
def relay(wire: ScriptedWire, time: Time | None = None, pace: Pace = PACE):
    """
    A relay over the wire, and what it tells.
    """
    pubsub = RelayPubSub(wire, pace, (time or Time()).timing)
    heard: list[Signal] = []
    try:
        pubsub.subscribe(heard.extend)
        yield pubsub, heard
    finally:
        pubsub.close()


def connected(wire: ScriptedWire, heard: list[Signal], links: int = 1) -> ScriptedLink:
    """
    The last link, once there are so many and what it is worth is told; that is forgotten.
    """
    soon(lambda: len(wire.links) == links and heard)
    heard.clear()
    return wire.links[-1]
