"""
What goes wrong by itself: processes stop, stall and crash, clocks jump, the store is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from simulation.process import Machine, Process
from simulation.providers import Office
from simulation.world import World

Boot = Callable[[Machine], Process]


class Mishaps:
    """
    Each machine has its own bad luck; a process that ended is started again after a while.

    Args:
        boot: starts a new process on a machine.
    """

    def __init__(self, world: World, office: Office, boot: Boot) -> None:
        self._world = world
        self._office = office
        self._boot = boot

    async def of(self, machine: Machine) -> None:
        """
        The life of one machine until the faults cease.
        """
        world = self._world
        process = self._boot(machine)
        while not world.calm:
            waited = world.chance.expovariate(1.0 / world.weather.unrest_seconds)
            await asyncio.sleep(min(waited, 20.0))
            if world.calm:
                return
            if process.dead:
                process = self._boot(machine)
                continue
            if waited > 20.0:
                continue
            match world.chance.choice(("pause", "pause", "crash", "stop", "clock", "clock")):
                case "pause":
                    machine.stand_still(world)
                case "crash":
                    process.crash()
                case "stop":
                    process.stop()
                case "clock":
                    machine.offset = self._jump()

    async def of_the_store(self) -> None:
        """
        Now and then the store is away for a while, or its clock is set.
        """
        world = self._world
        while not world.calm:
            await asyncio.sleep(world.within(60.0))
            if world.calm:
                return
            if world.happens(0.3):
                world.store_away_until = world.loop.time() + world.within(world.weather.outage_seconds)
                world.note("store", "is away until", round(world.store_away_until, 3))
            else:
                world.store_offset = self._jump()

    async def of_the_providers(self) -> None:
        """
        Providers break down and recover.
        """
        world = self._world
        while not world.calm:
            await asyncio.sleep(world.within(60.0))
            if world.calm:
                return
            self._office.change()

    def _jump(self) -> float:
        world = self._world
        offset = world.chance.uniform(-1.0, 1.0) * world.weather.jump_seconds
        world.note("clock", "is off by now", round(offset, 3))
        world.occurred("a clock jumped")
        return offset
