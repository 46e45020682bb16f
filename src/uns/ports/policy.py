"""
Operators' policies: what a policy file says, what a snapshot holds, what a request resolves to.

The YAML form is documented in ``docs/policies.md``. Every struct refuses unknown fields.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from uns.ports.vocabulary import (
    AutonomyMode,
    DeliveryMode,
    NotificationIntent,
    PolicyStatus,
    Priority,
    Require,
)

Target = dict[str, Any]

AUTHORITY = "notifications"


class ChannelPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Which channels carry a notification. Fallbacks are called only when no primary succeeded.
    """

    primary: tuple[str, ...]
    fallback: tuple[str, ...] = ()
    require: Require = Require.ANY


class EscalationStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    One further obligation that a missing answer starts. Applied over the stored settings.
    """

    channels: tuple[str, ...]
    priority: Priority | None = None
    ack_timeout_minutes: int | None = None


class Overlay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """
    Settings that replace those of the base where they are given.
    """

    delivery_mode: DeliveryMode | None = None
    priority: Priority | None = None
    require_ack: bool | None = None
    ack_timeout_minutes: int | None = None
    dedup_window_seconds: float | None = None
    max_attempts: int | None = None
    channels: ChannelPlan | None = None


class Match(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Narrows a policy to sources; a trailing ``*`` matches any rest.
    """

    source: tuple[str, ...] = ()


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """
    One operator policy, as written in its file.

    ``ack_timeout_minutes`` 1..10080, ``dedup_window_seconds`` 0..604800 (0: no deduplication),
    ``max_attempts`` 1..20 (None: the runtime's).
    """

    policy_id: str
    notification_type: str
    status: PolicyStatus
    delivery_mode: DeliveryMode
    require_ack: bool
    channels: ChannelPlan
    match: Match | None = None
    intent: NotificationIntent | None = None
    priority: Priority = Priority.NORMAL
    ack_timeout_minutes: int = 30
    dedup_window_seconds: float = 300.0
    max_attempts: int | None = None
    targets: dict[str, Target] = {}
    autonomy: dict[AutonomyMode, Overlay] = {}
    irreversible: Overlay | None = None
    responders: tuple[str, ...] = ()
    links: bool = True
    escalation: tuple[EscalationStep, ...] = ()


class Effective(Struct, frozen=True, kw_only=True):
    """
    The settings that one notification lives by, fixed at acceptance.

    ``effective_hash`` is the SHA-256 of this in canonical JSON: targets and autonomy mode
    included, policy id and revision not.
    """

    autonomy_mode: AutonomyMode
    intent: NotificationIntent | None
    delivery_mode: DeliveryMode
    priority: Priority
    require_ack: bool
    ack_timeout_minutes: int
    dedup_window_seconds: float
    max_attempts: int | None
    channels: ChannelPlan
    targets: dict[str, Target]
    responders: tuple[str, ...]
    links: bool
    escalation: tuple[EscalationStep, ...]

    @property
    def ack_seconds(self) -> float:
        return self.ack_timeout_minutes * 60.0

    @property
    def all_channels(self) -> tuple[str, ...]:
        return self.channels.primary + self.channels.fallback


UNREADABLE = Effective(
    autonomy_mode=AutonomyMode.LIVE,
    intent=None,
    delivery_mode=DeliveryMode.GUARANTEED,
    priority=Priority.NORMAL,
    require_ack=False,
    ack_timeout_minutes=0,
    dedup_window_seconds=0.0,
    max_attempts=None,
    channels=ChannelPlan(primary=()),
    targets={},
    responders=(),
    links=False,
    escalation=(),
)
"""
Stands for stored settings that cannot be read. Without a channel, the next attempt fails for good.
"""


class Step(Struct, frozen=True):
    """
    One step of a resolution (``base``, ``autonomy``, ``irreversible``, ...) and what it changed.
    """

    step: str
    changed: dict[str, Any]


class Shape(Struct, frozen=True):
    """
    What of a request decides its policy.
    """

    notification_type: str
    source: str
    intent: NotificationIntent
    autonomy_mode: AutonomyMode
    irreversible: bool


class Resolved(Struct, frozen=True, kw_only=True):
    """
    The effective policy of one shape, with its provenance.

    ``accepted_json`` is the payload of ACCEPTED, ``resolution_json`` the value of
    ``metadata.uns_resolution``; both are encoded once and shared by all notifications of a shape.
    ``channels`` is the row's channel set (see ``uns.core.rules.policy.channel_set``).
    """

    policy_id: str
    policy_hash: str
    revision: int
    snapshot_hash: str
    effective: Effective
    effective_hash: str
    steps: tuple[Step, ...]
    channels: str
    accepted_json: str
    resolution_json: str


class Snapshot(Struct, frozen=True, kw_only=True):
    """
    A whole set of policies that was, or is, in force. ``hash`` is the digest of its content.
    """

    hash: str
    revision: int
    policies: tuple[Policy, ...]


class PolicyAuthority(Struct, frozen=True, kw_only=True):
    """
    The one row that names the snapshot in force. ``id`` is always ``AUTHORITY``.
    """

    id: str
    revision: int
    snapshot_hash: str


class SnapshotRecord(Struct, frozen=True, kw_only=True):
    """
    An immutable snapshot (``notification_policy_snapshots``): ``content`` is a JSON list of policies.
    """

    hash: str
    content: str
    created_at: float


class PolicyContent(Struct, frozen=True, kw_only=True):
    """
    One immutable policy document (``notification_policy_contents``), JSON, by its digest.
    """

    hash: str
    policy_id: str
    content: str
    created_at: float


class PolicyRevision(Struct, frozen=True, kw_only=True):
    """
    One line of a policy's history (``notification_policy_revisions``).

    ``id`` is ``<policy_id>@<revision>``; ``revision`` is the snapshot revision that wrote it.
    """

    id: str
    policy_id: str
    revision: int
    notification_type: str
    status: PolicyStatus
    content_hash: str
    snapshot_hash: str | None
    created_by: str
    created_at: float
    activated_at: float | None = None
    retired_at: float | None = None
    delta_id: str | None = None


class PolicyRecord(Struct, frozen=True, kw_only=True):
    """
    The present state of one policy (``notification_policies``).
    """

    policy_id: str
    notification_type: str
    status: PolicyStatus
    content_hash: str
    revision: int
    updated_at: float


class PolicyReload(Struct, frozen=True, kw_only=True):
    """
    What a reload came to. ``changed`` False: the set in force has this content already.

    ``activated`` and ``retired`` are the ids of policies that this revision put in force (new,
    altered or returned) and took out of it; ``policies`` is the whole set.
    """

    revision: int
    snapshot_hash: str
    changed: bool
    activated: tuple[str, ...]
    retired: tuple[str, ...]
    policies: tuple[str, ...]
