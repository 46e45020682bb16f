"""
Unknown outcomes: run the same plan, with the same ids, until the store answers.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from uns.ports.commits import Commits
from uns.ports.errors import Busy, Closed, StoreUnavailable
from uns.ports.store import Plan

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0


class Insistent:
    """
    Commits that retry an unknown outcome.

    Args:
        patience_seconds: how long after the first try a last one may begin.
    """

    def __init__(self, commits: Commits, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._commits = commits
        self.patience_seconds = patience_seconds

    async def run(self, plan: Plan[T]) -> T:
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + self.patience_seconds, FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._commits.run(plan)
            except (Busy, Closed):  # nothing was begun, so nothing is unknown
                raise
            except StoreUnavailable:
                if loop.time() + pause >= until:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def read(self, plan: Plan[T]) -> T:
        return await self._commits.read(plan)
