"""
A transaction over a group of plans: reads ahead, keeps rows in memory, writes each table once.

``GroupTx`` is what the group has read and changed so far; ``PlanTx`` is one plan's overlay on it,
merged when the plan returns and dropped when it raises. A single transaction is a group of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from uns.adapters.sql.answers import ANSWERS
from uns.adapters.sql.codec import STORED, Stored
from uns.adapters.sql.faults import FaultOf, sinking
from uns.adapters.sql.sqlite import fault_of
from uns.adapters.sql.statements import Statement, Statements, json_list
from uns.ports.decision import Decision, Row, Signal, Sweep
from uns.ports.errors import Stale
from uns.ports.policy import AUTHORITY, PolicyAuthority, PolicyContent, SnapshotRecord
from uns.ports.queries import CopiesOf, DedupKeyOf, Query, WithKey
from uns.ports.rows import Copy, DedupWindow, Event, Notification, Outcome
from uns.ports.store import Wants, idle

T = TypeVar("T")
R = TypeVar("R", bound=Row)
Q = TypeVar("Q")
Cursor = Any  # a DB-API cursor: the drivers share no type
Key = tuple[type, str]
Inserts = dict[type, list[Any]]
Updates = dict[tuple[type, tuple[int, ...]], list[tuple[Any, ...]]]

_IMMUTABLE = (SnapshotRecord, PolicyContent)


class GroupTx:
    """
    The rows that a group of plans has read, and what it is going to write.

    Args:
        immutable: rows that never change once written, shared between transactions.
        meanwhile: called before many rows are moved.
    """

    fault_of: FaultOf = staticmethod(fault_of)

    def __init__(
        self,
        cursor: Cursor,
        sql: Statements,
        now: float,
        immutable: dict[Key, Any] | None = None,
        meanwhile: Callable[[], None] = idle,
    ) -> None:
        self.now = now
        self.sql = sql
        self.signals: list[Signal] = []
        self.rows: dict[Key, Any] = {}
        self.keys: dict[str, str | None] = {}
        self.copies: dict[str, dict[str, Copy]] = {}
        self.dedup_keys: dict[str, str | None] = {}
        self._cursor = cursor
        self._stored: dict[Key, Any] = {}
        self._dirty: dict[Key, None] = {}
        self._events: list[Event] = []
        self._immutable = {} if immutable is None else immutable
        self._meanwhile = meanwhile

    def prefetch(self, wants: Sequence[Wants]) -> None:
        """
        Read, class by class in the lock order, what the plans of the group will ask for.
        """
        if any(want.policy for want in wants):
            self.get(PolicyAuthority, AUTHORITY)
        groups = distinct(want.groups for want in wants)
        if groups:
            self.dedup_keys.update(self.query(self.sql.dedup_keys, ids=json_list(groups)))
        learnt = [key for id in groups if (key := self.dedup_keys.get(id)) is not None]
        self._want_windows(distinct([*(want.windows for want in wants), learnt]))
        self._want_rows(
            keys=distinct(want.keys for want in wants),
            ids=distinct([*(want.rows for want in wants), groups]),
        )
        self._want_copies(distinct(want.copies for want in wants))

    def get(self, kind: type[Any], key: str) -> Any:
        """
        The row as the group sees it.
        """
        at = (kind, key)
        if at in self.rows:
            return self.rows[at]
        if (immutable := self._immutable.get(at)) is not None:
            return immutable
        if kind is Event:
            self.flush()  # the group's own events are not kept as rows
        stored = STORED[kind]
        parts = key.split("/", stored.keys - 1)
        found = self.query(self.sql.gets[kind], **{f"k{n}": part for n, part in enumerate(parts)})
        row = stored.decode(found[0]) if found else None
        if row is None and kind is Event:
            return None  # not remembered: events are appended past the rows
        if row is not None and kind in _IMMUTABLE:
            self._immutable[at] = row
            return row
        return self.load(kind, key, row)

    def load(self, kind: type, key: str, row: Any) -> Any:
        """
        Remember a row as the database has it, unless the group knows better; what it knows wins.
        """
        at = (kind, key)
        if at not in self.rows:
            self.rows[at] = self._stored[at] = row
            if kind is Notification and row is not None:
                self.keys[row.key] = row.id
        return self.rows[at]

    def load_all(self, kind: type, lines: Iterable[Sequence[Any]]) -> list[Any]:
        """
        Decode result lines of whole rows, as the group sees them.
        """
        stored = STORED[kind]
        rows = [stored.decode(line) for line in lines]
        return [self.load(kind, stored.key_of(row), row) for row in rows]

    def with_key(self, key: str) -> list[Any]:
        """
        The notification with this idempotency digest, if any.
        """
        if key not in self.keys:
            self._want_rows(keys=[key], ids=[])
        id = self.keys[key]
        return [] if id is None else [self.get(Notification, id)]

    def copies_of(self, id: str) -> list[Any]:
        """
        The successes on record of one notification.
        """
        if id not in self.copies:
            self._want_copies([id])
        return list(self.copies[id].values())

    def dedup_key_of(self, id: str) -> list[Any]:
        """
        The dedup key of a notification, empty without one.
        """
        row = self.rows.get((Notification, id))
        if row is not None:
            return [row.dedup_key]
        if id not in self.dedup_keys:
            self.dedup_keys.update(self.query(self.sql.dedup_keys, ids=json_list([id])))
        return [self.dedup_keys[id]] if id in self.dedup_keys else []

    def query(self, statement: Statement, **values: Any) -> list[Any]:
        """
        Run one reading statement.
        """
        self._cursor.execute(statement.text, statement.arrange(values))
        found: list[Any] = self._cursor.fetchall()
        return found

    def merge(self, plan: PlanTx) -> None:
        """
        Take over what a plan has decided.
        """
        for at, row in plan.written.items():
            self._put(at, row)
        self._events += plan.events
        self.signals += plan.signals
        for sweep in plan.sweeps:
            self._sweep(sweep)

    def flush(self) -> None:
        """
        Write everything pending: per table one insert, and one update per set of columns.

        Raises:
            Stale: an updated row no longer held its old values, an inserted one was there.
            Refused: the values cannot be written.
        """
        try:
            self._write()
        except Exception as error:
            raise sinking(error, self.fault_of) from None

    def answer(self, query: Query[Any]) -> Sequence[Any]:
        """
        What the database answers to a query.
        """
        return ANSWERS[type(query)](self, query)

    def _write(self) -> None:
        inserts, updates = self._pending()
        for kind, rows in inserts.items():
            encode = STORED[kind].encode
            self._cursor.executemany(self.sql.inserts[kind].text, [encode(row) for row in rows])
        for (kind, moved), values in updates.items():
            self._cursor.executemany(self.sql.update(kind, moved).text, values)
            if self._cursor.rowcount != len(values):
                raise Stale(kind.__name__)

    def _pending(self) -> tuple[Inserts, Updates]:
        inserts: Inserts = {}
        updates: Updates = {}
        for at in self._dirty:
            self._sort(at, inserts, updates)
        self._dirty.clear()
        if self._events:
            inserts.setdefault(Event, []).extend(self._events)
            self._events = []
        return inserts, updates

    def _sort(self, at: Key, inserts: Inserts, updates: Updates) -> None:
        before, after = self._stored.get(at), self.rows[at]
        stored = STORED[at[0]]
        self._stored[at] = after
        if before is None:
            inserts.setdefault(at[0], []).append(after)
        elif moved := stored.moved(before, after):
            updates.setdefault((at[0], moved), []).append(_update(stored, before, after, moved))

    def _put(self, at: Key, row: Any) -> None:
        self.rows[at] = row
        self._dirty[at] = None
        if at[0] is Notification:
            self.keys[row.key] = row.id
        elif at[0] is Copy:
            self.copies_of(row.notification_id)  # so that the known ones are all there are
            self.copies[row.notification_id][row.channel] = row

    def _sweep(self, sweep: Sweep) -> None:
        self._meanwhile()
        self.flush()
        behind = {"owner": sweep.owner_id, "statuses": json_list([str(s) for s in sweep.statuses])}
        if sweep.event is not None and sweep.ids is not None:
            told = {
                "base": sweep.ids.base,
                "first": sweep.ids.offset + sweep.first_id,
                "kind": str(sweep.event),
                "at": sweep.at,
                "payload": sweep.payload,
            }
            self._run(self.sql.sweep_events, **behind, **told)
        moved = {"status": str(sweep.to_status), "outcome": _swept_outcome(sweep)}
        if sweep.new_owner_id is not None:
            self._run(self.sql.sweep_relink, **behind, **moved, new=sweep.new_owner_id)
        else:
            self._run(self.sql.sweep, **behind, **moved)
        self._forget_behind(sweep.owner_id)

    def _forget_behind(self, owner_id: str) -> None:
        for at, row in list(self.rows.items()):
            if at[0] is Notification and row is not None and row.dedup_owner_id == owner_id:
                del self.rows[at]
                self._stored.pop(at, None)

    def _run(self, statement: Statement, **values: Any) -> None:
        self._cursor.execute(statement.text, statement.arrange(values))

    def _want_windows(self, keys: list[str]) -> None:
        unknown = [key for key in keys if (DedupWindow, key) not in self.rows]
        if not unknown:
            return
        self.load_all(DedupWindow, self.query(self.sql.windows, keys=json_list(unknown)))
        for key in unknown:
            self.load(DedupWindow, key, None)

    def _want_rows(self, keys: list[str], ids: list[str]) -> None:
        if keys:
            self.load_all(Notification, self.query(self.sql.by_keys, keys=json_list(keys)))
            for key in keys:
                self.keys.setdefault(key, None)
        owners = [row.owner_id for at, row in self.rows.items() if at[0] is DedupWindow and row is not None]
        unknown = [id for id in distinct([ids, owners]) if (Notification, id) not in self.rows]
        if unknown:
            self.load_all(Notification, self.query(self.sql.by_ids, ids=json_list(unknown)))
        for id in ids:
            self.load(Notification, id, None)

    def _want_copies(self, ids: list[str]) -> None:
        if not ids:
            return
        for id in ids:
            self.copies.setdefault(id, {})
        for copy in self.load_all(Copy, self.query(self.sql.copies, ids=json_list(ids))):
            self.copies[copy.notification_id].setdefault(copy.channel, copy)


class PlanTx:
    """
    One plan's view of a group: what it writes stays its own until it returns.
    """

    def __init__(self, group: GroupTx, *, read_only: bool = False) -> None:
        self.now = group.now
        self.written: dict[Key, Any] = {}
        self.events: list[Event] = []
        self.sweeps: list[Sweep] = []
        self.signals: list[Signal] = []
        self._group = group
        self._read_only = read_only

    def get(self, kind: type[R], key: str) -> R | None:
        at = (kind, key)
        row: Any = self.written[at] if at in self.written else self._group.get(kind, key)
        if row is None and kind is Event:
            row = next((event for event in self.events if event.id == key), None)
        found: R | None = row
        return found

    def find(self, query: Query[Q]) -> Sequence[Q]:
        asked: Query[Any] = query
        if isinstance(asked, WithKey):
            return self._with_key(asked.key)
        if isinstance(asked, CopiesOf):
            return self._copies_of(asked.notification_id)
        if isinstance(asked, DedupKeyOf):
            row = self.written.get((Notification, asked.id))
            return self._group.dedup_key_of(asked.id) if row is None else [row.dedup_key]
        return self._from_database(asked)

    def _with_key(self, key: str) -> list[Any]:
        own = [row for at, row in self.written.items() if at[0] is Notification and row.key == key]
        return own or self._group.with_key(key)

    def _copies_of(self, id: str) -> list[Any]:
        copies = {copy.channel: copy for copy in self._group.copies_of(id)}
        for at, row in self.written.items():
            if at[0] is Copy and row.notification_id == id:
                copies[row.channel] = row
        return list(copies.values())

    def _from_database(self, query: Query[Any]) -> Sequence[Any]:
        if self.written or self.sweeps or self.events:
            # The database does not know this plan's overlay; an answer from it would be wrong.
            raise AssertionError(f"{type(query).__name__} after apply: a plan reads before it writes")
        self._group.flush()
        return self._group.answer(query)

    def apply(self, decision: Decision[T]) -> T:
        if self._read_only and (decision.changes or decision.sweeps or decision.events):
            raise TypeError("a read-only transaction applies nothing")
        for change in decision.changes:
            kind = type(change.after)
            at = (kind, STORED[kind].key_of(change.after))
            held = self._held(at, change.before)
            if held is not change.before and held != change.before:
                raise Stale(at[1])
            self.written[at] = change.after
        self.sweeps += decision.sweeps
        self.events += decision.events
        self.signals += decision.signals
        return decision.reply

    def _held(self, at: Key, before: Any) -> Any:
        if at in self.written:
            return self.written[at]
        # Whether a row that nobody read is absent, its insert finds out.
        return self._group.rows.get(at) if before is None else self._group.get(*at)


def _update(stored: Stored, before: Any, after: Any, moved: tuple[int, ...]) -> tuple[Any, ...]:
    guarded = [n for n in moved if n not in stored.unguarded]
    return (
        *stored.encode_only(after, moved),
        *stored.encode_only(before, range(stored.keys)),
        *stored.encode_only(before, guarded),
    )


def _swept_outcome(sweep: Sweep) -> str | None:
    if sweep.error_message is None:
        return None
    return msgspec.json.encode(Outcome(error_message=sweep.error_message)).decode()


def distinct(lists: Iterable[Iterable[str]]) -> list[str]:
    """
    All values, sorted, each once.
    """
    return sorted({value for values in lists for value in values})
