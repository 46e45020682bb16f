"""
The closed union of questions that a transaction answers.

Every answer is a sequence. A query proposes rows, over-inclusively where it says so; a rule decides.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from uns.ports.rows import Copy, DeliveryAudit, Event, Link, Notification
from uns.ports.vocabulary import Status

Q = TypeVar("Q")


class Query(Struct, Generic[Q], frozen=True):
    """
    Base of the closed union of questions a transaction answers.
    """


class WithKey(Query[Notification], frozen=True):
    """
    The notification with this idempotency digest, if any. Locked.
    """

    key: str


class DedupKeyOf(Query[str | None], frozen=True):
    """
    The ``dedup_key`` of a notification, read without a lock: it never changes.

    Empty when there is no such notification.
    """

    id: str


class FollowersOf(Query[Notification], frozen=True):
    """
    The first ``limit`` rows behind an owner, by acceptance order (``accepted_at``, ``id``).
    """

    owner_id: str
    status: Status
    limit: int


class FollowerCount(Query[int], frozen=True):
    """
    How many rows with one of ``statuses`` stand behind an owner: a sequence of one number.
    """

    owner_id: str
    statuses: tuple[Status, ...]


class CopiesOf(Query[Copy], frozen=True):
    """
    The successes on record of one notification, of any cycle.
    """

    notification_id: str


class CopiesOfLine(Query[Copy], frozen=True):
    """
    The successes on record of a notification and of all rows whose successors lead to it.
    """

    id: str


class LineOf(Query[Link], frozen=True):
    """
    All rows on the way from ``id`` to the end of its lineage, in no particular order.

    Follows ``dedup_owner_id`` if set, else ``dedup_successor_id`` of a FAILED row. Terminates on
    cycles; a missing row is simply absent. One recursive query.
    """

    id: str


class LineInto(Query[Notification], frozen=True):
    """
    Every notification whose successors lead to ``id``, ``id`` itself included. Locked.
    """

    id: str


class Due(Query[Notification], frozen=True):
    """
    Proposal of claimable rows: at least the ``limit`` first by the dispatch order.

    Over-inclusive; the rule decides on the rows returned. ``channels`` names the adapters the
    asking process has; rows that need another are left out, as are those with an effective hash
    among ``without``. Rows locked elsewhere are skipped.
    """

    channels: tuple[str, ...]
    limit: int
    without: tuple[str, ...] = ()


class Overdue(Query[Notification], frozen=True):
    """
    Proposal of rows awaiting an answer whose ``deadline <= at``, earliest first.
    """

    at: float
    limit: int


class CallbacksDue(Query[Event], frozen=True):
    """
    Pending callback events with ``callback_until <= now`` and fewer than ``attempts`` attempts.

    In (``callback_until``, ``at``, ``id``) order. Events leased to one of ``tokens`` come before
    them, whatever their lease says: the asking plan may be running a second time.
    """

    attempts: int
    limit: int
    tokens: tuple[str, ...] = ()


class CallbacksExhausted(Query[Event], frozen=True):
    """
    Pending callback events with ``callback_until <= now`` that have used up ``attempts``.

    Oldest first: in (``at``, ``id``) order, after ``after`` (a pair, exclusive).
    """

    attempts: int
    limit: int
    after: tuple[float, str] = (0.0, "")


class EventsWithIds(Query[Event], frozen=True):
    """
    Those of these events that exist, in no particular order. Not locked.
    """

    ids: tuple[str, ...]


class EventsOf(Query[Event], frozen=True):
    """
    The timeline of one notification in the order it was written.
    """

    notification_id: str


class AuditsOf(Query[DeliveryAudit], frozen=True):
    """
    The delivery audit records of one notification, oldest first.
    """

    notification_id: str


class DeadLetters(Query[Notification], frozen=True):
    """
    Dead-lettered rows by (``accepted_at``, ``id``), after ``after`` (a pair, exclusive).
    """

    limit: int
    after: tuple[float, str] = (0.0, "")


class TypesSeen(Query[tuple[str, str]], frozen=True):
    """
    Distinct (notification type, source) pairs accepted at or after ``since``.
    """

    since: float
