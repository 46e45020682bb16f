"""
The worker: three loops with independent progress, woken by signals and otherwise polling.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from msgspec import Struct

from uns.core.loops.courier import BATCH, Courier
from uns.core.loops.dispatcher import Dispatcher
from uns.core.loops.sweeper import Sweeper
from uns.core.plans.response import SWEEP_LIMIT
from uns.core.rules.lease import Claim
from uns.core.rules.room import SHARE, Room, fits
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import Closed, StoreUnavailable
from uns.ports.pubsub import PubSub

STUCK_SECONDS = 60.0
GRACE_SECONDS = 8.0

_log = logging.getLogger(__name__)


class Beat(Struct):
    """
    The pulse of one loop: when it last came round (event-loop time), and what it last met.
    """

    name: str
    alive: bool = False
    last_round: float = 0.0
    failures_in_row: int = 0
    last_error: str | None = None


class Pace(Struct, frozen=True):
    """
    How much a worker does at once, and how often it looks.

    ``concurrency`` is how many notifications are carried at once; calls that overran their limit
    count until they return. ``poll_seconds`` is how long a loop sleeps when no signal comes.
    ``share`` is the largest part of the concurrency that one destination gets.
    """

    concurrency: int = 64
    poll_seconds: float = 1.0
    share: float = SHARE


class Worker:
    """
    Owns the dispatch, time-out and callback loops of a process.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        sweeper: Sweeper,
        courier: Courier | None,
        pubsub: PubSub,
        pace: Pace = Pace(),  # noqa: B008 - immutable
    ) -> None:
        self._dispatcher = dispatcher
        self._sweeper = sweeper
        self._courier = courier
        self._pubsub = pubsub
        self._concurrency = pace.concurrency
        self._poll = pace.poll_seconds
        self._share = pace.share
        self._carrying: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()
        self._passed_over: tuple[str, ...] = ()
        self._wakes: dict[str, asyncio.Event] = {}
        self.beats: tuple[Beat, ...] = ()

    async def run(self, stop: asyncio.Event) -> None:
        """
        Work until ``stop`` is set; then end the rounds under way and what was claimed, within eight seconds.

        Raises:
            Closed: the runtime was closed under it.
        """
        steps: dict[str, tuple[Callable[[], Awaitable[bool]], frozenset[SignalKind]]] = {
            "dispatch": (self._dispatch, frozenset({SignalKind.DUE})),
            "expiry": (self._expire, frozenset()),
        }
        if self._courier is not None:
            steps["callback"] = (self._call_back, frozenset({SignalKind.CALLBACK}))
        self.beats = tuple(Beat(name) for name in steps)
        self._stop = stop
        self._ends = inf
        loops = [asyncio.ensure_future(self._loop(beat, *steps[beat.name])) for beat in self.beats]
        work: asyncio.Future[Any] = asyncio.gather(*loops)
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stopping())
        try:
            await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
            # A round of callbacks may take longer than there is: its leases lapse, and they are called again.
            await asyncio.wait({work}, timeout=GRACE_SECONDS)
            if work.done():
                await work
        finally:
            for task in (stopping, *loops):
                task.cancel()
            await asyncio.gather(work, stopping, return_exceptions=True)  # none is left that nobody awaits
            await self._drain()

    def healthy(self, now: float) -> bool:
        """
        Whether every loop is alive and has come round within a minute of ``now`` (loop time).
        """
        return bool(self.beats) and all(b.alive and now - b.last_round < STUCK_SECONDS for b in self.beats)

    async def _stopping(self) -> None:
        await self._stop.wait()
        self._ends = asyncio.get_running_loop().time() + GRACE_SECONDS

    async def _loop(
        self, beat: Beat, step: Callable[[], Awaitable[bool]], wakes: frozenset[SignalKind]
    ) -> None:
        loop = asyncio.get_running_loop()
        wake = self._wakes[beat.name] = asyncio.Event()

        def listen(signals: Sequence[Signal]) -> None:
            if any(signal.kind in wakes for signal in signals) and not loop.is_closed():
                loop.call_soon_threadsafe(wake.set)

        unsubscribe = self._pubsub.subscribe(listen)
        beat.alive = True
        try:
            while not self._stop.is_set():
                wake.clear()
                if not await self._round(beat, step):
                    await self._sleep(wake)
        finally:
            beat.alive = False
            unsubscribe()

    async def _round(self, beat: Beat, step: Callable[[], Awaitable[bool]]) -> bool:
        beat.last_round = asyncio.get_running_loop().time()
        try:
            more = await step()
        except Closed:  # no later round can go through either
            raise
        except Exception as error:
            # One bad round must not end the loop: the next may well go through.
            beat.failures_in_row += 1
            beat.last_error = f"{type(error).__name__}: {error}"
            # Why the store does not answer, its own line says; a stack for each round would bury it.
            unforeseen = None if isinstance(error, StoreUnavailable) else error
            _log.error("the %s loop failed: %s", beat.name, beat.last_error, exc_info=unforeseen)
            return False
        beat.failures_in_row = 0
        return more

    async def _sleep(self, wake: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(wake.wait()), asyncio.ensure_future(self._stop.wait())]
        try:
            await asyncio.wait(waits, timeout=self._poll, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _dispatch(self) -> bool:
        room = self._room()
        if room.slots <= 0:
            if not self._carrying:
                return False
            await asyncio.wait(self._carrying, timeout=self._poll, return_when=asyncio.FIRST_COMPLETED)
            return True  # also when all have ended at once: more may be due
        leased_at = asyncio.get_running_loop().time()
        claims = await self._dispatcher.claim_due(room.slots, room)
        for claim in claims:
            to = room.to(claim.row)
            task = asyncio.ensure_future(self._carry(claim, leased_at))
            self._carrying.add(task)
            self._busy.update(to)
            task.add_done_callback(partial(self._carried, to))
        self._passed_over = self._room().full
        # Where a destination has just become full, others may be due behind its rows.
        return len(claims) == room.slots or not set(self._passed_over) <= set(room.full)

    def _room(self) -> Room:
        slots = self._concurrency - len(self._carrying) - self._dispatcher.overdue
        busy, destinations = self._busy + self._dispatcher.overdue_to(), self._dispatcher.destinations
        full = {name for name, under_way in busy.items() if not fits(under_way, slots, self._share)}
        return Room(
            slots=slots,
            busy=busy,
            to=destinations.of_row,
            share=self._share,
            full=destinations.leading_to(full),
        )

    def _carried(self, to: tuple[str, ...], task: asyncio.Task[None]) -> None:
        self._carrying.discard(task)
        self._busy.subtract(to)
        self._busy += Counter()  # forgets those that nothing is under way to
        if self._passed_over:
            self._wakes["dispatch"].set()

    async def _carry(self, claim: Claim, leased_at: float) -> None:
        try:
            if self._stop.is_set():
                await self._dispatcher.give_back(claim)
            else:
                await self._dispatcher.carry(claim, leased_at)
        except Exception:
            _log.exception("notification %s was not settled; its lease will lapse", claim.id)

    async def _expire(self) -> bool:
        return await self._sweeper.sweep() == SWEEP_LIMIT

    async def _call_back(self) -> bool:
        return self._courier is not None and await self._courier.deliver() == BATCH

    async def _drain(self) -> None:
        if not self._carrying:
            return
        left = self._ends - asyncio.get_running_loop().time()
        _, late = await asyncio.wait(self._carrying, timeout=min(max(left, 0.0), GRACE_SECONDS))
        for task in late:
            task.cancel()
