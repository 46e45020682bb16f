"""
Builders: a valid value of each kind, with the fields that a test cares about replaced.
"""

from __future__ import annotations

from typing import Any

from uns.adapters.sources import new_id
from uns.core.plans import policies
from uns.core.rules.accept import Acceptance
from uns.core.rules.digest import content_dedup_key, fingerprint, idempotency_digest
from uns.core.rules.policy import Resolver
from uns.ports.documents import PolicyDocument
from uns.ports.policy import ChannelPlan, Effective, Policy
from uns.ports.requests import SendNotificationRequest
from uns.ports.rows import Notification
from uns.ports.sources import Ids
from uns.ports.store import Store
from uns.ports.vocabulary import (
    AutonomyMode,
    DeliveryMode,
    NotificationIntent,
    PolicyStatus,
    Priority,
)

AGENT = "2c5f9b4c-6b3e-4d1a-9c12-4a8f0c8e7b11"
NOW = 1_800_000_000.0


def a_request(**fields: Any) -> SendNotificationRequest:
    """
    An operational alert; ``mode`` is short for the autonomy context's mode.
    """
    mode = fields.pop("mode", "LIVE")
    plain: dict[str, Any] = {
        "notification_type": "system.alert",
        "intent": "OPERATIONAL",
        "title": "disk is filling up",
        "message": "/var is at 91 %",
        "source": "pay",
        "autonomy_context": {"autonomy_mode": mode, "agent_id": AGENT},
    }
    return SendNotificationRequest(**(plain | fields))


def an_acceptance(request: SendNotificationRequest | None = None, **fields: Any) -> Acceptance:
    """
    A request as a door hands it to the ledger.
    """
    request = request if request is not None else a_request()
    principal = fields.get("principal", "agent-7")
    key = request.idempotency_key if request.idempotency_key is not None else new_id()
    plain: dict[str, Any] = {
        "id": new_id(),
        "ids": Ids(new_id()),
        "request": request,
        "principal": principal,
        "key": idempotency_digest(principal, request.source, key),
        "fingerprint": fingerprint(request),
        "dedup_key": request.dedup_key or content_dedup_key(request),
    }
    return Acceptance(**(plain | fields))


def an_effective(**fields: Any) -> Effective:
    """
    Guaranteed, one primary channel (SLACK), no answer required, a window of 300 s.
    """
    plain: dict[str, Any] = {
        "autonomy_mode": AutonomyMode.LIVE,
        "intent": None,
        "delivery_mode": DeliveryMode.GUARANTEED,
        "priority": Priority.NORMAL,
        "require_ack": False,
        "ack_timeout_minutes": 15,
        "dedup_window_seconds": 300.0,
        "max_attempts": None,
        "channels": ChannelPlan(primary=("SLACK",)),
        "targets": {},
        "responders": (),
        "links": True,
        "escalation": (),
    }
    return Effective(**(plain | fields))


def a_notification(id: str = "n1", **fields: Any) -> Notification:
    """
    A pending leader of generation 1, due since ``NOW``.

    ``effective`` may be given; ``delivery_mode`` and ``priority`` follow it.
    """
    effective = fields.get("effective", an_effective())
    plain: dict[str, Any] = {
        "id": id,
        "key": f"key-{id}",
        "fingerprint": "f" * 64,
        "principal": "agent-7",
        "source": "pay",
        "notification_type": "system.alert",
        "intent": NotificationIntent.OPERATIONAL,
        "agent_id": AGENT,
        "autonomy_mode": AutonomyMode.LIVE,
        "priority": effective.priority,
        "delivery_mode": effective.delivery_mode,
        "correlation_id": None,
        "accepted_at": NOW,
        "body": "{}",
        "effective": effective,
        "effective_hash": "e" * 64,
        "policy_id": "ops-alerts",
        "policy_hash": "p" * 64,
        "channels": "".join(f"|{name}|" for name in sorted(set(effective.all_channels))),
        "wants_callback": False,
        "dedup_key": "d" * 64,
        "dedup_generation": 1,
        "next_attempt": NOW,
    }
    return Notification(**(plain | fields))


def a_policy(policy_id: str = "ops-alerts", **fields: Any) -> Policy:
    """
    An ACTIVE policy for everything: guaranteed, SLACK, no answer, a window of 300 s.
    """
    plain: dict[str, Any] = {
        "policy_id": policy_id,
        "notification_type": "*",
        "status": PolicyStatus.ACTIVE,
        "delivery_mode": DeliveryMode.GUARANTEED,
        "require_ack": False,
        "channels": ChannelPlan(primary=("SLACK",)),
    }
    return Policy(**(plain | fields))


def put_in_force(store: Store, *in_force: Policy) -> Resolver:
    """
    Make these policies the whole set of ``store``; channels they name count as registered.
    """
    channels = {name for policy in in_force for name in _named(policy)}
    documents = [PolicyDocument(policy) for policy in in_force]
    store.transact(
        policies.activate(documents, packaged=(), actor="tests", known_channels=channels, allow_gaps=True)
    )
    return Resolver()


def _named(policy: Policy) -> set[str]:
    named = {*policy.channels.primary, *policy.channels.fallback, *policy.targets}
    for overlay in policy.autonomy.values():
        if overlay.channels is not None:
            named |= {*overlay.channels.primary, *overlay.channels.fallback}
    return named
