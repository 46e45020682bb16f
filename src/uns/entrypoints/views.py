"""
Stored rows as callers see them: replies with UUIDs and datetimes, or plain dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from uns.core.plans.reading import View
from uns.core.plans.recovery import DeadLetter
from uns.core.rules.accept import Acceptance, window_key
from uns.core.rules.redact import shown
from uns.ports.policy import Resolved
from uns.ports.replies import (
    AckResponse,
    DeliveryHistory,
    DeliveryRecord,
    NotificationStatus,
    Projection,
    SendNotificationResponse,
    SimulationResponse,
)
from uns.ports.rows import DeliveryAudit, Event, Notification
from uns.ports.vocabulary import Resolution, Status


def instant(seconds: float) -> datetime:
    """
    Unix seconds as an aware datetime in UTC.
    """
    return datetime.fromtimestamp(seconds, UTC)


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else instant(seconds)


def own_projection(row: Notification) -> Projection:
    """
    The response view of a row that is its own canonical owner.
    """
    id = UUID(row.id)
    return Projection(
        notification_id=id,
        ack_status=row.ack_status,
        obligation_owner_id=id,
        effective_ack_status=row.ack_status,
        obligation_resolution_status=Resolution.RESOLVED,
    )


def sent(row: Notification, projection: Projection | None, *, replayed: bool) -> SendNotificationResponse:
    """
    The reply to a request: the stored row and whose obligation it is (None: its own).
    """
    outcome = row.outcome
    projection = projection or own_projection(row)
    return SendNotificationResponse(
        notification_id=projection.notification_id,
        status=row.status,
        channels_attempted=outcome.channels_attempted,
        channels_succeeded=outcome.channels_succeeded,
        channels_failed=outcome.channels_failed,
        require_ack=row.effective.require_ack,
        ack_status=row.ack_status,
        obligation_owner_id=projection.obligation_owner_id,
        effective_ack_status=projection.effective_ack_status,
        ack_inherited=projection.ack_inherited,
        obligation_resolution_status=projection.obligation_resolution_status,
        obligation_resolution_error=projection.obligation_resolution_error,
        idempotent_replay=replayed,
        created_at=instant(row.accepted_at),
        message=_message(row),
    )


def status(view: View) -> NotificationStatus:
    """
    A notification and its response, as they stand.
    """
    row = view.row
    return NotificationStatus(
        notification_id=UUID(row.id),
        notification_type=row.notification_type,
        intent=row.intent,
        title=str(_json(row.body).get("title", "")),
        source=row.source,
        correlation_id=row.correlation_id,
        priority=row.priority,
        delivery_mode=row.delivery_mode,
        created_at=instant(row.accepted_at),
        **_delivery(row),
        **_response(row, view.projection),
    )


def _delivery(row: Notification) -> dict[str, Any]:
    return msgspec.structs.asdict(row.outcome) | {
        "status": row.status,
        "attempts": row.attempts,
        "dead_letter": row.dead_letter,
        "withdrawn": row.withdrawn,
        "delivered_at": _instant(row.delivered_at),
    }


def _response(row: Notification, projection: Projection) -> dict[str, Any]:
    told = msgspec.structs.asdict(projection)
    del told["notification_id"]
    return told | {
        "require_ack": row.effective.require_ack,
        "acked_by": row.actor,
        "acked_at": _instant(row.responded_at),
        "deadline": _instant(row.deadline),
    }


def delivery_history(id: str, audits: Sequence[DeliveryAudit]) -> DeliveryHistory:
    """
    The settlements of a notification.
    """
    records = [
        DeliveryRecord(
            status=audit.status,
            channels_attempted=audit.channels_attempted,
            channels_succeeded=audit.channels_succeeded,
            channels_failed=audit.channels_failed,
            error_message=audit.error_message,
            delivery_mode=audit.delivery_mode,
            policy_config_id=audit.policy_config_id,
            policy_config_hash=audit.policy_config_hash,
            delivered_at=_instant(audit.delivered_at),
            created_at=instant(audit.created_at),
        )
        for audit in audits
    ]
    return DeliveryHistory(notification_id=UUID(id), items=tuple(records))


def answered(row: Notification) -> AckResponse:
    """
    The answer on record of a row that has one.
    """
    if row.ack_status is None or row.responded_at is None:
        raise ValueError(f"{row.id} has no answer")
    return AckResponse(
        notification_id=UUID(row.id),
        ack_status=row.ack_status,
        acked_by=row.actor or "",
        acked_at=instant(row.responded_at),
        metadata=_json(row.response_metadata or "{}"),
    )


def simulated(acceptance: Acceptance, resolved: Resolved) -> SimulationResponse:
    """
    What a request would resolve to.
    """
    effective = resolved.effective
    return SimulationResponse(
        notification_type=acceptance.request.notification_type,
        policy_id=resolved.policy_id,
        policy_hash=resolved.policy_hash,
        revision=resolved.revision,
        effective=effective,
        effective_hash=resolved.effective_hash,
        steps=resolved.steps,
        channels=effective.all_channels,
        delivery_mode=effective.delivery_mode,
        require_ack=effective.require_ack,
        priority=effective.priority,
        dedup_key=window_key(acceptance, resolved),
    )


def row_dict(row: Notification) -> dict[str, Any]:
    """
    A stored row by its column names; JSON columns decoded, credentials in targets masked.
    """
    fields = _plain(row)
    fields["notification"] = _json(fields.pop("body"))
    fields["effective"]["targets"] = shown(fields["effective"]["targets"])
    if row.response_metadata is not None:
        fields["response_metadata"] = _json(row.response_metadata)
    return fields


def view_dict(view: View) -> dict[str, Any]:
    """
    A stored row with its response projection.
    """
    return row_dict(view.row) | _plain(view.projection)


def dead_letter_dict(letter: DeadLetter) -> dict[str, Any]:
    """
    A dead-lettered row with what blocks its replay, or None twice.
    """
    blocked = letter.blocked
    return row_dict(letter.row) | {
        "replay_blocked_by": blocked.by if blocked is not None else None,
        "replay_block_reason": str(blocked.reason) if blocked is not None else None,
    }


def event_dict(event: Event) -> dict[str, Any]:
    """
    One line of the timeline, payload decoded.
    """
    return _plain(event) | {"payload": _json(event.payload)}


def _plain(struct: msgspec.Struct) -> dict[str, Any]:
    # Through JSON, so that sequences are lists: to_builtins keeps tuples.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(struct))
    return plain


def _json(text: str) -> dict[str, Any]:
    """
    A stored JSON object; one that somebody spoilt must not hide its row, nor the list it is in.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        return {"unreadable": str(error)}


def _message(row: Notification) -> str:
    failure = row.outcome.error_message
    match row.status:
        case Status.DELIVERED:
            return "delivered"
        case Status.DEDUPLICATED:
            return "deduplicated"
        case Status.FAILED:
            return f"failed: {failure}" if failure else "failed"
        case Status.PENDING if not row.leads:
            return "waiting for the delivery of the notification it repeats"
        case Status.PENDING:
            return f"will be tried again: {failure}" if failure else "accepted"
