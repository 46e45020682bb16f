"""
The effective policy of a request: what the layers of the policy that covers it come to.

A producer may repeat what they come to; it can never override it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import asdict, fields, replace

from uns.core.rules.digest import canonical
from uns.core.rules.matching import covering
from uns.core.rules.redact import shown
from uns.ports.checks import fault
from uns.ports.errors import NoPolicy, Rejected
from uns.ports.policy import (
    ChannelPlan,
    Effective,
    Overlay,
    Policy,
    Resolved,
    Shape,
    Snapshot,
    SnapshotRecord,
    Step,
)
from uns.ports.requests import SendNotificationRequest
from uns.ports.vocabulary import AutonomyMode, PolicyStatus

# What a layer can set, and so what a step shows. Targets, responders and escalation are the policy's.
SETTINGS = Overlay.__struct_fields__
OVERRIDES = ("delivery_mode", "require_ack", "priority")

_NONE = object()
_DEFAULTS = {
    field.name: field.default_factory() if field.default is NODEFAULT else field.default
    for field in fields(Policy)
    if not field.required
}
_LOG_ONLY = ChannelPlan(primary=("LOG",))
_decode = msgspec.json.Decoder(tuple[Policy, ...]).decode


def resolve(snapshot: Snapshot, shape: Shape) -> Resolved:
    """
    The settings a request of this shape lives by under ``snapshot``, and how they came about.

    Raises:
        NoPolicy: no ACTIVE policy covers its type and source.
        Rejected: the policy is for another intent (path ``intent``).
    """
    policy = covering(snapshot.policies, shape.notification_type, shape.source)
    if policy is None:
        where = f"{shape.notification_type} from {shape.source}"
        raise NoPolicy(f"no ACTIVE policy covers {where}", path="notification_type")
    if policy.intent is not None and policy.intent is not shape.intent:
        raise fault(
            "intent", f"must be {policy.intent}, as policy {policy.policy_id} says, not {shape.intent}"
        )
    effective, steps = _layered(policy, shape)
    return _resolved(snapshot, policy, effective, steps)


def check_overrides(resolved: Resolved, request: SendNotificationRequest) -> None:
    """
    Let a producer's wishes pass where they say what the policy says anyway.

    Raises:
        Rejected: a wish differs; ``path`` is its field.
    """
    for name in OVERRIDES:
        wish, settled = getattr(request, name), getattr(resolved.effective, name)
        if wish is not None and wish != settled:
            told = msgspec.json.encode(settled).decode().strip('"')
            raise fault(name, f"must be {told}, as policy {resolved.policy_id} says, or be left out")


def channel_set(channels: Iterable[str]) -> str:
    """
    Channel names as a row stores them: sorted, unique, each wrapped, like ``|LOG||SLACK|``.

    What is left when SQL has replaced every name it knows by nothing is what it lacks.
    """
    return "".join(f"|{name}|" for name in sorted(set(channels)))


def channels_named(snapshot: Snapshot) -> frozenset[str]:
    """
    Every channel that an ACTIVE policy of the set may call.
    """
    named: set[str] = set()
    for policy in snapshot.policies:
        if policy.status is not PolicyStatus.ACTIVE:
            continue
        plans = [policy.channels, *(o.channels for o in policy.autonomy.values() if o.channels is not None)]
        if policy.irreversible is not None and policy.irreversible.channels is not None:
            plans.append(policy.irreversible.channels)
        named.update(*((*plan.primary, *plan.fallback) for plan in plans))
        named.update(*(step.channels for step in policy.escalation))
    return frozenset(named)


def content_of(policy: Policy) -> str:
    """
    The document of a policy, as it is stored: canonical JSON.

    What is at its default is left out, whether it was written or not, so that neither writing it
    nor a later release that knows more fields makes the same policy another.
    """
    given = {name: value for name, value in asdict(policy).items() if _DEFAULTS.get(name, _NONE) != value}
    return canonical(given).decode()


def content_hash(content: str) -> str:
    """
    The digest of a document, or of a snapshot of them.
    """
    return sha256(content.encode()).hexdigest()


def snapshot_of(record: SnapshotRecord, revision: int) -> Snapshot:
    """
    A stored snapshot, read.
    """
    return Snapshot(hash=record.hash, revision=revision, policies=_decode(record.content))


class Resolver:
    """
    Remembers the present snapshot and what each shape resolved to under it.

    Shapes come from producers, so the memory is bounded: it is dropped whole when it is full, as
    when the snapshot changes. Safe to share between threads: what they race for is only work.
    """

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._snapshot: Snapshot | None = None
        self._memory: tuple[tuple[str, int], dict[Shape, Resolved]] = (("", 0), {})

    def snapshot_of(self, record: SnapshotRecord, revision: int) -> Snapshot:
        """
        The snapshot in ``record``; decoded once as long as it is asked for.
        """
        known = self._snapshot
        if known is None or known.hash != record.hash:
            known = snapshot_of(record, revision)
        elif known.revision != revision:
            known = replace(known, revision=revision)
        self._snapshot = known
        return known

    def guess(self, shape: Shape) -> Resolved | None:
        """
        What ``shape`` resolves to under the snapshot last asked for; None when that is nothing.
        """
        if self._snapshot is None:
            return None
        try:
            return self.resolve(self._snapshot, shape)
        except Rejected:
            return None

    def resolve(self, snapshot: Snapshot, shape: Shape) -> Resolved:
        """
        ``resolve``, remembered. Refusals are not: they are rare and cheap.
        """
        present = (snapshot.hash, snapshot.revision)
        of, memory = self._memory
        if of == present and (known := memory.get(shape)) is not None:
            return known
        resolved = resolve(snapshot, shape)
        if of != present or len(memory) >= self._limit:
            memory = {}
            self._memory = (present, memory)
        memory[shape] = resolved
        return resolved


def _layered(policy: Policy, shape: Shape) -> tuple[Effective, tuple[Step, ...]]:
    effective = _base(policy, shape.autonomy_mode)
    steps = [Step("base", _settings(effective))]
    for name, overlay in _layers(policy, shape):
        before, effective = effective, _overlaid(effective, overlay)
        was = _settings(before)
        steps.append(Step(name, {k: v for k, v in _settings(effective).items() if v != was[k]}))
    return _trimmed(effective), tuple(steps)


def _layers(policy: Policy, shape: Shape) -> Iterator[tuple[str, Overlay]]:
    overlay = policy.autonomy.get(shape.autonomy_mode)
    if shape.autonomy_mode is not AutonomyMode.LIVE:
        yield "autonomy", _quiet(overlay or Overlay())
        return
    if overlay is not None:
        yield "autonomy", overlay
    if shape.irreversible and policy.irreversible is not None:
        yield "irreversible", policy.irreversible


def _quiet(overlay: Overlay) -> Overlay:
    """
    No human is asked on behalf of an agent that does not act, nor woken unless the policy says so.
    """
    return replace(overlay, require_ack=False, channels=overlay.channels or _LOG_ONLY)


def _base(policy: Policy, mode: AutonomyMode) -> Effective:
    return Effective(
        autonomy_mode=mode,
        intent=policy.intent,
        delivery_mode=policy.delivery_mode,
        priority=policy.priority,
        require_ack=policy.require_ack,
        ack_timeout_minutes=policy.ack_timeout_minutes,
        dedup_window_seconds=policy.dedup_window_seconds,
        max_attempts=policy.max_attempts,
        channels=policy.channels,
        targets=policy.targets,
        responders=policy.responders,
        links=policy.links,
        escalation=policy.escalation,
    )


def _overlaid(effective: Effective, overlay: Overlay) -> Effective:
    given = {name: getattr(overlay, name) for name in SETTINGS}
    return replace(effective, **{name: value for name, value in given.items() if value is not None})


def _trimmed(effective: Effective) -> Effective:
    """
    Without what cannot matter: escalation of what nobody must answer, targets nobody will call.
    """
    escalation = effective.escalation if effective.require_ack else ()
    called = set(effective.all_channels).union(*(step.channels for step in escalation))
    targets = {name: target for name, target in effective.targets.items() if name in called}
    return replace(effective, escalation=escalation, targets=targets)


def _settings(effective: Effective) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(effective, name)) for name in SETTINGS}


def _resolved(snapshot: Snapshot, policy: Policy, effective: Effective, steps: tuple[Step, ...]) -> Resolved:
    digest = content_hash(content_of(policy))
    effective_digest = sha256(canonical(effective)).hexdigest()
    provenance = {
        "policy_id": policy.policy_id,
        "policy_hash": digest,
        "revision": snapshot.revision,
        "effective_hash": effective_digest,
        "steps": steps,
    }
    told = {**asdict(effective), "targets": shown(effective.targets)}
    return Resolved(
        policy_id=policy.policy_id,
        policy_hash=digest,
        revision=snapshot.revision,
        snapshot_hash=snapshot.hash,
        effective=effective,
        effective_hash=effective_digest,
        steps=steps,
        channels=channel_set(effective.all_channels),
        accepted_json=canonical({**provenance, "effective": told}).decode(),
        resolution_json=canonical(provenance).decode(),
    )
