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


class Patience:
    """
    When one caller may run its plan again.

    What was left unknown once stays unknown until the store answers: that a later try found too much
    work waiting says nothing of an earlier one.
    """

    def __init__(self, seconds: float, now: float) -> None:
        self._until = now + seconds
        self._pause = FIRST_PAUSE_SECONDS
        self._unknown: StoreUnavailable | None = None

    def after(self, error: StoreUnavailable, now: float) -> float:
        """
        The seconds to wait after ``error``.

        Raises:
            StoreUnavailable: the outcome stays unknown; or ``Busy``, and nothing was begun; or
                ``Closed``, and no later try can be.
        """
        if not isinstance(error, Busy):
            self._unknown = error
        if self._unknown is None or isinstance(error, Closed):
            raise error
        if now + self._pause >= self._until:
            raise self._unknown
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        return pause


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
        begun, patience = loop.time(), None
        while True:
            try:
                return await self._commits.run(plan)
            except StoreUnavailable as error:
                patience = patience or Patience(self.patience_seconds, begun)
                pause = patience.after(error, loop.time())
            await asyncio.sleep(pause)

    async def read(self, plan: Plan[T]) -> T:
        return await self._commits.read(plan)
