"""
Replies: their JSON is what the API documents, field by field.
"""

import json
from datetime import UTC, datetime
from uuid import UUID

import msgspec

from uns.ports.policy import ChannelPlan, Effective, Step
from uns.ports.replies import AckResponse, Projection, SendNotificationResponse, SimulationResponse
from uns.ports.vocabulary import Ack, AutonomyMode, DeliveryMode, LineageError, Priority, Resolution, Status

ID = "2c5f9b4c-6b3e-4d1a-9c12-4a8f0c8e7b11"
OWNER = "3d6a0c5d-7c4f-4e2b-ad23-5b9f1d9f8c22"


def body_of(reply):
    return list(json.loads(msgspec.json.encode(reply)).items())


def test_the_projection_of_a_follower():
    """
    A follower shows its own state beside its owner's.
    """
    reply = Projection(
        notification_id=UUID(ID),
        obligation_owner_id=UUID(OWNER),
        effective_ack_status=Ack.ACKED,
        ack_inherited=True,
        obligation_resolution_status=Resolution.RESOLVED,
    )

    assert body_of(reply) == [
        ("notification_id", ID),
        ("ack_status", None),
        ("obligation_owner_id", OWNER),
        ("effective_ack_status", "ACKED"),
        ("ack_inherited", True),
        ("obligation_resolution_status", "RESOLVED"),
        ("obligation_resolution_error", None),
    ]


def test_the_projection_of_a_broken_lineage():
    """
    Where no owner was found the projection says why, and shows nobody's answer.
    """
    reply = Projection(
        notification_id=UUID(ID),
        obligation_resolution_status=Resolution.UNRESOLVED,
        obligation_resolution_error=LineageError.CYCLE,
    )

    assert dict(body_of(reply))["obligation_resolution_error"] == "CYCLE"
    assert dict(body_of(reply))["effective_ack_status"] is None


def test_the_reply_to_a_request():
    """
    The answer to a submission has the documented fields in the documented order.
    """
    reply = SendNotificationResponse(
        notification_id=UUID(ID),
        status=Status.DELIVERED,
        channels_attempted=("SLACK",),
        channels_succeeded=("SLACK",),
        require_ack=True,
        ack_status=Ack.PENDING,
        obligation_owner_id=UUID(ID),
        effective_ack_status=Ack.PENDING,
        obligation_resolution_status=Resolution.RESOLVED,
        created_at=datetime(2026, 10, 22, 21, tzinfo=UTC),
        message="delivered",
    )

    assert body_of(reply) == [
        ("notification_id", ID),
        ("status", "DELIVERED"),
        ("channels_attempted", ["SLACK"]),
        ("channels_succeeded", ["SLACK"]),
        ("channels_failed", []),
        ("require_ack", True),
        ("ack_status", "PENDING"),
        ("obligation_owner_id", ID),
        ("effective_ack_status", "PENDING"),
        ("ack_inherited", False),
        ("obligation_resolution_status", "RESOLVED"),
        ("obligation_resolution_error", None),
        ("idempotent_replay", False),
        ("created_at", "2026-10-22T21:00:00Z"),
        ("message", "delivered"),
    ]


def test_the_reply_to_an_answer():
    """
    The answer on record has its actor, its instant to the microsecond, and its metadata.
    """
    reply = AckResponse(
        notification_id=UUID(ID),
        ack_status=Ack.ACKED,
        acked_by="local-operator",
        acked_at=datetime(2026, 10, 22, 21, 3, 12, 410291, tzinfo=UTC),
        metadata={"ticket_id": "INC-4092"},
    )

    assert body_of(reply) == [
        ("notification_id", ID),
        ("ack_status", "ACKED"),
        ("acked_by", "local-operator"),
        ("acked_at", "2026-10-22T21:03:12.410291Z"),
        ("metadata", {"ticket_id": "INC-4092"}),
    ]


def test_a_simulation_shows_no_secret_of_a_target():
    """
    A simulation delivers nothing, and names channels without what their targets hold.
    """
    targets = {"WEBHOOK": {"url": "https://user:hunter2@example.org/"}}
    reply = SimulationResponse(
        notification_type="system.alert",
        policy_id="ops",
        policy_hash="p",
        revision=3,
        effective=Effective(
            autonomy_mode=AutonomyMode.LIVE,
            intent=None,
            delivery_mode=DeliveryMode.GUARANTEED,
            priority=Priority.NORMAL,
            require_ack=True,
            ack_timeout_minutes=15,
            dedup_window_seconds=300,
            max_attempts=None,
            channels=ChannelPlan(primary=("WEBHOOK",)),
            targets=targets,
            responders=(),
            links=True,
            escalation=(),
        ),
        effective_hash="e",
        steps=(Step("base", {"require_ack": True, "targets": targets}), Step("autonomy", {})),
        channels=("WEBHOOK",),
        delivery_mode=DeliveryMode.GUARANTEED,
        require_ack=True,
        priority=Priority.NORMAL,
    )
    body = dict(body_of(reply))

    assert "hunter2" not in json.dumps(body)
    assert body["delivered"] is False
    assert body["effective"]["targets"] == {"WEBHOOK": {}}
    assert body["steps"][0] == {"step": "base", "changed": {"require_ack": True, "targets": {"WEBHOOK": {}}}}
    assert targets["WEBHOOK"]
