"""
What callers get back. The JSON of each struct is the body that the API documents.

Here ids are UUIDs and instants are aware datetimes in UTC, unlike in the stored rows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from uns.ports.policy import Effective, Step
from uns.ports.vocabulary import (
    Ack,
    DeliveryMode,
    LineageError,
    NotificationIntent,
    Priority,
    Resolution,
    Status,
)


class Projection(Struct, frozen=True, kw_only=True):
    """
    Who owes the answer to a notification, and how it stands.

    ``ack_status`` is the notification's own stored state. ``effective_ack_status`` is the
    canonical owner's, to be used only where the lineage is RESOLVED.
    """

    notification_id: UUID
    ack_status: Ack | None = None
    obligation_owner_id: UUID | None = None
    effective_ack_status: Ack | None = None
    ack_inherited: bool = False
    obligation_resolution_status: Resolution | None = None
    obligation_resolution_error: LineageError | None = None


class SendNotificationResponse(Struct, frozen=True, kw_only=True):
    """
    The state of a notification as its acceptance, or its first attempt, left it.

    ``status`` says what became of it: acceptance alone is no delivery.
    """

    notification_id: UUID
    status: Status
    channels_attempted: tuple[str, ...] = ()
    channels_succeeded: tuple[str, ...] = ()
    channels_failed: tuple[str, ...] = ()
    require_ack: bool
    ack_status: Ack | None = None
    obligation_owner_id: UUID | None = None
    effective_ack_status: Ack | None = None
    ack_inherited: bool = False
    obligation_resolution_status: Resolution | None = None
    obligation_resolution_error: LineageError | None = None
    idempotent_replay: bool = False
    created_at: datetime
    message: str


class NotificationStatus(Struct, frozen=True, kw_only=True):
    """
    A notification and its response, as they stand.
    """

    notification_id: UUID
    notification_type: str
    intent: NotificationIntent
    title: str
    source: str
    correlation_id: str | None
    priority: Priority
    delivery_mode: DeliveryMode
    status: Status
    channels_attempted: tuple[str, ...]
    channels_succeeded: tuple[str, ...]
    channels_failed: tuple[str, ...]
    error_message: str | None
    attempts: int
    dead_letter: bool
    withdrawn: bool
    require_ack: bool
    ack_status: Ack | None
    acked_by: str | None
    acked_at: datetime | None
    deadline: datetime | None
    obligation_owner_id: UUID | None
    effective_ack_status: Ack | None
    ack_inherited: bool
    obligation_resolution_status: Resolution | None
    obligation_resolution_error: LineageError | None
    created_at: datetime
    delivered_at: datetime | None


class DeliveryRecord(Struct, frozen=True, kw_only=True):
    """
    What one settlement came to.
    """

    status: Status
    channels_attempted: tuple[str, ...]
    channels_succeeded: tuple[str, ...]
    channels_failed: tuple[str, ...]
    error_message: str | None
    delivery_mode: DeliveryMode
    policy_config_id: str
    policy_config_hash: str
    delivered_at: datetime | None
    created_at: datetime


class DeliveryHistory(Struct, frozen=True, kw_only=True):
    """
    The settlements of a notification, oldest first.
    """

    notification_id: UUID
    items: tuple[DeliveryRecord, ...]
    next_cursor: str | None = None


class AckResponse(Struct, frozen=True, kw_only=True):
    """
    The answer on record: the caller's own, now or when it was first given.
    """

    notification_id: UUID
    ack_status: Ack
    acked_by: str
    acked_at: datetime
    metadata: dict[str, Any] = {}


class SimulationResponse(Struct, frozen=True, kw_only=True):
    """
    What a request would resolve to. Nothing was stored and nothing sent: ``delivered`` is False.

    Targets are the operator's and may hold credentials, so they are shown by channel name alone;
    ``effective_hash`` is still that of the whole. ``dedup_key`` is the stored key that the
    notification would coalesce under, None where its policy opts out.
    """

    notification_type: str
    policy_id: str
    policy_hash: str
    revision: int
    effective: Effective
    effective_hash: str
    steps: tuple[Step, ...]
    channels: tuple[str, ...]
    delivery_mode: DeliveryMode
    require_ack: bool
    priority: Priority
    dedup_key: str | None = None
    delivered: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "effective", replace(self.effective, targets=_bare(self.effective.targets)))
        force_setattr(self, "steps", tuple(_without_targets(step) for step in self.steps))


def _without_targets(step: Step) -> Step:
    if "targets" not in step.changed:
        return step
    return replace(step, changed=step.changed | {"targets": _bare(step.changed["targets"])})


def _bare(targets: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {channel: {} for channel in targets}
