"""
The closed union of queries, answered by looking at every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

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
    TypesSeen,
    WithKey,
)
from uns.ports.rows import Copy, DeliveryAudit, Event, Link, Notification
from uns.ports.vocabulary import Ack, Status


class Tables(Protocol):
    """
    What a query sees of a transaction.
    """

    now: float

    def table(self, kind: type) -> Mapping[str, Any]: ...

    def lookup(self, kind: type, key: str) -> Any: ...


class ByKey:
    """
    Names the index from idempotency digests to notification ids.
    """


class CopiesBy:
    """
    Names the index from notification ids to their copies by channel.
    """


def _with_key(tx: Tables, query: WithKey) -> Sequence[Notification]:
    id = tx.lookup(ByKey, query.key)
    return [] if id is None else [tx.lookup(Notification, id)]


def _dedup_key_of(tx: Tables, query: DedupKeyOf) -> Sequence[str | None]:
    row = tx.lookup(Notification, query.id)
    return [] if row is None else [row.dedup_key]


def _followers_of(tx: Tables, query: FollowersOf) -> Sequence[Notification]:
    behind = [r for r in _rows(tx) if r.dedup_owner_id == query.owner_id and r.status is query.status]
    return sorted(behind, key=_accepted)[: query.limit]


def _follower_count(tx: Tables, query: FollowerCount) -> Sequence[int]:
    return [sum(r.dedup_owner_id == query.owner_id and r.status in query.statuses for r in _rows(tx))]


def _copies_of(tx: Tables, query: CopiesOf) -> Sequence[Copy]:
    return list((tx.lookup(CopiesBy, query.notification_id) or {}).values())


def _copies_of_line(tx: Tables, query: CopiesOfLine) -> Sequence[Copy]:
    line = {row.id for row in _line_into(tx, LineInto(query.id))}
    return [copy for copy in tx.table(Copy).values() if copy.notification_id in line]


def _line_of(tx: Tables, query: LineOf) -> Sequence[Link]:
    links: dict[str, Link] = {}
    id: str | None = query.id
    while id is not None and id not in links and (row := tx.lookup(Notification, id)) is not None:
        links[id] = _link(row)
        id = row.dedup_owner_id or (row.dedup_successor_id if row.status is Status.FAILED else None)
    return list(links.values())


def _line_into(tx: Tables, query: LineInto) -> Sequence[Notification]:
    line: dict[str, Notification] = {}
    ids = {query.id}
    while reached := [r for r in _rows(tx) if {r.id, r.dedup_successor_id} & ids and r.id not in line]:
        line.update({row.id: row for row in reached})
        ids |= line.keys()
    return sorted(line.values(), key=_accepted)


def _due(tx: Tables, query: Due) -> Sequence[Notification]:
    served = set(query.channels)
    return [
        row
        for row in _rows(tx)
        if row.status is Status.PENDING
        and row.leads
        and row.next_attempt <= tx.now
        and row.lease_until <= tx.now
        and served.issuperset(row.effective.all_channels)
        and row.effective_hash not in query.without
    ]


def _overdue(tx: Tables, query: Overdue) -> Sequence[Notification]:
    waiting = [
        row
        for row in _rows(tx)
        if row.ack_status is Ack.PENDING and row.deadline is not None and row.deadline <= query.at
    ]
    return sorted(waiting, key=lambda row: (row.deadline, row.id))[: query.limit]


def _callbacks_due(tx: Tables, query: CallbacksDue) -> Sequence[Event]:
    due = [
        e
        for e in tx.table(Event).values()
        if e.callback_pending
        and (
            (e.callback_attempts < query.attempts and e.callback_until <= tx.now)
            or e.callback_token in query.tokens
        )
    ]
    held_first = sorted(
        due, key=lambda e: (e.callback_token not in query.tokens, e.callback_until, e.at, e.id)
    )
    return held_first[: query.limit]


def _callbacks_exhausted(tx: Tables, query: CallbacksExhausted) -> Sequence[Event]:
    stuck = [
        e
        for e in tx.table(Event).values()
        if e.callback_pending and e.callback_attempts >= query.attempts and e.callback_until <= tx.now
        if (e.at, e.id) > query.after
    ]
    return sorted(stuck, key=lambda e: (e.at, e.id))[: query.limit]


def _events_of(tx: Tables, query: EventsOf) -> Sequence[Event]:
    return [e for e in tx.table(Event).values() if e.notification_id == query.notification_id]


def _events_with_ids(tx: Tables, query: EventsWithIds) -> Sequence[Event]:
    return [event for id in query.ids if (event := tx.lookup(Event, id)) is not None]


def _audits_of(tx: Tables, query: AuditsOf) -> Sequence[DeliveryAudit]:
    own = [a for a in tx.table(DeliveryAudit).values() if a.notification_id == query.notification_id]
    return sorted(own, key=lambda audit: (audit.created_at, audit.id))


def _dead_letters(tx: Tables, query: DeadLetters) -> Sequence[Notification]:
    dead = [row for row in _rows(tx) if row.dead_letter and _accepted(row) > query.after]
    return sorted(dead, key=_accepted)[: query.limit]


def _types_seen(tx: Tables, query: TypesSeen) -> Sequence[tuple[str, str]]:
    return sorted({(r.notification_type, r.source) for r in _rows(tx) if r.accepted_at >= query.since})


def _rows(tx: Tables) -> Iterable[Notification]:
    return tx.table(Notification).values()


def _accepted(row: Notification) -> tuple[float, str]:
    return row.accepted_at, row.id


def _link(row: Notification) -> Link:
    return Link(
        row.id,
        row.status,
        row.dedup_key,
        row.dedup_generation,
        row.dedup_owner_id,
        row.dedup_successor_id,
        row.dead_letter,
        row.ack_status,
        row.escalation_of,
    )


ANSWERS: dict[type, Callable[[Any, Any], Sequence[Any]]] = {
    WithKey: _with_key,
    DedupKeyOf: _dedup_key_of,
    FollowersOf: _followers_of,
    FollowerCount: _follower_count,
    CopiesOf: _copies_of,
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
