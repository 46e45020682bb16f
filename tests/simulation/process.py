"""
Machines and the processes on them: the real loops, wired as a service wires them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from simulation.commits import UncertainCommits
from simulation.providers import Office, adapters
from simulation.world import ACTING, LEASE, World
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.core.loops.courier import Courier
from uns.core.loops.dispatcher import Dispatcher, Sources
from uns.core.loops.insist import Insistent
from uns.core.loops.sender import Intake, Sender
from uns.core.loops.sweeper import Sweeper
from uns.core.loops.worker import GRACE_SECONDS, Pace, Worker
from uns.core.rules.lease import LEASE_SECONDS, Claim
from uns.core.rules.retry import Retry
from uns.ports.rows import Notification
from uns.ports.sources import Ids

if TYPE_CHECKING:
    from simulation.watch import Watch

T = TypeVar("T")

RETRY = Retry(max_attempts=2, base_seconds=1.0)
CONCURRENCY = 3


class Disconnected(Exception):
    """
    The process died, or was never there; what it had done is not known.
    """


class Machine:
    """
    What survives a process: a place with a clock.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.offset = 0.0
        self.still_until = 0.0
        self.starts = 0

    def stand_still(self, world: World) -> None:
        """
        Nothing that runs here goes on for a while. On fair days once within a lease, not more.
        """
        rested = world.loop.time() - self.still_until
        if world.calm or (world.weather.fair and rested < LEASE_SECONDS and self.still_until):
            return
        seconds = world.weather.pause_seconds * world.chance.random()
        self.still_until = world.loop.time() + seconds
        world.note(self.name, f"stands still for {seconds:.3f} s")
        world.occurred("a pause")


class Process:
    """
    One life of the service on a machine: its doors, and a worker with its three loops.
    """

    def __init__(self, world: World, machine: Machine, office: Office, watch: Watch, poll: float) -> None:
        machine.starts += 1
        self.machine = machine
        self.name = f"{machine.name}.{machine.starts}"
        self.dead = False
        self.tasks: list[asyncio.Task[Any]] = []
        self._world = world
        self._context = world.outside.copy()
        self._context.run(ACTING.set, self)
        self._stop = asyncio.Event()
        self._watch = watch
        self._wire(office, poll)

    def _wire(self, office: Office, poll: float) -> None:
        world, watch = self._world, self._watch
        self.pubsub = InProcessPubSub()
        self.insistent = Insistent(UncertainCommits(world, self, watch))
        sources = Sources(self, self.new_id, self)
        channels = adapters(world, self, office)
        dispatcher = ObservedDispatcher(self.insistent, channels, sources, RETRY).under(watch)
        self.intake = Intake(office.resolver, sources, wants_callback=True)
        self.sender = Sender(self.intake, self.insistent, dispatcher)
        self.dispatcher = dispatcher
        sweeper = Sweeper(self.insistent, self.new_id, callback=True)
        courier = Courier(self.insistent, office.called_back, self.new_id)
        self._worker = Worker(dispatcher, sweeper, courier, self.pubsub, Pace(CONCURRENCY, poll))

    # What the loops ask of their process

    def now(self) -> float:
        return self._world.wall(self.machine.offset)

    def new_id(self) -> str:
        return self._world.new_id(self.now())

    def fraction(self) -> float:
        return self._world.chance.random()

    def ids(self) -> Ids:
        return Ids(self.new_id())

    # Life and death

    def start(self) -> None:
        self._world.note(self.name, "starts")
        self.spawn(self._work())

    def stop(self) -> None:
        """
        Ask it to finish what it has claimed, and end.
        """
        if not self._stop.is_set():
            self._world.note(self.name, "is stopped")
            self._patient_until = self._world.loop.time() + GRACE_SECONDS
            self._stop.set()

    def crash(self) -> None:
        """
        Nothing of it acts again.
        """
        if not self.dead:
            self._world.note(self.name, "crashes")
            self._world.occurred("crash")
            self.end()

    def end(self) -> None:
        """
        As a crash, but nobody's fault.
        """
        self.dead = True
        for task in self.tasks:
            if not task.done():
                task.cancel()

    def spawn(self, coro: Any) -> asyncio.Task[Any]:
        return self._world.loop.create_task(coro, context=self._context.copy())

    async def _work(self) -> None:
        await self._worker.run(self._stop)
        self._world.note(self.name, "has ended")
        if self._world.loop.time() < self._patient_until:
            self._watch.ended(self)
        self.end()

    async def serve(self, work: Callable[[Process], Awaitable[T]]) -> T:
        """
        What a door of this process answers to somebody outside of it.

        Raises:
            Disconnected: the process died before it answered.
        """
        if self.dead:
            raise Disconnected
        task = self.spawn(_awaited(work, self))
        await asyncio.wait({task})
        if task.cancelled():
            raise Disconnected
        answer: T = task.result()
        return answer


class ObservedDispatcher(Dispatcher):
    """
    The dispatcher, seen from outside: which lease its calls run under, and how each ended.
    """

    def under(self, watch: Watch) -> ObservedDispatcher:
        self._watch = watch
        return self

    async def carry(self, claim: Claim, leased_at: float) -> Notification | None:
        LEASE.set(claim.token)
        self._watch.carries(claim)
        row = await super().carry(claim, leased_at)
        self._watch.carried(claim, row)
        return row

    async def give_back(self, claim: Claim) -> None:
        self._watch.carries(claim)
        await super().give_back(claim)


async def _awaited(work: Callable[[Process], Awaitable[T]], process: Process) -> T:
    return await work(process)
