"""
One seed, one run: trouble for a while, then rest, then the reckoning.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from random import Random

from msgspec import Struct

from simulation.invariants import at_rest, broken_promises
from simulation.mishaps import Mishaps
from simulation.people import Operators, Producers, Responders
from simulation.process import Machine, Process
from simulation.providers import BROKEN, WELL, Office
from simulation.scenario import PoliciesInForce, scenario
from simulation.truth import Truth, Violation
from simulation.virtual import Halted
from simulation.watch import Watch
from simulation.weather import weather
from simulation.world import World
from uns.ports.errors import StoreUnavailable

REST_SECONDS = 4000.0
REST_POLL = 20.0


class Report(Struct):
    """
    What a run came to: what occurred how often, what was broken, and the story of it.
    """

    seed: int
    counts: Counter[str]
    broken: str | None
    story: str


def simulate(seed: int) -> Report:
    """
    Run a seed to its end, or to the first broken promise.
    """
    run = Run(seed)
    truth = run.world.truth
    with _listening_to_the_log(truth):
        run.to_its_end()
    return Report(seed, truth.counts, truth.broken, truth.story())


def check(seed: int) -> Counter[str]:
    """
    Run a seed; what occurred in it.

    Raises:
        Violation: a promise was broken. The message tells the story, and how to see it again.
    """
    report = simulate(seed)
    if report.broken is not None:
        raise Violation(
            f"seed {seed}: {report.broken}\n\n{report.story}\n\n"
            f"again: .venv/bin/python -m pytest tests/simulation --seed={seed}"
        )
    return report.counts


class Run:
    """
    The cast of one seed.
    """

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        self.world = world = World(chance, weather(chance))
        self.watch = watch = Watch(world)
        in_force = _policies()
        in_force.copy_into(world)
        self.plot = scenario(chance)
        delivered = Responders(world, watch).delivered
        self.office = Office(world, watch, in_force.resolver, self.plot.moods, delivered)
        self.producers = Producers(world, watch, self.plot)
        self.operators = Operators(world, watch, self.producers.ring_again)
        self.machines = [Machine(f"m{n}") for n in range(1, self.plot.machines + 1)]

    def boot(self, machine: Machine) -> Process:
        """
        Start the service on a machine.
        """
        poll = REST_POLL if self.world.calm else self.plot.poll_seconds
        process = Process(self.world, machine, self.office, self.watch, poll)
        self.world.processes.append(process)
        process.start()
        return process

    def to_its_end(self) -> None:
        """
        Let everybody act until the ledger is at rest, then settle accounts.
        """
        world, trouble = self.world, self.plot.trouble_seconds
        mishaps = Mishaps(world, self.office, self.boot)
        for part in (
            self.producers.work(),
            self.operators.work(self.plot.look_seconds),
            mishaps.of_the_store(),
            mishaps.of_the_providers(),
            *(mishaps.of(machine) for machine in self.machines),
        ):
            world.outsider(part)
        self._live(lambda: world.loop.time() >= trouble)
        self._then(self._calm_down)
        self._live(self._at_rest)
        self._then(self._settle_accounts)
        self._then(self._make_good)
        self._live(self._at_rest)
        self._then(self._settle_accounts)
        self._clear_away()

    def _at_rest(self) -> bool:
        # A run that does not come to rest is over too; the accounts will show it.
        world = self.world
        late = world.loop.time() > self.plot.trouble_seconds + REST_SECONDS
        return late or (at_rest(self.watch) and all(task.done() for task in world.outsiders))

    def _then(self, part: Callable[[], None]) -> None:
        if self.world.truth.broken is None:
            part()

    def _live(self, enough: Callable[[], bool]) -> None:
        world = self.world
        if world.truth.broken is not None:
            return
        try:
            world.loop.run_until(enough)
        except Halted:
            world.truth.violated("everybody waits for ever")
        if world.loop.error is not None:
            world.truth.violated(f"something raised {world.loop.error!r}")
        for task in world.outsiders:
            if task.done() and not task.cancelled() and (fault := task.exception()) is not None:
                world.truth.violated(f"somebody outside met {fault!r}")

    def _calm_down(self) -> None:
        # What was claimed is finished; one fresh process sees to the rest.
        world = self.world
        world.calm_down()
        for machine in self.machines:
            machine.offset = machine.still_until = 0.0
        for process in world.alive():
            world.loop.call_soon(process.stop, context=world.outside)
        self.office.settle(world.chance.choice((WELL, WELL, BROKEN)))
        world.loop.call_soon(self.boot, Machine("m9"), context=world.outside)

    def _make_good(self) -> None:
        # The providers are well again: an operator gives everything one more chance.
        self.office.settle(WELL)
        self.office.callbacks_fail = 0.0
        self.world.outsider(self.operators.make_good())

    def _settle_accounts(self) -> None:
        for finding in broken_promises(self.world, self.watch):
            self.world.truth.violated(finding)

    def _clear_away(self) -> None:
        # No task may be left pending for the garbage collector to complain about.
        world = self.world
        tasks = [*world.outsiders, *(task for process in world.processes for task in process.tasks)]
        for process in world.processes:
            process.dead = True
        for task in tasks:
            task.cancel()
        world.loop.run_until(lambda: all(task.done() for task in tasks))
        for task in tasks:
            if not task.cancelled():
                task.exception()


class _Listener(logging.Handler):
    """
    Hears what the loops of a worker swallow: an absent store is weather, anything else a fault.
    """

    def __init__(self, truth: Truth) -> None:
        super().__init__()
        self._truth = truth

    def handle(self, record: logging.LogRecord) -> bool:
        told = record.getMessage()  # an absent store has its line, and no stack
        fault = record.exc_info[1] if record.exc_info else told
        if not isinstance(fault, StoreUnavailable) and "failed: StoreUnavailable" not in told:
            self._truth.violated(f"a loop met {fault!r}")
        return True


@contextmanager
def _listening_to_the_log(truth: Truth) -> Iterator[None]:
    logger, listener = logging.getLogger("uns"), _Listener(truth)
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagates


@cache
def _policies() -> PoliciesInForce:
    return PoliciesInForce()
