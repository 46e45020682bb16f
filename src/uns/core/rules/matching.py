"""
Which policy covers a notification: the most specific ACTIVE one.

Type comes first: an exact type beats the prefix ``a.b.*``, a longer prefix a shorter one, and any
prefix ``*``. Among policies of one type pattern the source decides: an exact source beats
``pay-*``, a longer prefix a shorter one, and a policy that names the source one that names none.
What still ties is a packaged policy and an operator's of the same pattern; the operator's wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from uns.ports.policy import Policy
from uns.ports.vocabulary import PolicyStatus

PACKAGED_PREFIX = "packaged-"


class Fit(IntEnum):
    """
    How closely one pattern fits, loosest first. Within PREFIX the longer pattern is closer.
    """

    ANY = 0
    PREFIX = 1
    EXACT = 2


Closeness = tuple[Fit, int]
Rank = tuple[Closeness, Closeness, bool]


def covering(policies: Iterable[Policy], notification_type: str, source: str) -> Policy | None:
    """
    The policy in force for this type from this source; None if there is none.
    """
    ranked = ((rank(policy, notification_type, source), policy) for policy in policies)
    best = max(((r, p) for r, p in ranked if r is not None), key=lambda pair: pair[0], default=None)
    return None if best is None else best[1]


def rank(policy: Policy, notification_type: str, source: str) -> Rank | None:
    """
    How specific ``policy`` is for this type and source, greater is more; None if it is not in force.
    """
    if policy.status is not PolicyStatus.ACTIVE or not matches_type(
        policy.notification_type, notification_type
    ):
        return None
    by_source = _source_closeness(policy, source)
    if by_source is None:
        return None
    return _type_closeness(policy.notification_type), by_source, not is_packaged(policy)


def matches_type(pattern: str, notification_type: str) -> bool:
    """
    Whether a type pattern covers a type. ``a.*`` covers ``a.b`` and ``a.b.c``, not ``a``.
    """
    if pattern == "*":
        return True
    if pattern.endswith(".*"):
        return notification_type.startswith(pattern[:-1])
    return notification_type == pattern


def matches_source(pattern: str, source: str) -> bool:
    """
    Whether a source pattern covers a source. ``pay-*`` covers ``pay-`` and all that begins so.
    """
    return source.startswith(pattern[:-1]) if pattern.endswith("*") else source == pattern


def is_packaged(policy: Policy) -> bool:
    """
    Whether a policy belongs to the layer that lies under every snapshot.
    """
    return policy.policy_id.startswith(PACKAGED_PREFIX)


def _type_closeness(pattern: str) -> Closeness:
    if pattern == "*":
        return Fit.ANY, 0
    return (Fit.PREFIX if pattern.endswith(".*") else Fit.EXACT), len(pattern)


def _source_closeness(policy: Policy, source: str) -> Closeness | None:
    if policy.match is None:
        return Fit.ANY, 0
    fits = [
        (Fit.PREFIX if pattern.endswith("*") else Fit.EXACT, len(pattern))
        for pattern in policy.match.source
        if matches_source(pattern, source)
    ]
    return max(fits, default=None)
