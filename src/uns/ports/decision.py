"""
What a rule hands back: a reply, rows before and after, set-based moves, events and signals.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from uns.ports.policy import PolicyAuthority, PolicyContent, PolicyRecord, PolicyRevision, SnapshotRecord
from uns.ports.rows import AckAudit, Copy, DedupWindow, DeliveryAudit, Event, Notification
from uns.ports.sources import Ids
from uns.ports.vocabulary import EventKind, Status

T = TypeVar("T")

Row = (
    Notification
    | DedupWindow
    | Event
    | Copy
    | DeliveryAudit
    | AckAudit
    | PolicyAuthority
    | PolicyContent
    | PolicyRecord
    | PolicyRevision
    | SnapshotRecord
)


class Change(Struct, frozen=True, gc=False):
    """
    One row moving from ``before`` to ``after``; ``before=None`` inserts it.
    """

    before: Row | None
    after: Row


class Sweep(Struct, frozen=True, gc=False, kw_only=True):
    """
    One set-based move of all rows that stand behind ``owner_id`` with one of ``statuses``.

    Applied after the decision's changes, in acceptance order. The ``n``-th row moved gets the
    event ``ids.nth(first_id + n)``; with ``event=None`` no event is written. ``new_owner_id``
    None keeps the link, ``error_message`` None the outcome.
    """

    owner_id: str
    statuses: tuple[Status, ...]
    to_status: Status
    new_owner_id: str | None = None
    error_message: str | None = None
    event: EventKind | None = None
    at: float = 0.0
    payload: str = "{}"
    ids: Ids | None = None
    first_id: int = 0


class SignalKind(StrEnum):
    """
    What others may like to know after a commit. Hints only: losing one loses nothing.
    """

    DUE = "due"
    SETTLED = "settled"
    ANSWERED = "answered"
    CALLBACK = "callback"
    POLICIES = "policies"


class Signal(Struct, frozen=True, gc=False):
    """
    A fact to broadcast once the transaction has committed. The empty subject stands for any.
    """

    kind: SignalKind
    subject: str


class Decision(Struct, Generic[T], frozen=True, gc=False):
    """
    Everything one rule decided. A store writes all of it or nothing.
    """

    reply: T
    changes: tuple[Change, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    events: tuple[Event, ...] = ()
    signals: tuple[Signal, ...] = ()
