"""
The texts of a writer among writers: locks in their order, and one statement per table and group.

Rows travel as one JSON parameter: a text takes any number of them, and encoding is one call.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from uns.adapters.sql import schema
from uns.adapters.sql.codec import STORED, Stored
from uns.adapters.sql.dialects import one_of
from uns.adapters.sql.statements import Statement, Statements
from uns.ports.rows import Event, Notification

ADVISORY = 7696499
"""Namespace of the advisory locks that there is one of each: "uns" in ASCII. 1 is the schema."""
ADVISORY_WINDOWS = 7696500
"""Namespace of those by dedup key."""
_AUTHORITY = 2

_WINDOWS = """
    SELECT {0}({1}({2}, h)) FROM (
        SELECT DISTINCT hashtext(k) AS h FROM json_array_elements_text($1::json) AS k ORDER BY 1
    ) AS hashes
"""


class BulkUpdate(Statement, frozen=True):
    """
    A guarded update of any number of rows: its one parameter is a list of objects with ``fields``.
    """

    fields: tuple[str, ...] = ()


class LockingStatements(Statements):
    """
    Every statement of a writer on PostgreSQL.

    Dedup windows are locked by key, since a lock must hold before there is a row. What is behind a
    window, and what its owner is to be asked for, needs no lock of its own.
    """

    locks = True
    now = Statement("SELECT extract(epoch FROM clock_timestamp())::float8", ())
    share_policy = Statement(f"SELECT pg_advisory_xact_lock_shared({ADVISORY}, {_AUTHORITY})", ())
    take_policy = Statement(f"SELECT pg_advisory_xact_lock({ADVISORY}, {_AUTHORITY})", ())
    lock_windows = Statement(_WINDOWS.format("count", "pg_advisory_xact_lock", ADVISORY_WINDOWS), ("keys",))
    try_windows = Statement(
        _WINDOWS.format("bool_and", "pg_try_advisory_xact_lock", ADVISORY_WINDOWS), ("keys",)
    )

    def __init__(self, dialect: sa.Dialect) -> None:
        super().__init__(dialect)
        self._bulk_updates: dict[tuple[type, tuple[int, ...]], BulkUpdate] = {}
        n, w = schema.notifications.c, schema.dedup.c
        whole = sa.select(*STORED[Notification].columns).order_by(n.id)
        named = sa.union_all(
            sa.select(sa.func.json_array_elements_text(sa.bindparam("ids", type_=sa.JSON))),
            sa.select(n.id).where(one_of(n.key, "keys")),
            sa.select(w.owner_id).where(one_of(w.key, "windows")),
        )
        of_names = n.id == sa.any_(sa.func.array(named.scalar_subquery()))
        self.lock_rows = self._compile(whole.where(of_names).with_for_update())
        self.try_rows = self._compile(whole.where(one_of(n.id, "ids")).with_for_update(skip_locked=True))
        event = sa.select(*STORED[Event].columns).where(schema.events.c.id == sa.bindparam("k0"))
        self.gets[Event] = self._compile(event.with_for_update())

    def update(self, kind: type, moved: tuple[int, ...]) -> BulkUpdate:
        """
        The guarded update of these columns, for all rows in which these moved.
        """
        known = self._bulk_updates.get((kind, moved))
        if known is None:
            known = self._bulk_updates[(kind, moved)] = self._bulk_update(STORED[kind], moved)
        return known

    def _insert(self, stored: Stored) -> Statement:
        # Types and defaults are the table's; what is an object in JSON becomes the text of it.
        fields = zip(stored.fields, stored.columns, strict=True)
        rows = _recordset(*(sa.column(field, column.type) for field, column in fields))
        made = self._compile(sa.insert(stored.table).from_select(stored.columns, sa.select(*rows.c)))
        conflict = " ON CONFLICT (id) DO NOTHING" if stored.kind is Event else ""
        return Statement(made.text + conflict, made.names)

    def _bulk_update(self, stored: Stored, moved: tuple[int, ...]) -> BulkUpdate:
        guarded = [n for n in moved if n not in stored.unguarded]
        types = {f"s{i}": stored.columns[n] for i, n in enumerate(moved)}
        types |= {f"k{n}": stored.columns[n] for n in range(stored.keys)}
        types |= {f"g{i}": stored.columns[n] for i, n in enumerate(guarded)}
        rows = _recordset(*(sa.column(name, column.type) for name, column in types.items()))
        made = self._compile(
            sa.update(stored.table)
            .values({stored.columns[n]: rows.c[f"s{i}"] for i, n in enumerate(moved)})
            .where(*(stored.columns[n] == rows.c[f"k{n}"] for n in range(stored.keys)))
            .where(*(stored.columns[n].is_not_distinct_from(rows.c[f"g{i}"]) for i, n in enumerate(guarded)))
        )
        return BulkUpdate(made.text, made.names, fields=tuple(types))


def _recordset(*columns: sa.ColumnClause[Any]) -> sa.TableValuedAlias:
    listed = sa.func.json_to_recordset(sa.bindparam("rows", type_=sa.JSON))
    return listed.table_valued(*columns, name="listed").render_derived(name="listed", with_types=True)
