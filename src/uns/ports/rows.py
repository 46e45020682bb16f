"""
The stored rows: immutable, one struct per table row.

Times are Unix seconds. Ids are text UUIDs. ``body``, ``payload`` and ``response_metadata`` are
JSON texts, encoded once by whoever makes the row and never compared or updated afterwards.

``gc=False``: immutable values that refer to nothing that could refer back need no cycle collector,
and a busy process makes many of them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from uns.ports.policy import Effective
from uns.ports.vocabulary import (
    Ack,
    AutonomyMode,
    DeliveryMode,
    EventKind,
    NotificationIntent,
    Priority,
    Status,
)


class Outcome(Struct, frozen=True, gc=False, kw_only=True):
    """
    What the last committed attempt came to.

    ``channels_succeeded`` includes successes recorded by earlier attempts.
    """

    channels_attempted: tuple[str, ...] = ()
    channels_succeeded: tuple[str, ...] = ()
    channels_failed: tuple[str, ...] = ()
    error_message: str | None = None


NOTHING_YET = Outcome()
"""Of what was never attempted."""


class Notification(Struct, frozen=True, gc=False, kw_only=True):
    """
    One accepted obligation (``uns_notifications``). The first block never changes.
    """

    id: str
    key: str
    fingerprint: str
    principal: str
    source: str
    notification_type: str
    intent: NotificationIntent
    agent_id: str
    autonomy_mode: AutonomyMode
    priority: Priority
    delivery_mode: DeliveryMode
    correlation_id: str | None
    accepted_at: float
    body: str
    effective: Effective
    effective_hash: str
    policy_id: str
    policy_hash: str
    channels: str
    wants_callback: bool
    dedup_key: str | None
    escalation_of: str | None = None

    status: Status = Status.PENDING
    outcome: Outcome = NOTHING_YET
    attempts: int = 0
    cycle: int = 1
    cycle_attempts: int = 0
    dedup_owner_id: str | None = None
    dedup_generation: int | None = None
    dedup_successor_id: str | None = None
    next_attempt: float = 0.0
    lease_until: float = 0.0
    lease_token: str | None = None
    paced_since: float | None = None
    dead_letter: bool = False
    withdrawn: bool = False
    delivered_at: float | None = None
    deadline: float | None = None
    ack_status: Ack | None = None
    actor: str | None = None
    responded_at: float | None = None
    response_metadata: str | None = None

    @property
    def content(self) -> dict[str, Any]:
        """
        The request as accepted, ``metadata.uns_resolution`` included.
        """
        content: dict[str, Any] = msgspec.json.decode(self.body)
        return content

    @property
    def leads(self) -> bool:
        """
        Whether this row is nobody's follower.
        """
        return self.dedup_owner_id is None

    @property
    def guaranteed(self) -> bool:
        return self.delivery_mode is DeliveryMode.GUARANTEED


class DedupWindow(Struct, frozen=True, gc=False, kw_only=True):
    """
    The coalescing state of one dedup key (``uns_dedup``).

    ``generation`` numbers new leaders only. ``handed_on`` counts how often the present
    generation went from one leader to the next. ``followers`` is how many rows are linked behind
    ``owner_id`` and not yet satisfied; zero is certain.
    """

    key: str
    until: float
    owner_id: str
    generation: int
    handed_on: int = 0
    followers: int = 0


class Event(Struct, frozen=True, gc=False, kw_only=True):
    """
    One line of the timeline, and the outbox row of a callback (``uns_events``).

    Only the callback fields ever change. ``callback_until`` is due time, lease and backoff in one.
    """

    id: str
    notification_id: str
    kind: EventKind
    at: float
    payload: str = "{}"
    callback_pending: bool = False
    callback_until: float = 0.0
    callback_token: str | None = None
    callback_attempts: int = 0
    callback_error: str | None = None

    @property
    def details(self) -> dict[str, Any]:
        details: dict[str, Any] = msgspec.json.decode(self.payload)
        return details


class Copy(Struct, frozen=True, gc=False, kw_only=True):
    """
    A success on record: ``channel`` has this notification (``uns_copies``).

    ``ref`` is the provider's message id, ``routing`` what an update of the message needs.
    """

    notification_id: str
    channel: str
    ref: str | None
    routing: str | None
    state: str
    at: float


class DeliveryAudit(Struct, frozen=True, gc=False, kw_only=True):
    """
    Compliance record of one settlement (``notification_audit_records``). Append-only.
    """

    id: str
    notification_id: str
    notification_type: str
    status: Status
    channels_attempted: tuple[str, ...]
    channels_succeeded: tuple[str, ...]
    channels_failed: tuple[str, ...]
    error_message: str | None
    intent: NotificationIntent
    delivery_mode: DeliveryMode
    autonomy_mode: AutonomyMode
    agent_id: str
    policy_config_id: str
    policy_config_hash: str
    delivered_at: float | None
    created_at: float


class AckAudit(Struct, frozen=True, gc=False, kw_only=True):
    """
    Compliance record of one response transition (``ack_audit_records``). Append-only.
    """

    id: str
    notification_id: str
    old_status: Ack | None
    new_status: Ack
    acked_by: str
    acked_at: float
    ack_metadata: str | None
    created_at: float


class Link(Struct, frozen=True, gc=False, array_like=True):
    """
    The lineage view of one row: just enough to find the owner of an obligation.
    """

    id: str
    status: Status
    dedup_key: str | None
    dedup_generation: int | None
    dedup_owner_id: str | None
    dedup_successor_id: str | None
    dead_letter: bool
    ack_status: Ack | None
    escalation_of: str | None
