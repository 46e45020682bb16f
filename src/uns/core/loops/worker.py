"""
The worker: three loops with independent progress, woken by signals and otherwise polling.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from uns.core.loops.courier import BATCH, Courier
from uns.core.loops.dispatcher import Dispatcher
from uns.core.loops.sweeper import Sweeper
from uns.core.plans.response import SWEEP_LIMIT
from uns.core.rules.lease import Claim
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import Closed
from uns.ports.pubsub import PubSub

CONCURRENCY = 64
POLL_SECONDS = 1.0
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


class Worker:
    """
    Owns the dispatch, time-out and callback loops of a process.

    Args:
        concurrency: how many notifications are carried at once; calls that overran their limit
            count until they return.
        poll_seconds: how long a loop sleeps when no signal comes.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        sweeper: Sweeper,
        courier: Courier | None,
        pubsub: PubSub,
        *,
        concurrency: int = CONCURRENCY,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._dispatcher = dispatcher
        self._sweeper = sweeper
        self._courier = courier
        self._pubsub = pubsub
        self._concurrency = concurrency
        self._poll = poll_seconds
        self._carrying: set[asyncio.Task[None]] = set()
        self.beats: tuple[Beat, ...] = ()

    async def run(self, stop: asyncio.Event) -> None:
        """
        Work until ``stop`` is set; then finish what was claimed, for at most eight seconds.

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
        loops = [asyncio.ensure_future(self._loop(beat, *steps[beat.name])) for beat in self.beats]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()
            await self._drain()

    def healthy(self, now: float) -> bool:
        """
        Whether every loop is alive and has come round within a minute of ``now`` (loop time).
        """
        return bool(self.beats) and all(b.alive and now - b.last_round < STUCK_SECONDS for b in self.beats)

    async def _loop(
        self, beat: Beat, step: Callable[[], Awaitable[bool]], wakes: frozenset[SignalKind]
    ) -> None:
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()

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
            _log.exception("the %s loop failed", beat.name)
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
        free = self._concurrency - len(self._carrying) - self._dispatcher.overdue
        if free <= 0:
            if self._carrying:
                await asyncio.wait(self._carrying, timeout=self._poll, return_when=asyncio.FIRST_COMPLETED)
            return bool(self._carrying)
        leased_at = asyncio.get_running_loop().time()
        claims = await self._dispatcher.claim_due(free)
        for claim in claims:
            task = asyncio.ensure_future(self._carry(claim, leased_at))
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)
        return len(claims) == free

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
        _, late = await asyncio.wait(self._carrying, timeout=GRACE_SECONDS)
        for task in late:
            task.cancel()
