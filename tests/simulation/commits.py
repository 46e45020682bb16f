"""
The way to the store and back, on which plans are late, lost, or survived by nobody who asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from simulation.weather import POLLS, Fate
from simulation.world import Dying, World
from uns.ports.errors import StoreUnavailable, UnsError
from uns.ports.store import Plan

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.watch import Watch

_LATENCY = 0.4
_LONG_QUEUE = 100.0
_STALE_TRIES = (1, 2, 5)
"""How often a row moves under a transaction; the fifth time the store gives up."""

_SHORT_FOR = {
    "uns.core.plans.callbacks": "callback ",
    "uns.core.plans.policies": "policies ",
}


def name_of(plan: Plan[Any]) -> str:
    """
    What a plan is called in traces and counts.
    """
    return _SHORT_FOR.get(plan.run.__module__, "") + plan.run.__qualname__.split(".")[0]


class UncertainCommits:
    """
    ``Commits`` of one process. What was handed in may be committed even if its caller is gone.
    """

    def __init__(self, world: World, process: Process, watch: Watch) -> None:
        self._world = world
        self._process = process
        self._watch = watch

    async def run(self, plan: Plan[Any]) -> Any:
        return await self._send(self._arrive, plan)

    async def read(self, plan: Plan[Any]) -> Any:
        return await self._send(self._look, plan)

    async def _send(self, handler: Any, plan: Plan[Any]) -> Any:
        if self._process.dead:
            raise asyncio.CancelledError  # the dead do nothing, not even on their way out
        answer = self._world.loop.create_future()
        self._world.later(self._latency(_LONG_QUEUE), handler, plan, answer)
        return await answer

    def _latency(self, longest: float) -> float:
        world = self._world
        return world.within(longest if world.happens(world.weather.slow_store) else _LATENCY)

    def _look(self, plan: Plan[Any], answer: asyncio.Future[Any]) -> None:
        try:
            self._answer(answer, self._world.read(self._process, plan))
        except UnsError as error:
            self._answer(answer, error)

    def _arrive(self, plan: Plan[Any], answer: asyncio.Future[Any]) -> None:
        world = self._world
        if self._process.dead and world.happens(0.5):
            return  # it died before the plan was on its way
        away = world.loop.time() < world.store_away_until
        fate = Fate.UNAVAILABLE if away else world.weather.fate(world.chance, name_of(plan))
        if fate in (Fate.LOST, Fate.CRASH_AFTER):
            self._too_late(fate, plan, answer)
            return
        if fate is not Fate.FINE:
            self._met_with(fate, plan)
        match fate:
            case Fate.UNAVAILABLE:
                self._answer(answer, StoreUnavailable())
            case Fate.CRASH_BEFORE:
                self._die_in(plan)
            case Fate.STALE:
                self._answer(answer, self._commit(plan, stale=world.chance.choice(_STALE_TRIES)))
            case _:
                self._answer(answer, self._commit(plan))

    def _too_late(self, fate: Fate, plan: Plan[Any], answer: asyncio.Future[Any]) -> None:
        """
        It goes wrong once the plan is committed; a poll that found nothing to do is left alone.
        """
        reply = self._commit(plan, lost=fate is Fate.LOST)
        if name_of(plan) in POLLS and not reply:
            self._answer(answer, reply)
            return
        self._met_with(fate, plan)
        if fate is Fate.LOST:
            self._answer(answer, StoreUnavailable())
        else:
            self._process.crash()

    def _met_with(self, fate: Fate, plan: Plan[Any]) -> None:
        self._world.note(self._process.name, fate, name_of(plan))
        self._world.occurred(f"{fate}: {name_of(plan)}")

    def _commit(self, plan: Plan[Any], *, stale: int = 0, lost: bool = False) -> Any:
        self._watch.before()
        try:
            reply = self._world.transact(self._process, plan, stale=stale)
        except UnsError as error:
            self._watch.refused(plan, error)
            return error
        self._watch.committed(self._process, plan, reply, lost=lost)
        if name_of(plan) == "claim_due" and reply and self._world.happens(self._world.weather.untimely_stops):
            self._process.stop()  # with claims in its hands
        return reply

    def _die_in(self, plan: Plan[Any]) -> None:
        try:
            self._world.transact(self._process, plan, dying=True)
        except (Dying, UnsError):
            self._process.crash()

    def _answer(self, answer: asyncio.Future[Any], outcome: Any) -> None:
        world = self._world
        world.later(self._latency(world.weather.pause_seconds), _settle, answer, outcome)
        if world.happens(world.weather.stalls / 10):
            self._process.machine.stand_still(world)


def _settle(answer: asyncio.Future[Any], outcome: Any) -> None:
    if answer.done():
        return  # whoever asked is gone
    if isinstance(outcome, UnsError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
