"""
How loops and doors hand plans to a store, without knowing whether commits are shared.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from uns.ports.store import Plan

T = TypeVar("T")


class Commits(Protocol):
    """
    A queue of plans in front of a store, for async callers on any event loop.
    """

    async def run(self, plan: Plan[T]) -> T:
        """
        Run ``plan`` in some transaction and return its reply, or raise what it raised.

        Cancelling the caller does not withdraw a plan whose group has begun.

        Raises:
            StoreUnavailable: outcome unknown (``Busy``, ``Closed``: nothing was begun).
        """
        ...

    async def read(self, plan: Plan[T]) -> T:
        """
        Run a plan that applies nothing, off the write queue.
        """
        ...
