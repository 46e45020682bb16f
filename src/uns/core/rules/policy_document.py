"""
What one policy must satisfy beyond the types of its fields, whatever its status.

A policy that passes can be resolved, dispatched and answered; what it says about other policies
is the business of ``activation``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import msgspec
from msgspec.structs import replace

from uns.ports.checks import fault, json_object, line
from uns.ports.documents import Origin, PolicyDocument
from uns.ports.errors import Rejected
from uns.ports.policy import ChannelPlan, EscalationStep, Match, Overlay, Policy
from uns.ports.strict import convert
from uns.ports.targets import BUILT_IN, TARGETS, check_target
from uns.ports.vocabulary import AutonomyMode

BOUNDS = {
    "ack_timeout_minutes": (1, 10_080),
    "dedup_window_seconds": (0, 604_800),
    "max_attempts": (1, 20),
}
_POLICY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TYPE = re.compile(r"\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?")
_TYPE_CHARS = 255
_CHANNEL = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_RESPONDER = re.compile(
    r"slack:[A-Za-z0-9]+:(\*|[A-Za-z0-9]+)"
    r"|pagerduty:(\*|[A-Za-z0-9_-]+)"
    r"|key:(\*|[^\s*]+\*?)"
    r"|link:[A-Z][A-Z0-9_]*:(\*|[^\s*]+)"
)
_source = line(255)

Faults = Iterator[Rejected]


def checked(document: PolicyDocument, registered: Collection[str]) -> PolicyDocument:
    """
    The document, its policy in the form that reading it back from storage would give.

    Args:
        registered: the channels whose adapters the host has registered with this process.

    Raises:
        Rejected: for the first fault; the message names the file and line, or else the policy.
    """
    try:
        # One made by a program may hold an int for a float, or worse: types are checked here too.
        policy = convert(msgspec.to_builtins(document.policy), Policy)
        for refusal in _faults(policy, registered):
            raise refusal
    except Rejected as refusal:
        raise origin_of(document).locate(refusal) from None
    return replace(document, policy=policy)


def origin_of(document: PolicyDocument) -> Origin:
    """
    Where to say that a fault is: the file, or the policy's id if it came from no file.
    """
    return document.origin or Origin(f"policy {document.policy.policy_id}")


def _faults(policy: Policy, registered: Collection[str]) -> Faults:
    if not _POLICY_ID.fullmatch(policy.policy_id):
        yield fault("policy_id", "must be 1 to 128 letters, digits, dots, hyphens and underscores")
    if len(policy.notification_type) > _TYPE_CHARS or not _TYPE.fullmatch(policy.notification_type):
        yield fault("notification_type", 'must be a type like "a.b", a prefix like "a.*", or "*"')
    yield from _match(policy.match)
    yield from _settings(policy, "", registered)
    for mode, overlay in policy.autonomy.items():
        yield from _settings(overlay, f"autonomy.{mode}.", registered)
    if policy.irreversible is not None:
        yield from _settings(policy.irreversible, "irreversible.", registered)
    yield from _escalation(policy, registered)
    yield from _targets(policy, registered)
    for index, responder in enumerate(policy.responders):
        if not _RESPONDER.fullmatch(responder):
            yield fault(f"responders.{index}", "must be like slack:T1:U1, slack:T1:*, key:name, pagerduty:*")


def _match(match: Match | None) -> Faults:
    if match is None:
        return
    if not match.source:
        yield fault("match.source", "must name a source; leave match out to cover all")
    for index, pattern in enumerate(match.source):
        path = f"match.source.{index}"
        try:
            _source(pattern, path)
        except Rejected as refusal:
            yield refusal
        if "*" in pattern[:-1]:
            yield fault(path, "may have a * only at its end")


def _settings(settings: Policy | Overlay, at: str, registered: Collection[str]) -> Faults:
    yield from _bounds(settings, at)
    if settings.channels is not None:
        yield from _channel_plan(settings.channels, f"{at}channels", registered)


def _bounds(settings: Policy | Overlay | EscalationStep, at: str) -> Faults:
    for name, (low, high) in BOUNDS.items():
        value = getattr(settings, name, None)
        if value is not None and not low <= value <= high:  # as it stands, NaN is refused too
            yield fault(f"{at}{name}", f"must be {low} to {high}, not {value}")


def _channel_plan(plan: ChannelPlan, at: str, registered: Collection[str]) -> Faults:
    if not plan.primary:
        yield fault(f"{at}.primary", "must name at least one channel")
    primary = [(name, f"{at}.primary.{index}") for index, name in enumerate(plan.primary)]
    fallback = [(name, f"{at}.fallback.{index}") for index, name in enumerate(plan.fallback)]
    yield from _channels(primary + fallback, registered)


def _channels(named: list[tuple[str, str]], registered: Collection[str]) -> Faults:
    seen: set[str] = set()
    for name, path in named:
        yield from _channel(name, path, registered)
        if name in seen:
            yield fault(path, f"names {name} a second time")
        seen.add(name)


def _channel(name: str, path: str, registered: Collection[str]) -> Faults:
    if not _CHANNEL.fullmatch(name):
        yield fault(path, "must be a channel name: capitals, digits and underscores, like SLACK")
    elif name not in BUILT_IN and name not in registered:
        yield fault(path, f"names {name}, which is neither built in nor registered with this process")


def _escalation(policy: Policy, registered: Collection[str]) -> Faults:
    for index, step in enumerate(policy.escalation):
        at = f"escalation.{index}."
        yield from _bounds(step, at)
        if not step.channels:
            yield fault(f"{at}channels", "must name at least one channel")
        named = [(name, f"{at}channels.{nth}") for nth, name in enumerate(step.channels)]
        yield from _channels(named, registered)
    if policy.escalation and not _may_ask(policy):
        yield fault("escalation", "needs require_ack: nothing else starts it")


def _may_ask(policy: Policy) -> bool:
    layers = (policy.autonomy.get(AutonomyMode.LIVE), policy.irreversible)
    return policy.require_ack or any(layer.require_ack for layer in layers if layer is not None)


def _targets(policy: Policy, registered: Collection[str]) -> Faults:
    for name, target in policy.targets.items():
        path = f"targets.{name}"
        yield from _channel(name, path, registered)
        yield from _target(name, target, path)
    for name in sorted(_called(policy) - set(policy.targets)):
        # An adapter of the host's own may need no target, whatever ours of that name would need.
        if name not in registered:
            yield from _target(name, {}, f"targets.{name}")


def _target(name: str, target: dict[str, object], path: str) -> Faults:
    try:
        json_object(target, path)
        if name in TARGETS:
            check_target(name, target, path)
    except Rejected as refusal:
        yield refusal


def _called(policy: Policy) -> set[str]:
    plans = [policy.channels]
    plans += [layer.channels for layer in policy.autonomy.values() if layer.channels is not None]
    if policy.irreversible is not None and policy.irreversible.channels is not None:
        plans.append(policy.irreversible.channels)
    called = {name for plan in plans for name in (*plan.primary, *plan.fallback)}
    return called.union(*(step.channels for step in policy.escalation))
