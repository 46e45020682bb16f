"""
The providers behind the channels and the producer's callback: slow, rude, broken, sometimes well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from simulation.truth import Call
from simulation.world import World
from uns.adapters.channels.registry import SimpleAdapterRegistry
from uns.core.rules.policy import Resolver
from uns.ports.channel import ChannelMessage, ChannelResult

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.watch import Watch

LIMITS = {"SLACK": 10.0, "EMAIL": 10.0, "PAGERDUTY": 50.0}
"""The channels there are, and how long each asks for; the last one for more than a lease allows."""


class Turn(StrEnum):
    """
    How one call goes.
    """

    WELL = "well"
    BADLY = "badly"
    RAISES = "raises"
    REFUSED = "refused"
    PACED = "paced"
    HANGS = "hangs"
    MUTE = "mute"  # the message arrives, the answer never does
    RUDE = "rude"  # as mute, and cancelling it does not help at once
    KILLS = "kills"  # the process that calls dies of it


class Mood(Struct, frozen=True):
    """
    How calls go at one provider for a while.
    """

    name: str
    turns: tuple[Turn, ...]
    weights: tuple[int, ...]


_T = Turn
WELL = Mood("well", (_T.WELL,), (1,))
BROKEN = Mood("broken", (_T.BADLY, _T.RAISES, _T.HANGS), (6, 1, 1))
REFUSING = Mood("refusing", (_T.REFUSED, _T.WELL), (5, 1))
MOODS = (
    WELL,
    BROKEN,
    BROKEN,
    Mood("flaky", (_T.WELL, _T.BADLY, _T.MUTE, _T.RUDE, _T.KILLS), (9, 8, 2, 1, 1)),
    REFUSING,
    Mood("pacing", (_T.PACED, _T.WELL), (4, 1)),
    Mood("deadly", (_T.KILLS, _T.WELL, _T.BADLY), (3, 2, 2)),
)
Delivered = Callable[[str], None]
DARK_MOODS = (BROKEN, BROKEN, REFUSING, WELL)


class Office:
    """
    What all processes share with the outside: the providers, the producer's callback, people.

    Args:
        delivered: told of each message that reached its people, at the moment it did.
    """

    def __init__(
        self, world: World, watch: Watch, resolver: Resolver, moods: Sequence[Mood], delivered: Delivered
    ) -> None:
        self.watch = watch
        self.resolver = resolver
        self.delivered = delivered
        self.callbacks_fail = world.chance.choice((0.0, 0.3, 0.9))
        self._world = world
        self._moods = moods
        self._mood = {name: world.chance.choice(moods) for name in LIMITS}

    def change(self) -> None:
        """
        One provider breaks down, or recovers.
        """
        self._mood[self._world.chance.choice(tuple(LIMITS))] = self._world.chance.choice(self._moods)

    def settle(self, mood: Mood) -> None:
        """
        All providers are in one mood from now on.
        """
        self._mood = dict.fromkeys(LIMITS, mood)

    def turn(self, channel: str) -> Turn:
        mood = self._mood[channel]
        return self._world.chance.choices(mood.turns, mood.weights)[0]

    async def called_back(self, event: dict[str, Any]) -> None:
        """
        The producer's side of a callback.
        """
        world = self._world
        well = not world.happens(self.callbacks_fail)
        slow = not well and world.happens(0.3)
        self.watch.tells(event)
        await asyncio.sleep(20.0 if slow else world.within(3.0))
        self.watch.told(event, well)
        if not well:
            raise ConnectionError("the producer is not listening")


class Line:
    """
    The adapter of one channel in one process.
    """

    def __init__(self, world: World, process: Process, office: Office, channel: str) -> None:
        self.timeout_seconds = LIMITS[channel]
        self._world = world
        self._process = process
        self._office = office
        self._channel = channel

    async def send(self, message: ChannelMessage) -> ChannelResult:
        world, turn = self._world, self._office.turn(self._channel)
        if world.happens(world.weather.stalls):
            self._process.machine.stand_still(world)
            await asyncio.sleep(0)  # between the last look at the lease and the call
        call = self._office.watch.calls(self._process, self._channel, message, rude=turn is Turn.RUDE)
        # Most calls are quick; some come close to their limit, or beyond it.
        whole = world.within(1.0 if world.happens(0.8) else 1.2 * self.timeout_seconds)
        until_delivered = whole * world.chance.random()
        try:
            await asyncio.sleep(until_delivered)
            if world.happens(world.weather.stalls):
                self._process.machine.stand_still(world)
            return await self._ended(call, turn, whole - until_delivered)
        finally:
            call.ended = world.loop.time()

    async def _ended(self, call: Call, turn: Turn, rest: float) -> ChannelResult:
        if turn in _DELIVERING or (turn is Turn.KILLS and self._world.happens(0.5)):
            self._deliver(call)
        if turn is Turn.KILLS:
            self._process.crash()
        if turn in _SILENT:
            await self._say_nothing(call)
        if turn is Turn.RUDE:
            await _deaf(self._process, self._world.within(60.0))
        await asyncio.sleep(rest)
        return self._result(call, turn)

    async def _say_nothing(self, call: Call) -> None:
        # The caller's patience may end while its process stands still.
        world = self._world
        await asyncio.sleep(max(call.limit - world.within(2.0) - (world.loop.time() - call.started), 0.0))
        if world.happens(3 * world.weather.stalls):
            self._process.machine.stand_still(world)
        await asyncio.sleep(_FOR_EVER)

    def _result(self, call: Call, turn: Turn) -> ChannelResult:
        match turn:
            case Turn.RAISES:
                raise OSError("connection reset")
            case Turn.REFUSED:
                self._office.watch.refuses(call)
                return ChannelResult(False, error="unknown recipient", retryable=False)
            case Turn.PACED:
                return ChannelResult(False, error="too many requests", retry_after=self._world.within(20.0))
            case Turn.BADLY:
                return ChannelResult(False, error="internal error")
            case _:
                return ChannelResult(True, message_id=call.channel)

    def _deliver(self, call: Call) -> None:
        call.delivered = True
        self._world.note(self._channel, "delivers", call.id)
        self._office.delivered(call.id)


def adapters(world: World, process: Process, office: Office) -> SimpleAdapterRegistry:
    """
    All channels, as one process reaches them.
    """
    return SimpleAdapterRegistry({name: Line(world, process, office, name) for name in LIMITS})


async def _deaf(process: Process, seconds: float) -> None:
    # As an adapter that calls in a thread: it cannot be cancelled, only outlived.
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while not process.dead and loop.time() < until:
        try:
            await asyncio.sleep(until - loop.time())
        except asyncio.CancelledError:
            continue


_DELIVERING = frozenset({Turn.WELL, Turn.MUTE, Turn.RUDE})
_SILENT = frozenset({Turn.HANGS, Turn.MUTE, Turn.KILLS})
_FOR_EVER = 1e9
