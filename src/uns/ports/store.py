"""
The storage socket: plans run inside transactions, decisions are applied whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from uns.ports.decision import Decision, Row
from uns.ports.rows import Copy, Event, Link, Notification
from uns.ports.vocabulary import Status

T = TypeVar("T")
R = TypeVar("R", bound=Row)
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
    asking process has; rows that need another are left out. Rows locked elsewhere are skipped.
    """

    channels: tuple[str, ...]
    limit: int


class Overdue(Query[Notification], frozen=True):
    """
    Proposal of rows awaiting an answer whose ``deadline <= at``, earliest first.
    """

    at: float
    limit: int


class CallbacksDue(Query[Event], frozen=True):
    """
    Pending callback events with ``callback_until <= now`` and fewer than ``attempts`` attempts.

    In (``callback_until``, ``at``, ``id``) order. Events leased to one of ``tokens`` come too,
    whatever their lease says: the asking plan may be running a second time.
    """

    attempts: int
    limit: int
    tokens: tuple[str, ...] = ()


class CallbacksExhausted(Query[Event], frozen=True):
    """
    Pending callback events that have used up ``attempts``, oldest first.
    """

    attempts: int
    limit: int


class EventsWithIds(Query[Event], frozen=True):
    """
    Those of these events that exist, in no particular order.
    """

    ids: tuple[str, ...]


class EventsOf(Query[Event], frozen=True):
    """
    The timeline of one notification in the order it was written.
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


class Tx(Protocol):
    """
    One open transaction. Reads see the plan's own applied decisions.

    Locks are taken in one order: policy authority, dedup windows by key, notifications, copies
    and events. A plan reads in that order; what it has is locked until commit, also when absent.
    """

    @property
    def now(self) -> float:
        """
        Unix seconds, read once, after the locks are held.
        """
        ...

    def get(self, kind: type[R], key: str) -> R | None:
        """
        The row with this primary key, locked. Snapshots and contents are immutable: never locked.
        """
        ...

    def find(self, query: Query[Q]) -> Sequence[Q]:
        """
        The answer to one query of the closed union above.
        """
        ...

    def apply(self, decision: Decision[T]) -> T:
        """
        Write all of ``decision`` and hand back its reply.

        An event whose id exists already is left as it is.

        Raises:
            Stale: a row no longer equals its ``before`` image.
        """
        ...


class Wants(Struct, frozen=True, gc=False, kw_only=True):
    """
    Rows that a plan will probably read. A wrong guess costs a query, never the truth.

    ``groups`` are notification ids whose dedup window is wanted too, its key still unknown.
    ``policy`` takes the policy authority shared; ``activates`` takes it exclusively, in a
    transaction of its own.
    """

    policy: bool = False
    activates: bool = False
    windows: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()


class Lane(Struct, frozen=True):
    """
    Which queue a plan waits in: plans that finish work go before plans that start it.
    """

    finishing: bool


FINISHING = Lane(True)
STARTING = Lane(False)


class Plan(Struct, Generic[T], frozen=True):
    """
    Work for one transaction: sync, free of effects but for ``tx``, safe to run again.
    """

    run: Callable[[Tx], T]
    wants: Wants = Wants()
    lane: Lane = FINISHING


class Store(Protocol):
    """
    A database that runs plans.
    """

    def transact(self, plan: Plan[T]) -> T:
        """
        Run one plan in its own transaction, and raise what it raises.

        Raises:
            StoreUnavailable: the store did not answer. Whether the plan was committed is
                unknown: run the same plan again.
        """
        ...

    def transact_many(self, plans: Sequence[Plan[Any]]) -> list[Any]:
        """
        Run plans in order under one commit.

        Each plan is atomic: one that raises leaves nothing, and its neighbours commit. Later
        plans see what earlier ones did.

        Returns:
            One entry per plan: its reply, or the exception it raised. ``StoreUnavailable`` in
            every entry when the outcome of the whole group is unknown.
        """
        ...

    def read(self, plan: Plan[T]) -> T:
        """
        Run a plan that applies nothing, on a consistent snapshot and without locks.
        """
        ...

    def close(self) -> None:
        """
        Release the connections. Idempotent.
        """
        ...
