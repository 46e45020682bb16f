"""
The queries that only the database can answer, one function each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from uns.adapters.sql.statements import Statement, Statements, json_list
from uns.ports.queries import (
    AuditsOf,
    CallbacksDue,
    CallbacksExhausted,
    CopiesOfLine,
    DeadLetters,
    Due,
    EventsOf,
    EventsWithIds,
    FollowerCount,
    FollowersOf,
    LineInto,
    LineOf,
    Overdue,
    TypesSeen,
)
from uns.ports.rows import Copy, DeliveryAudit, Event, Link, Notification


class Source(Protocol):
    """
    What an answer needs of a transaction.
    """

    now: float
    sql: Statements

    def query(self, statement: Statement, **values: Any) -> list[Any]: ...

    def load_all(self, kind: type, lines: Any) -> list[Any]: ...


def _followers_of(tx: Source, query: FollowersOf) -> Sequence[Notification]:
    values = {"owner": query.owner_id, "status": str(query.status), "limit": query.limit}
    return tx.load_all(Notification, tx.query(tx.sql.followers_of, **values))


def _follower_count(tx: Source, query: FollowerCount) -> Sequence[int]:
    statuses = json_list([str(status) for status in query.statuses])
    return [tx.query(tx.sql.follower_count, owner=query.owner_id, statuses=statuses)[0][0]]


def _copies_of_line(tx: Source, query: CopiesOfLine) -> Sequence[Copy]:
    return tx.load_all(Copy, tx.query(tx.sql.copies_of_line, id=query.id))


def _line_of(tx: Source, query: LineOf) -> Sequence[Link]:
    # A line can be long: one conversion for all of it.
    return msgspec.convert(tx.query(tx.sql.line_of, id=query.id), list[Link], strict=False)


def _line_into(tx: Source, query: LineInto) -> Sequence[Notification]:
    return tx.load_all(Notification, tx.query(tx.sql.line_into, id=query.id))


def _due(tx: Source, query: Due) -> Sequence[Notification]:
    channels = {f"c{n}": f"|{name}|" for n, name in enumerate(query.channels)}
    if query.without:
        channels["without"] = json_list(query.without)
    statement = tx.sql.due(len(query.channels), without=bool(query.without))
    return tx.load_all(Notification, tx.query(statement, now=tx.now, limit=query.limit, **channels))


def _overdue(tx: Source, query: Overdue) -> Sequence[Notification]:
    return tx.load_all(Notification, tx.query(tx.sql.overdue, at=query.at, limit=query.limit))


def _callbacks_due(tx: Source, query: CallbacksDue) -> Sequence[Event]:
    tokens = json_list(query.tokens)
    values = {"attempts": query.attempts, "now": tx.now, "tokens": tokens, "limit": query.limit}
    return tx.load_all(Event, tx.query(tx.sql.callbacks_due, **values))


def _callbacks_exhausted(tx: Source, query: CallbacksExhausted) -> Sequence[Event]:
    at, id = query.after
    values = {"attempts": query.attempts, "now": tx.now, "limit": query.limit}
    found = tx.query(tx.sql.callbacks_exhausted, after_at=at, after_id=id, **values)
    return tx.load_all(Event, found)


def _events_of(tx: Source, query: EventsOf) -> Sequence[Event]:
    return tx.load_all(Event, tx.query(tx.sql.events_of, id=query.notification_id))


def _events_with_ids(tx: Source, query: EventsWithIds) -> Sequence[Event]:
    return tx.load_all(Event, tx.query(tx.sql.events_with_ids, ids=json_list(query.ids)))


def _audits_of(tx: Source, query: AuditsOf) -> Sequence[DeliveryAudit]:
    return tx.load_all(DeliveryAudit, tx.query(tx.sql.audits_of, id=query.notification_id))


def _dead_letters(tx: Source, query: DeadLetters) -> Sequence[Notification]:
    at, id = query.after
    found = tx.query(tx.sql.dead_letters, after_at=at, after_id=id, limit=query.limit)
    return tx.load_all(Notification, found)


def _types_seen(tx: Source, query: TypesSeen) -> Sequence[tuple[str, str]]:
    return [(type, source) for type, source in tx.query(tx.sql.types_seen, since=query.since)]


ANSWERS: dict[type, Callable[[Any, Any], Sequence[Any]]] = {
    FollowersOf: _followers_of,
    FollowerCount: _follower_count,
    CopiesOfLine: _copies_of_line,
    LineOf: _line_of,
    LineInto: _line_into,
    Due: _due,
    Overdue: _overdue,
    CallbacksDue: _callbacks_due,
    CallbacksExhausted: _callbacks_exhausted,
    EventsOf: _events_of,
    EventsWithIds: _events_with_ids,
    AuditsOf: _audits_of,
    DeadLetters: _dead_letters,
    TypesSeen: _types_seen,
}
