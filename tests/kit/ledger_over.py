"""
The ledger of ``kit.ledger`` over any store, and a second run of every plan on demand.
"""

from __future__ import annotations

from typing import Any

from kit.builders import put_in_force
from kit.ledger import Ledger, Numbered
from kit.plans import Commit, got
from kit.stores import everything
from uns.adapters.sources import ManualClock
from uns.core.plans import callbacks
from uns.core.rules.retry import Retry
from uns.ports.policy import Policy
from uns.ports.queries import EventsOf
from uns.ports.rows import DedupWindow, Event, Notification
from uns.ports.store import Plan
from uns.ports.vocabulary import EventKind

CHANNELS = ("SLACK", "SMS")

SAYS_IT_IS_DONE = {"dispatch.give_back", "response.expire", "callbacks.settle", "policies.activate"}
"""Plans whose second run replies that there was nothing left to do."""


class LedgerOver(Ledger):
    """
    Short ways to run each plan through ``commit``.

    Args:
        again: run every plan a second time, as after a commit whose answer was lost, and see that
            it writes nothing more and replies the same.
    """

    def __init__(self, commit: Commit, clock: ManualClock, *policies: Policy, again: bool = False) -> None:
        self.clock = clock
        self.store = commit.store
        self.retry = Retry(1)
        self.channels = frozenset(CHANNELS)
        self.new_id = Numbered()
        self.ran: set[str] = set()
        self._commit = commit
        self._again = again
        self.resolver = put_in_force(self, *policies)

    def transact(self, plan: Plan[Any]) -> Any:
        return self.run(plan)

    def run(self, plan: Plan[Any]) -> Any:
        self.ran.add(name_of(plan))
        reply = self._commit(plan)
        if self._again:
            written = everything(self.store.inner)
            second = self._commit(plan)

            assert written == everything(self.store.inner)
            assert reply == second or name_of(plan) in SAYS_IT_IS_DONE
        return reply

    def read(self, plan: Plan[Any]) -> Any:
        self.ran.add(name_of(plan))
        return self.store.read(plan)

    def row(self, id: str) -> Notification:
        found: Notification = self.store.read(got(Notification, id))
        return found

    def window(self, row: Notification) -> DedupWindow:
        found: DedupWindow = self.store.read(got(DedupWindow, str(row.dedup_key)))
        return found

    def events(self, id: str, kind: EventKind | None = None) -> list[Event]:
        found = self.store.read(Plan(lambda tx: list(tx.find(EventsOf(id)))))
        return [event for event in found if kind in {None, event.kind}]

    def claim_callbacks(self, limit: int) -> tuple[Event, ...]:
        return self.run(callbacks.claim([self.new_id() for _ in range(limit)]))


def name_of(plan: Plan[Any]) -> str:
    """
    The function of the core that made a plan, such as ``dispatch.claim``.
    """
    return f"{plan.run.__module__.rpartition('.')[2]}.{plan.run.__qualname__.partition('.')[0]}"
