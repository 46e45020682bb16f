"""
The in-memory store: the model that the SQL stores are compared with, and the simulation's ledger.

Every plan runs on an overlay of its own, merged when it returns and dropped when it raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from uns.adapters.memory.queries import ANSWERS, ByKey, CopiesBy
from uns.ports.decision import Change, Decision, Row, Signal, Sweep
from uns.ports.errors import Closed, Stale, StoreRefused, StoreUnavailable
from uns.ports.queries import CopiesOf, DedupKeyOf, Query, WithKey
from uns.ports.rows import Copy, Event, Notification, Outcome
from uns.ports.sources import Clock
from uns.ports.store import Plan, idle

T = TypeVar("T")
R = TypeVar("R", bound=Row)
Q = TypeVar("Q")

_TRIES = 5
_NONE: dict[str, Any] = {}
_AFTER_APPLY = (WithKey, CopiesOf, DedupKeyOf)


class MemoryStore:
    """
    A store without a disk.

    Args:
        clock: where ``tx.now`` comes from.
        publish: told the signals of each committed plan.
        on_commit: called before a plan's changes are merged. Raising there models a transaction
            that dies: nothing is kept.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        publish: Callable[[Sequence[Signal]], None] = lambda _: None,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self.tables: dict[type, dict[str, Any]] = {}
        self._clock = clock
        self._publish = publish
        self._on_commit = on_commit
        self._lock = threading.RLock()
        self._closed = False

    def transact(self, plan: Plan[T]) -> T:
        for _ in range(_TRIES):
            with self._lock:
                if self._closed:
                    raise Closed
                tx = MemoryTx(self.tables, self._clock.now())
                try:
                    reply = plan.run(tx)
                    tx.prepare()
                    self._on_commit()
                except Stale:
                    continue
                tx.merge()
            if tx.signals:
                self._publish(tx.signals)
            return reply
        raise StoreUnavailable("a row kept moving under the transaction")

    def transact_many(self, plans: Sequence[Plan[Any]], meanwhile: Callable[[], None] = idle) -> list[Any]:
        # Nothing here waits, so there is no meanwhile.
        return [self._attempt(plan) for plan in plans]

    def read(self, plan: Plan[T]) -> T:
        with self._lock:
            if self._closed:
                raise Closed
            return plan.run(MemoryTx(self.tables, self._clock.now(), read_only=True))

    def close(self) -> None:
        self._closed = True

    def _attempt(self, plan: Plan[Any]) -> Any:
        try:
            return self.transact(plan)
        except Exception as error:
            return error


class MemoryTx:
    """
    One transaction over the tables: writes go to an overlay.
    """

    def __init__(self, tables: dict[type, dict[str, Any]], now: float, *, read_only: bool = False) -> None:
        self.now = now
        self.signals: list[Signal] = []
        self._base = tables
        self._read_only = read_only
        self._written: dict[type, dict[str, Any]] = {}
        self._sweeps: list[Sweep] = []

    def get(self, kind: type[R], key: str) -> R | None:
        row: R | None = self.lookup(kind, key)
        return row

    def find(self, query: Query[Q]) -> Sequence[Q]:
        if (self._written or self._sweeps) and not isinstance(query, _AFTER_APPLY):
            raise AssertionError(f"{type(query).__name__} after apply: a plan reads before it writes")
        answer: Sequence[Q] = ANSWERS[type(query)](self, query)
        return answer

    def apply(self, decision: Decision[T]) -> T:
        if self._read_only and (decision.changes or decision.sweeps or decision.events):
            raise TypeError("a read-only transaction applies nothing")
        for change in decision.changes:
            self._write(change)
        self._sweeps += decision.sweeps
        self._append(decision.events)
        self.signals += decision.signals
        return decision.reply

    def prepare(self) -> None:
        """
        Make the set-based moves, and see that a database could hold all that was written.

        Raises:
            StoreRefused: a text is not Unicode.
        """
        for sweep in self._sweeps:
            self._sweep(sweep)
        try:
            msgspec.json.encode([list(rows.values()) for rows in self._written.values()])
        except UnicodeError as error:
            raise StoreRefused(f"the database refused the values: {error}") from error

    def merge(self) -> None:
        for kind, rows in self._written.items():
            self._base.setdefault(kind, {}).update(rows)

    def table(self, kind: type) -> Mapping[str, Any]:
        """
        The rows of one kind by primary key, in insertion order, own writes included.
        """
        base = self._base.get(kind, {})
        written = self._written.get(kind)
        return {**base, **written} if written else base

    def lookup(self, kind: type, key: str) -> Any:
        """
        One row of a kind, own writes included; None when there is none.
        """
        written = self._written.get(kind, _NONE)
        return written[key] if key in written else self._base.get(kind, _NONE).get(key)

    def _write(self, change: Change) -> None:
        key = primary_key(change.after)
        if self.lookup(type(change.after), key) != change.before:
            raise Stale(key)
        if isinstance(change.after, Notification) and self.lookup(ByKey, change.after.key) not in {None, key}:
            raise Stale(change.after.key)
        self._put(change.after)

    def _sweep(self, sweep: Sweep) -> None:
        behind = [
            row
            for row in self.table(Notification).values()
            if row.dedup_owner_id == sweep.owner_id and row.status in sweep.statuses
        ]
        for n, row in enumerate(sorted(behind, key=_acceptance_order)):
            self._put(_swept(row, sweep))
            if sweep.event is not None and sweep.ids is not None:
                self._append([_sweep_event(row, sweep, sweep.ids.nth(sweep.first_id + n))])

    def _append(self, events: Iterable[Event]) -> None:
        for event in events:
            if self.lookup(Event, event.id) is None:
                self._put(event)

    def _put(self, row: Row) -> None:
        self._written.setdefault(type(row), {})[primary_key(row)] = row
        if isinstance(row, Notification):
            self._written.setdefault(ByKey, {})[row.key] = row.id
        elif isinstance(row, Copy):
            held = self.lookup(CopiesBy, row.notification_id) or {}
            self._written.setdefault(CopiesBy, {})[row.notification_id] = {**held, row.channel: row}


def primary_key(row: Any) -> str:
    """
    The primary key of a row in one text.
    """
    if isinstance(row, Copy):
        return f"{row.notification_id}/{row.channel}"
    key: str = getattr(row, row.__struct_fields__[0])
    return key


def _acceptance_order(row: Notification) -> tuple[float, str]:
    return row.accepted_at, row.id


def _swept(row: Notification, sweep: Sweep) -> Notification:
    moved = replace(row, status=sweep.to_status, dedup_owner_id=sweep.new_owner_id or row.dedup_owner_id)
    if sweep.error_message is None:
        return moved
    return replace(moved, outcome=Outcome(error_message=sweep.error_message))


def _sweep_event(row: Notification, sweep: Sweep, id: str) -> Event:
    assert sweep.event is not None  # noqa: S101 - narrows for the type checker
    return Event(
        id=id,
        notification_id=row.id,
        kind=sweep.event,
        at=sweep.at,
        payload=sweep.payload,
        callback_until=sweep.at,
    )
