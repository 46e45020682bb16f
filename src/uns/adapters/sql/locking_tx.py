"""
A group's transaction among writers in other processes: it locks what it reads, in the one order.

Policy authority, dedup keys, notifications, and then what these locks guard. Within a class the
locks are taken by one statement, sorted. What a plan asks for beyond its wants is locked only if
nobody holds it; else the group begins again with more wants, for whoever waits out of order may
wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Any

import msgspec

from uns.adapters.sql.answers import ANSWERS
from uns.adapters.sql.codec import STORED
from uns.adapters.sql.faults import NeedMore
from uns.adapters.sql.locking_statements import BulkUpdate, LockingStatements
from uns.adapters.sql.postgres_tx import PostgresTx, sought
from uns.adapters.sql.statements import Statement, json_list
from uns.adapters.sql.tx import Cursor, distinct
from uns.ports.errors import Stale
from uns.ports.policy import AUTHORITY, PolicyAuthority
from uns.ports.queries import FollowersOf, LineInto, Query
from uns.ports.rows import Copy, DedupWindow, Notification
from uns.ports.store import Wants

_BEGIN = Statement("BEGIN", ())
_key_of = attrgetter("key")


class _Held(IntEnum):
    """
    The last class of locks that a group has taken.
    """

    NOTHING = 0
    POLICY = 1
    WINDOWS = 2
    ROWS = 3


class LockingTx(PostgresTx):
    """
    A transaction on PostgreSQL that writes.
    """

    sql: LockingStatements
    _held = _Held.NOTHING

    def prefetch(self, wants: Sequence[Wants]) -> None:
        """
        Begin; lock and read, class by class in the lock order, what the plans will ask for.
        """
        self._begin(_BEGIN)
        groups = distinct(want.groups for want in wants)
        if groups:
            self._ask(self.sql.dedup_keys, self._learn, **sought({"ids": json_list(groups)}))
            self._take()
        learnt = [key for id in groups if (key := self.dedup_keys.get(id)) is not None]
        windows = distinct([*(want.windows for want in wants), learnt])
        self._ask_for_policy(wants)
        self._ask_for_windows(windows)
        self._ask_for_rows(
            distinct([*(want.rows for want in wants), groups]),
            distinct(want.keys for want in wants),
            windows,
        )
        self._ask_for_copies(distinct(want.copies for want in wants))
        self._take_the_time()

    def get(self, kind: type[Any], key: str) -> Any:
        if (kind, key) not in self.rows:
            if kind is DedupWindow:
                self._want_windows([key])
            elif kind is Notification:
                self.hold([key])
            elif kind is PolicyAuthority:
                self._hold_policy()
        return super().get(kind, key)

    def answer(self, query: Query[Any]) -> Sequence[Any]:
        if isinstance(query, FollowersOf | LineInto):
            return ANSWERS[type(query)](_Holding(self), query)
        return super().answer(query)

    def hold(self, ids: Iterable[str]) -> None:
        """
        Lock and read rows that no want has named.
        """
        unknown = [id for id in ids if (Notification, id) not in self.rows]
        if not unknown:
            return
        if self._held < _Held.ROWS:
            self._ask_for_rows(unknown, [], [])
            self._take()
            return
        self.load_all(Notification, self.query(self.sql.try_rows, ids=json_list(unknown)))
        if missing := [id for id in unknown if (Notification, id) not in self.rows]:
            raise NeedMore(Wants(rows=tuple(missing)))

    def _learn(self, cursor: Cursor) -> None:
        self.dedup_keys.update(cursor.fetchall())

    def _ask_for_policy(self, wants: Sequence[Wants]) -> None:
        if not any(want.policy or want.activates for want in wants):
            return
        alone = any(want.activates for want in wants)
        self._ask(self.sql.take_policy if alone else self.sql.share_policy)
        self._held = _Held.POLICY

        def found(cursor: Cursor) -> None:
            lines = cursor.fetchall()
            row = STORED[PolicyAuthority].decode(lines[0]) if lines else None
            self.load(PolicyAuthority, AUTHORITY, row)

        self._ask(self.sql.gets[PolicyAuthority], found, k0=AUTHORITY)

    def _ask_for_windows(self, keys: list[str]) -> None:
        if not keys:
            return

        def found(cursor: Cursor) -> None:
            self.load_all(DedupWindow, cursor)
            for key in keys:
                self.load(DedupWindow, key, None)

        named = sought({"keys": json_list(keys)})
        self._ask(self.sql.lock_windows, **named)
        self._ask(self.sql.windows, found, **named)
        self._held = _Held.WINDOWS

    def _ask_for_rows(self, ids: list[str], keys: list[str], windows: list[str]) -> None:
        if not (ids or keys or windows):
            return

        def found(cursor: Cursor) -> None:
            self.load_all(Notification, cursor)
            for key in keys:
                self.keys.setdefault(key, None)
            for id in ids:
                self.load(Notification, id, None)

        named = {"ids": json_list(ids), "keys": json_list(keys), "windows": json_list(windows)}
        self._ask(self.sql.lock_rows, found, **sought(named))
        self._held = _Held.ROWS

    def _ask_for_copies(self, ids: list[str]) -> None:
        if not ids:
            return

        def found(cursor: Cursor) -> None:
            for id in ids:
                self.copies.setdefault(id, {})
            for copy in self.load_all(Copy, cursor):
                self.copies[copy.notification_id].setdefault(copy.channel, copy)

        self._ask(self.sql.copies, found, **sought({"ids": json_list(ids)}))

    def _hold_policy(self) -> None:
        if self._held > _Held.NOTHING:
            raise NeedMore(Wants(policy=True))
        self.query(self.sql.share_policy)
        self._held = _Held.POLICY

    def _want_windows(self, keys: list[str]) -> None:
        unknown = [key for key in keys if (DedupWindow, key) not in self.rows]
        if unknown and self._held < _Held.WINDOWS:
            self.query(self.sql.lock_windows, keys=json_list(unknown))
            self._held = _Held.WINDOWS
        elif unknown and not self.query(self.sql.try_windows, keys=json_list(unknown))[0][0]:
            raise NeedMore(Wants(windows=tuple(unknown)))
        super()._want_windows(unknown)

    def _want_rows(self, keys: list[str], ids: list[str]) -> None:
        if keys:
            self.hold([line[0] for line in self.query(self.sql.by_keys, keys=json_list(keys))])
            for key in keys:
                self.keys.setdefault(key, None)
        self.hold(ids)

    def _write(self) -> None:
        inserts, updates = self._pending()
        for kind, rows in inserts.items():
            if kind is Notification:
                rows.sort(key=_key_of)  # who inserts the same keys as another process waits for it
            self._ask(self.sql.inserts[kind], rows=msgspec.json.encode(rows).decode())
        for (kind, moved), values in updates.items():
            statement = self.sql.update(kind, moved)
            self._ask(statement, _all_of(kind, len(values)), rows=_objects(statement, values))
        if self._steps:
            self._take()


class _Holding:
    """
    Where a query's rows are found by links, which the lock of their window guards, and then locked.
    """

    def __init__(self, tx: LockingTx) -> None:
        self.now, self.sql, self.query = tx.now, tx.sql, tx.query
        self._tx = tx

    def load_all(self, kind: type, lines: Iterable[Sequence[Any]]) -> list[Any]:
        proposed = list(lines)
        self._tx.hold([line[0] for line in proposed])
        return self._tx.load_all(kind, proposed)


def _all_of(kind: type, rows: int) -> Any:
    def check(cursor: Cursor) -> None:
        if cursor.rowcount != rows:
            raise Stale(kind.__name__)

    return check


def _objects(statement: BulkUpdate, values: Iterable[Sequence[Any]]) -> str:
    named = [dict(zip(statement.fields, each)) for each in values]  # noqa: B905 - as the statement has them
    return msgspec.json.encode(named).decode()
