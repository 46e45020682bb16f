"""
Commits without threads: each plan is run where it is awaited. And commits that die.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from uns.ports.errors import StoreUnavailable
from uns.ports.store import Plan, Store

T = TypeVar("T")


class Crash(BaseException):
    """
    The process dies here. No code may catch it.
    """


class InlineCommits:
    """
    One transaction per plan, committed before the caller goes on. Deterministic.

    Args:
        answer_seconds: how long the answer to a commit is on its way.
    """

    def __init__(self, store: Store, *, answer_seconds: float = 0.0) -> None:
        self.store = store
        self.answer_seconds = answer_seconds

    async def run(self, plan: Plan[T]) -> T:
        await asyncio.sleep(0)
        reply = self.store.transact(plan)
        await asyncio.sleep(self.answer_seconds)
        return reply

    async def read(self, plan: Plan[T]) -> T:
        await asyncio.sleep(0)
        return self.store.read(plan)


class MortalCommits:
    """
    Commits that end the process at the ``dies_at``-th plan, before or after its commit.
    """

    def __init__(self, store: Store, dies_at: int, *, after: bool) -> None:
        self.commits = 0
        self._store = store
        self._dies_at = dies_at
        self._after = after

    async def run(self, plan: Plan[T]) -> T:
        self.commits += 1
        dies = self.commits == self._dies_at
        if dies and not self._after:
            raise Crash
        reply = self._store.transact(plan)
        if dies:
            raise Crash
        return reply

    async def read(self, plan: Plan[T]) -> T:
        return self._store.read(plan)


class LossyCommits:
    """
    Commits whose answer to the ``at``-th plan is lost: it was committed, and nobody is told.
    """

    def __init__(self, store: Store, at: int) -> None:
        self.commits = 0
        self._store = store
        self._at = at

    async def run(self, plan: Plan[T]) -> T:
        self.commits += 1
        reply = self._store.transact(plan)
        if self.commits == self._at:
            raise StoreUnavailable
        return reply

    async def read(self, plan: Plan[T]) -> T:
        return self._store.read(plan)


class HookedCommits:
    """
    Commits that let something else happen just before the ``at``-th plan is run.
    """

    def __init__(self, store: Store, at: int, happen: Callable[[], object]) -> None:
        self.commits = 0
        self._store = store
        self._at = at
        self._happen = happen

    async def run(self, plan: Plan[T]) -> T:
        self.commits += 1
        if self.commits == self._at:
            self._happen()
        return self._store.transact(plan)

    async def read(self, plan: Plan[T]) -> T:
        return self._store.read(plan)
