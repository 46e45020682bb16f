"""
A transaction that watches its plan: locks are taken in one order, and only what was read is changed.

Deadlocks need two processes and bad luck; a wrong order needs only one plan. So every contract test
runs its plans under ``OrderedStore``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from msgspec.structs import replace

from uns.ports.decision import Decision
from uns.ports.policy import PolicyAuthority, PolicyContent, PolicyRecord, PolicyRevision, SnapshotRecord
from uns.ports.queries import (
    AuditsOf,
    CallbacksDue,
    CallbacksExhausted,
    CopiesOf,
    CopiesOfLine,
    DeadLetters,
    DedupKeyOf,
    Due,
    EventsOf,
    EventsWithIds,
    FollowerCount,
    FollowersOf,
    LineInto,
    LineOf,
    Overdue,
    Query,
    TypesSeen,
    WithKey,
)
from uns.ports.rows import AckAudit, Copy, DedupWindow, DeliveryAudit, Event, Notification
from uns.ports.store import Plan, Store, Tx, idle


class Lock(IntEnum):
    """
    The classes of locks, in the order in which a plan may take them.
    """

    POLICY = 0
    WINDOW = 1
    NOTIFICATION = 2
    RECORD = 3


ROWS: dict[type, Lock | None] = {
    PolicyAuthority: Lock.POLICY,
    PolicyRecord: Lock.POLICY,
    PolicyRevision: Lock.POLICY,
    SnapshotRecord: None,
    PolicyContent: None,
    DedupWindow: Lock.WINDOW,
    Notification: Lock.NOTIFICATION,
    Copy: Lock.RECORD,
    Event: Lock.RECORD,
    DeliveryAudit: Lock.RECORD,
    AckAudit: Lock.RECORD,
}
"""What ``get`` locks; None: the row is immutable."""

QUERIES: dict[type, Lock | None] = {
    WithKey: Lock.NOTIFICATION,
    DedupKeyOf: None,
    FollowersOf: Lock.NOTIFICATION,
    FollowerCount: Lock.NOTIFICATION,
    CopiesOf: Lock.RECORD,
    CopiesOfLine: Lock.RECORD,
    LineOf: Lock.NOTIFICATION,
    LineInto: Lock.NOTIFICATION,
    Due: Lock.NOTIFICATION,
    Overdue: Lock.NOTIFICATION,
    CallbacksDue: Lock.RECORD,
    CallbacksExhausted: Lock.RECORD,
    EventsWithIds: None,
    EventsOf: Lock.RECORD,
    AuditsOf: None,
    DeadLetters: Lock.NOTIFICATION,
    TypesSeen: None,
}
"""What ``find`` locks, or reads of locked rows; None: facts that never change."""


class OutOfOrder(AssertionError):
    """
    A plan took a lock of an earlier class than it held, or changed a row that it never read.
    """


class OrderedTx:
    """
    A transaction that raises ``OutOfOrder`` where its plan could deadlock or write blindly.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._held = Lock.POLICY
        self._locked: set[tuple[type, str]] = set()
        self._read: list[Any] = []

    @property
    def now(self) -> float:
        return self._tx.now

    def get(self, kind: type[Any], key: str) -> Any:
        if (kind, key) not in self._locked:  # what is held already may be looked at again
            self._take(ROWS[kind], f"{kind.__name__} {key}")
            self._locked.add((kind, key))
        row = self._tx.get(kind, key)
        self._read.append(row)
        return row

    def find(self, query: Query[Any]) -> Sequence[Any]:
        self._take(QUERIES[type(query)], repr(query))
        found = self._tx.find(query)
        self._read += found
        return found

    def apply(self, decision: Decision[Any]) -> Any:
        for change in decision.changes:
            if change.before is not None and change.before not in self._read:
                raise OutOfOrder(f"{change.before} is changed, and was never read")
        reply = self._tx.apply(decision)
        self._read += [change.after for change in decision.changes]
        return reply

    def _take(self, lock: Lock | None, what: str) -> None:
        if lock is None:
            return
        if lock < self._held:
            raise OutOfOrder(f"{what} is a {lock.name} lock, after one of class {self._held.name}")
        self._held = lock


class OrderedStore:
    """
    A store whose plans are all watched. Reads take no locks, so they are as they are.
    """

    def __init__(self, store: Store) -> None:
        self.inner = store

    def transact(self, plan: Plan[Any]) -> Any:
        return self.inner.transact(_watched(plan))

    def transact_many(self, plans: Sequence[Plan[Any]], meanwhile: Callable[[], None] = idle) -> list[Any]:
        return self.inner.transact_many([_watched(plan) for plan in plans], meanwhile)

    def read(self, plan: Plan[Any]) -> Any:
        return self.inner.read(plan)

    def close(self) -> None:
        self.inner.close()


def _watched(plan: Plan[Any]) -> Plan[Any]:
    return replace(plan, run=lambda tx: plan.run(OrderedTx(tx)))
