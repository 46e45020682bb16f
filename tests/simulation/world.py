"""
The world of one run: time and its clocks, chance, the ledger's store, and who is alive.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, ContextVar
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from simulation.truth import Truth
from simulation.virtual import VirtualLoop
from simulation.weather import CALM, Weather
from uns.adapters.memory.store import MemoryStore
from uns.ports.decision import Signal
from uns.ports.errors import Stale

if TYPE_CHECKING:
    from simulation.process import Process

EPOCH = 1_800_000_000.0
ACTING: ContextVar[Process | None] = ContextVar("acting", default=None)
"""The process that code runs in; None for the world outside."""

LEASE: ContextVar[str] = ContextVar("lease")
"""The token under which code calls channels."""


class Dying(BaseException):
    """
    A process dies in the middle of a transaction.
    """


class World:
    """
    Everything that a run shares. All chance comes from ``chance``, all order from ``loop``.
    """

    def __init__(self, chance: Random, weather: Weather) -> None:
        self.chance = chance
        self.weather = weather
        self.loop = VirtualLoop(_standing_still, self._adopt)
        self.truth = Truth(self.loop.stop)
        self.outside = Context()
        self.processes: list[Process] = []
        self.outsiders: list[asyncio.Task[Any]] = []
        self.store = MemoryStore(self, publish=self._publish, on_commit=self._on_commit)
        self.store_offset = 0.0
        self.store_away_until = 0.0
        self.calm = False
        self.instant = EPOCH
        self._ids = count(1)
        self._acting: Process | None = None
        self._stale_to_come = 0
        self._dying = False

    # Time

    def now(self) -> float:
        """
        The clock of the transactions.
        """
        own = self._acting.machine if self.weather.own_clocks and self._acting is not None else None
        return self.wall(self.store_offset if own is None else own.offset)

    def wall(self, offset: float) -> float:
        """
        Unix seconds on a clock that is ``offset`` ahead of true time.
        """
        return EPOCH + self.loop.time() + offset

    def within(self, longest: float) -> float:
        """
        A time drawn from 0 to ``longest`` seconds, short ones being likelier.
        """
        return longest * self.chance.random() ** 2

    def happens(self, share: float) -> bool:
        return self.chance.random() < share

    # Identity

    def new_id(self, wall: float) -> str:
        """
        A UUIDv7 in text form: made at ``wall``, unlike any other of this run.
        """
        at, n = int(wall * 1000), next(self._ids)
        return f"{at >> 16:08x}-{at & 0xFFFF:04x}-7{n >> 12:03x}-8{n & 0xFFF:03x}-000000000000"

    # Events of the world

    def later(self, seconds: float, callback: Any, *args: Any) -> None:
        """
        Do something outside of every process: neither crash nor pause can prevent it.
        """
        self.loop.call_later(seconds, callback, *args, context=self.outside)

    def outsider(self, coro: Any) -> asyncio.Task[Any]:
        """
        Someone who acts from outside of every process.
        """
        return self.loop.create_task(coro, context=self.outside.copy())

    def note(self, who: str, what: str, about: Any = "") -> None:
        self.truth.note(self.loop.time(), who, what, about)

    def occurred(self, what: str) -> None:
        self.truth.counts[what] += 1

    def alive(self) -> list[Process]:
        return [process for process in self.processes if not process.dead]

    def calm_down(self) -> None:
        """
        Faults cease.
        """
        self.calm = True
        self.weather = replace(CALM, fair=self.weather.fair)
        self.store_offset = 0.0
        self.store_away_until = 0.0

    # Transactions

    def transact(self, process: Process, plan: Any, *, stale: int = 0, dying: bool = False) -> Any:
        """
        Run a plan by the clock of ``process``; its first ``stale`` tries meet a row that moved.

        Raises:
            Dying: where ``dying`` says that the process dies before the commit.
        """
        self._acting, self._stale_to_come, self._dying = process, stale, dying
        self.instant = self.now()
        try:
            return self.store.transact(plan)
        finally:
            self._acting, self._stale_to_come, self._dying = None, 0, False

    def read(self, process: Process, plan: Any) -> Any:
        self._acting = process
        try:
            return self.store.read(plan)
        finally:
            self._acting = None

    def _on_commit(self) -> None:
        if self._dying:
            raise Dying
        if self._stale_to_come:
            self._stale_to_come -= 1
            raise Stale

    def _adopt(self, task: asyncio.Task[Any], context: Context) -> None:
        process = context.get(ACTING)
        (self.outsiders if process is None else process.tasks).append(task)

    def _publish(self, signals: list[Signal]) -> None:
        if not signals or self.happens(self.weather.lost_signals):
            return
        for process in self.alive():
            process.pubsub.publish(signals)


def _standing_still(context: Context) -> float:
    process = context.get(ACTING)
    return 0.0 if process is None or process.dead else process.machine.still_until
