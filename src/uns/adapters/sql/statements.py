"""
SQL texts, compiled once from SQLAlchemy Core for one dialect and run on the driver.

A statement is a text and the order of its parameters. Lists travel as one JSON parameter, so that
the text, and the driver's prepared statement, are the same for any number of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from uns.adapters.sql import schema
from uns.adapters.sql.codec import LINK, STORED, Stored
from uns.adapters.sql.dialects import by_bytes, hexadecimal, one_of
from uns.ports.rows import Copy, DedupWindow, DeliveryAudit, Event, Notification
from uns.ports.vocabulary import Ack, Priority, Status

_n = schema.notifications.c
_e = schema.events.c


class Statement(Struct, frozen=True):
    """
    One prepared text.
    """

    text: str
    names: tuple[str, ...]
    fixed: dict[str, Any] = {}

    def arrange(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """
        The parameters in the order the text takes them; ``fixed`` are the text's own literals.
        """
        return tuple(values[name] if name in values else self.fixed[name] for name in self.names)


def json_list(values: Sequence[str]) -> str:
    """
    A list as one parameter.
    """
    return msgspec.json.encode(values).decode()


def _p(name: str, type_: Any = None) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=type_ or sa.Text)


def _at(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=sa.Double)


class Statements:
    """
    Every statement of the store for one dialect.
    """

    locks = False
    """Whether rows are locked one by one: not by whom one lock keeps all others out, nor for reading."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self._sqlite = dialect.name == "sqlite"
        self._updates: dict[tuple[type, tuple[int, ...]], Statement] = {}
        self._due: dict[tuple[int, bool], Statement] = {}
        self.inserts = {kind: self._insert(stored) for kind, stored in STORED.items()}
        self.gets = {kind: self._get(stored) for kind, stored in STORED.items()}
        whole = sa.select(*STORED[Notification].columns)
        self.by_ids = self._compile(whole.where(one_of(_n.id, "ids")))
        self.by_keys = self._compile(whole.where(one_of(_n.key, "keys")))
        self.windows = self._compile(
            sa.select(*STORED[DedupWindow].columns).where(one_of(schema.dedup.c.key, "keys"))
        )
        self.copies = self._compile(
            sa.select(*STORED[Copy].columns).where(one_of(schema.copies.c.notification_id, "ids"))
        )
        audit = schema.delivery_audits.c
        self.audits_of = self._compile(
            sa.select(*STORED[DeliveryAudit].columns)
            .where(audit.notification_id == _p("id"))
            .order_by(audit.created_at, audit.id)
        )
        self.dedup_keys = self._compile(sa.select(_n.id, _n.dedup_key).where(one_of(_n.id, "ids")))
        self._lines(whole)
        self._proposals(whole)
        self._event_reads()
        self._sweeps()

    def update(self, kind: type, moved: tuple[int, ...]) -> Statement:
        """
        The guarded update of these columns: each must still hold its old value.

        Parameters: ``s0..`` new values, ``k0..`` the primary key, ``g0..`` old values. Columns of
        JSON text have no guard.
        """
        known = self._updates.get((kind, moved))
        if known is not None:
            return known
        stored = STORED[kind]
        columns = [stored.columns[n] for n in moved]
        keys = [stored.columns[n] == _p(f"k{n}") for n in range(stored.keys)]
        guards = [
            stored.columns[n].is_not_distinct_from(_p(f"g{i}", stored.columns[n].type))
            for i, n in enumerate(moved)
            if n not in stored.unguarded
        ]
        values = {column: _p(f"s{i}", column.type) for i, column in enumerate(columns)}
        made = self._compile(sa.update(stored.table).where(*keys, *guards).values(values))
        guarded = [f"g{i}" for i, n in enumerate(moved) if n not in stored.unguarded]
        order = (*(f"s{i}" for i in range(len(moved))), *(f"k{n}" for n in range(stored.keys)), *guarded)
        if made.names != order:  # transactions bind by position
            raise AssertionError(f"unexpected parameter order: {made.names}")
        self._updates[(kind, moved)] = made
        return made

    def due(self, channels: int, *, without: bool = False) -> Statement:
        """
        The proposal of claimable rows for a process with this many channels.

        The first of each class by ``next_attempt`` hold the first of all by the dispatch order: a
        row gains on another of its class only by being older. Three index ranges, merged.
        Parameters: ``now``, ``limit``, ``c0..`` the channels, each between bars; ``without`` the
        effective hashes that are not wanted.
        """
        known = self._due.get((channels, without))
        if known is None:
            unwanted = (sa.not_(one_of(_n.effective_hash, "without")),) if without else ()
            classes = [self._due_class(priority, channels).where(*unwanted) for priority in Priority]
            proposed = sa.union_all(*(sa.select(part.subquery().c.id) for part in classes))
            whole = sa.select(*STORED[Notification].columns)
            due = self._free(whole.where(_n.id.in_(proposed)), schema.notifications)
            known = self._due[(channels, without)] = self._compile(due)
        return known

    def _free(self, proposed: sa.Select[Any], table: sa.Table) -> sa.Select[Any]:
        """
        A proposal as it reads for a writer: without the rows of ``table`` that others have locked.
        """
        return proposed.with_for_update(of=table, skip_locked=True) if self.locks else proposed

    def _compile(self, statement: sa.Executable) -> Statement:
        compiled = statement.compile(dialect=self._dialect)  # type: ignore[attr-defined]
        order = compiled.positiontup
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        return Statement(compiled.string, tuple(order if order is not None else compiled.params), fixed)

    def _insert(self, stored: Stored) -> Statement:
        values = {c: _p(f"v{n}", c.type) for n, c in enumerate(stored.columns)}
        text = self._compile(sa.insert(stored.table).values(values))
        if stored.kind is not Event:
            return text
        return replace(text, text=f"{text.text} ON CONFLICT (id) DO NOTHING")

    def _get(self, stored: Stored) -> Statement:
        keys = [stored.columns[n] == _p(f"k{n}") for n in range(stored.keys)]
        return self._compile(sa.select(*stored.columns).where(*keys))

    def _lines(self, whole: sa.Select[Any]) -> None:
        onward = sa.func.coalesce(
            _n.dedup_owner_id, sa.case((_n.status == sa.text("'FAILED'"), _n.dedup_successor_id))
        )
        # UNION, so that a cycle ends; over the row's address, which is quicker to compare than its id.
        address = sa.literal_column("uns_notifications.rowid") if self._sqlite else _n.id
        line = (
            sa.select(address.label("address"), onward.label("target"))
            .where(_n.id == _p("id"))
            .cte("line", recursive=True)
        )
        line = line.union(sa.select(address, onward).join(line, _n.id == line.c.target))
        self.line_of = self._compile(sa.select(*LINK.columns).join(line, address == line.c.address))
        into = sa.select(by_bytes(_p("id")).label("id")).cte("line", recursive=True)
        into = into.union(sa.select(_n.id).join(into, _n.dedup_successor_id == into.c.id))
        self.line_into = self._compile(whole.join(into, _n.id == into.c.id).order_by(_n.accepted_at, _n.id))
        self.copies_of_line = self._compile(
            sa.select(*STORED[Copy].columns).join(into, schema.copies.c.notification_id == into.c.id)
        )

    def _proposals(self, whole: sa.Select[Any]) -> None:
        overdue = (
            whole.where(_n.ack_status == sa.text(f"'{Ack.PENDING}'"), _n.deadline <= _at("at"))
            .order_by(_n.deadline, _n.id)
            .limit(_p("limit", sa.Integer))
        )
        self.overdue = self._compile(self._free(overdue, schema.notifications))
        self.dead_letters = self._compile(
            whole.where(
                _n.dead_letter,
                sa.tuple_(_n.accepted_at, _n.id) > sa.tuple_(_at("after_at"), _p("after_id")),
            )
            .order_by(_n.accepted_at, _n.id)
            .limit(_p("limit", sa.Integer))
        )
        self.followers_of = self._compile(
            whole.where(_n.dedup_owner_id == _p("owner"), _n.status == _p("status"))
            .order_by(_n.accepted_at, _n.id)
            .limit(_p("limit", sa.Integer))
        )
        self.follower_count = self._compile(
            sa.select(sa.func.count()).where(_n.dedup_owner_id == _p("owner"), one_of(_n.status, "statuses"))
        )
        self.types_seen = self._compile(
            sa.select(_n.notification_type, _n.source)
            .where(_n.accepted_at >= _at("since"))
            .distinct()
            .order_by(_n.notification_type, _n.source)
        )

    def _due_class(self, priority: Priority, channels: int) -> sa.Select[tuple[str]]:
        # What is left of a row's channel set once every channel of this process is cut out of it.
        unserved: sa.ColumnElement[str] = _n.channels
        for n in range(channels):
            unserved = sa.func.replace(unserved, _p(f"c{n}"), sa.literal_column("''"))
        first = (
            sa.select(_n.id)
            .where(
                _n.priority == sa.text(f"'{priority}'"),
                _n.status == sa.text(f"'{Status.PENDING}'"),
                _n.dedup_owner_id.is_(None),
                _n.next_attempt <= _at("now"),
                _n.lease_until <= _at("now"),
                unserved == sa.literal_column("''"),
            )
            .order_by(_n.next_attempt, _n.id)
            .limit(_p("limit", sa.Integer))
        )
        return self._free(first, schema.notifications)

    def _event_reads(self) -> None:
        whole = sa.select(*STORED[Event].columns)
        self.events_of = self._compile(whole.where(_e.notification_id == _p("id")).order_by(_e.seq))
        self.events_with_ids = self._compile(whole.where(one_of(_e.id, "ids")))
        order = (_e.callback_until, _e.at, _e.id)
        waiting = _e.callback_pending, _e.callback_until <= _at("now")
        limit = _p("limit", sa.Integer)
        first = (
            sa.select(_e.seq)
            .where(*waiting, _e.callback_attempts < _p("attempts", sa.Integer))
            .order_by(*order)
            .limit(limit)
        )
        fresh = self._free(first, schema.events).subquery()
        # Two index ranges: an OR of them would walk every callback that waits for its time.
        held = sa.select(_e.seq).where(_e.callback_pending, one_of(_e.callback_token, "tokens"))
        proposed = sa.union_all(sa.select(fresh.c.seq), held)
        held_first = sa.case((one_of(_e.callback_token, "tokens"), 0), else_=1)
        due = whole.where(_e.seq.in_(proposed)).order_by(held_first, *order).limit(limit)
        self.callbacks_due = self._compile(self._free(due, schema.events))
        self.callbacks_exhausted = self._compile(
            whole.where(
                *waiting,
                _e.callback_attempts >= _p("attempts", sa.Integer),
                sa.tuple_(_e.at, _e.id) > sa.tuple_(_at("after_at"), _p("after_id")),
            )
            .order_by(_e.at, _e.id)
            .limit(limit)
        )

    def _sweeps(self) -> None:
        behind = sa.and_(_n.dedup_owner_id == _p("owner"), one_of(_n.status, "statuses"))
        number = sa.func.row_number().over(order_by=(_n.accepted_at, _n.id)) - 1 + _p("first", sa.Integer)
        id = sa.func.substr(_p("base"), 1, 30).op("||")(hexadecimal(number))
        told = (
            sa.select(
                id,
                _n.id,
                _p("kind"),
                _at("at"),
                _p("payload"),
                sa.false(),
                _at("at"),
                sa.literal_column("0"),
            )
            .where(behind)
            .order_by(_n.accepted_at, _n.id)
        )
        columns = (
            _e.id,
            _e.notification_id,
            _e.kind,
            _e.at,
            _e.payload,
            _e.callback_pending,
            _e.callback_until,
            _e.callback_attempts,
        )
        text = self._compile(sa.insert(schema.events).from_select(columns, told))
        self.sweep_events = replace(text, text=f"{text.text} ON CONFLICT (id) DO NOTHING")
        moved = {"status": _p("status"), "outcome": sa.func.coalesce(_p("outcome"), _n.outcome)}
        swept = sa.update(schema.notifications).where(behind)
        self.sweep = self._compile(swept.values(moved))
        self.sweep_relink = self._compile(swept.values({**moved, "dedup_owner_id": _p("new")}))
