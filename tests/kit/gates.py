"""
A store that commits nothing until told, so that queues fill in a known order.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from uns.ports.store import Plan, Store, idle

PATIENCE_SECONDS = 20.0


class GatedStore:
    """
    Holds every group back until ``let`` lets it pass; ``groups`` are those that have come.

    ``fault``, once set, is raised in place of each commit. ``meanwhile`` is what the group that has
    come last would have called before it waits.
    """

    def __init__(self, store: Store) -> None:
        self.groups: list[list[Plan[Any]]] = []
        self.fault: BaseException | None = None
        self.meanwhile: Callable[[], None] = idle
        self._store = store
        self._arrived: queue.Queue[int] = queue.Queue()
        self._passes = threading.Semaphore(0)

    def arrived(self) -> int:
        """
        Wait until another group has come, and say how many plans it has.
        """
        return self._arrived.get(timeout=PATIENCE_SECONDS)

    def let(self, groups: int = 1) -> None:
        """
        Let so many groups pass.
        """
        self._passes.release(groups)

    def transact_many(self, plans: Sequence[Plan[Any]], meanwhile: Callable[[], None] = idle) -> list[Any]:
        self.groups.append(list(plans))
        self.meanwhile = meanwhile
        self._arrived.put(len(plans))
        if not self._passes.acquire(timeout=PATIENCE_SECONDS):
            raise TimeoutError("nobody let the group pass")
        if self.fault is not None:
            raise self.fault
        return self._store.transact_many(plans, meanwhile)

    def transact(self, plan: Plan[Any]) -> Any:
        return self._store.transact(plan)

    def read(self, plan: Plan[Any]) -> Any:
        return self._store.read(plan)

    def close(self) -> None:
        self._store.close()
