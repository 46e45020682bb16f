"""
One row of every stored type, with texts that tear at encodings.
"""

from __future__ import annotations

from msgspec.structs import replace

from kit.builders import AGENT, NOW, a_notification, an_effective
from uns.ports.policy import (
    AUTHORITY,
    ChannelPlan,
    EscalationStep,
    PolicyAuthority,
    PolicyContent,
    PolicyRecord,
    PolicyRevision,
    SnapshotRecord,
)
from uns.ports.rows import AckAudit, Copy, DedupWindow, DeliveryAudit, Event, Notification, Outcome
from uns.ports.vocabulary import (
    Ack,
    AutonomyMode,
    DeliveryMode,
    EventKind,
    NotificationIntent,
    PolicyStatus,
    Priority,
    Require,
    Status,
)

ODD = "é \U0001f514 \u202e %s 'x' \"y\" \\ \n\t"


def a_window(key: str = "d" * 64, **fields: object) -> DedupWindow:
    """
    The window of ``n1``, open for 300 s.
    """
    plain = {"key": key, "until": NOW + 300, "owner_id": "n1", "generation": 1}
    return DedupWindow(**(plain | fields))


def an_event(id: str = "e1", notification_id: str = "n1", **fields: object) -> Event:
    """
    An acceptance at ``NOW``.
    """
    plain = {"id": id, "notification_id": notification_id, "kind": EventKind.ACCEPTED, "at": NOW}
    return Event(**(plain | fields))


def a_copy(notification_id: str = "n1", channel: str = "SLACK", **fields: object) -> Copy:
    """
    A success on record.
    """
    plain = {"ref": "m1", "routing": None, "state": "SENT", "at": NOW}
    return Copy(notification_id=notification_id, channel=channel, **(plain | fields))


def a_full_notification(id: str = "n1") -> Notification:
    """
    A notification with something in every column.
    """
    effective = an_effective(
        intent=NotificationIntent.SAFETY,
        priority=Priority.HIGH,
        max_attempts=7,
        channels=ChannelPlan(primary=("SLACK", "EMAIL"), fallback=("SMS",), require=Require.ALL),
        targets={"SLACK": {"channel": ODD, "rate": {"per_second": 0.1, "burst": 3}}, "EMAIL": {}},
        responders=("slack:T1:*",),
        escalation=(EscalationStep(channels=("SMS",), priority=Priority.LOW),),
    )
    return a_notification(
        id,
        effective=effective,
        body=f'{{"title":{ODD!r}}}',
        correlation_id=ODD,
        wants_callback=True,
        escalation_of="n0",
        status=Status.FAILED,
        outcome=Outcome(channels_attempted=("SLACK", "EMAIL"), channels_failed=("EMAIL",), error_message=ODD),
        attempts=4,
        cycle=2,
        cycle_attempts=1,
        dedup_owner_id="n8",
        dedup_generation=3,
        dedup_successor_id="n9",
        next_attempt=NOW + 0.1,
        lease_until=NOW + 60.000001,
        lease_token="t1",
        paced_since=NOW - 1 / 3,
        dead_letter=True,
        withdrawn=True,
        delivered_at=NOW + 1e-6,
        deadline=NOW + 900,
        ack_status=Ack.DISMISSED,
        actor=ODD,
        responded_at=NOW + 2.5,
        response_metadata='{"a": [1, null]}',
    )


def an_audit(id: str, notification_id: str = "n1", **fields: object) -> DeliveryAudit:
    """
    A settlement as the compliance table has it.
    """
    return replace(_delivery_audit(), id=id, notification_id=notification_id, **fields)


def _delivery_audit() -> DeliveryAudit:
    return DeliveryAudit(
        id="da1",
        notification_id="n1",
        notification_type="system.alert",
        status=Status.DELIVERED,
        channels_attempted=("SLACK", "EMAIL"),
        channels_succeeded=("SLACK",),
        channels_failed=(),
        error_message=ODD,
        intent=NotificationIntent.GOVERNANCE,
        delivery_mode=DeliveryMode.BEST_EFFORT,
        autonomy_mode=AutonomyMode.PREVIEW,
        agent_id=AGENT,
        policy_config_id="ops",
        policy_config_hash="c" * 64,
        delivered_at=NOW,
        created_at=NOW,
    )


def _ack_audit() -> AckAudit:
    return AckAudit(
        id="aa1",
        notification_id="n1",
        old_status=Ack.PENDING,
        new_status=Ack.ACKED,
        acked_by=ODD,
        acked_at=NOW,
        ack_metadata='{"x":1}',
        created_at=NOW,
    )


def _revision() -> PolicyRevision:
    return PolicyRevision(
        id="ops@3",
        policy_id="ops",
        revision=3,
        notification_type="system.*",
        status=PolicyStatus.RETIRED,
        content_hash="c" * 64,
        snapshot_hash="s" * 64,
        created_by=ODD,
        created_at=NOW,
        activated_at=NOW + 1,
        retired_at=NOW + 2,
        delta_id="delta",
    )


def _record() -> PolicyRecord:
    return PolicyRecord(
        policy_id="ops",
        notification_type="system.*",
        status=PolicyStatus.ACTIVE,
        content_hash="c" * 64,
        revision=3,
        updated_at=NOW,
    )


FULL = (
    a_full_notification(),
    a_window(handed_on=2, followers=5),
    an_event(
        payload=f'{{"x":"{ODD}"}}',
        callback_pending=True,
        callback_until=NOW + 0.25,
        callback_token="t1",
        callback_attempts=2,
        callback_error=ODD,
    ),
    a_copy(ref=ODD, routing="{}"),
    _delivery_audit(),
    _ack_audit(),
    PolicyAuthority(id=AUTHORITY, revision=3, snapshot_hash="s" * 64),
    SnapshotRecord(hash="s" * 64, content="[]", created_at=NOW),
    PolicyContent(hash="c" * 64, policy_id="ops", content=ODD, created_at=NOW),
    _revision(),
    _record(),
)
"""One row of every type with something in every column."""

BARE = (
    a_notification(dedup_key=None, dedup_generation=None),
    an_event(),
    a_copy(ref=None),
    replace(_delivery_audit(), error_message=None, delivered_at=None, channels_attempted=()),
    replace(_ack_audit(), old_status=None, ack_metadata=None),
    replace(_revision(), snapshot_hash=None, activated_at=None, retired_at=None, delta_id=None),
)
"""The types with optional columns, and nothing in these."""
