"""
The closed vocabularies of the service. Every stored or typed word is one of these.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """
    Delivery status of a notification.
    """

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    DEDUPLICATED = "DEDUPLICATED"


class Ack(StrEnum):
    """
    Response status of a delivered notification that requires an answer.
    """

    PENDING = "PENDING"
    ACKED = "ACKED"
    DISMISSED = "DISMISSED"
    TIMED_OUT = "TIMED_OUT"


class NotificationIntent(StrEnum):
    """
    Why the producer tells a human.
    """

    SAFETY = "SAFETY"
    GOVERNANCE = "GOVERNANCE"
    OPERATIONAL = "OPERATIONAL"
    INFORMATIONAL = "INFORMATIONAL"


class DeliveryMode(StrEnum):
    """
    GUARANTEED retries and dead-letters; BEST_EFFORT has exactly one attempt.
    """

    GUARANTEED = "GUARANTEED"
    BEST_EFFORT = "BEST_EFFORT"


class Priority(StrEnum):
    """
    Dispatch class, most urgent first.
    """

    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"


class AutonomyMode(StrEnum):
    """
    How the agent behind the request runs. SHADOW and PREVIEW never ask a human.
    """

    LIVE = "LIVE"
    SHADOW = "SHADOW"
    PREVIEW = "PREVIEW"


class PolicyStatus(StrEnum):
    """
    Lifecycle of one policy revision.
    """

    ACTIVE = "ACTIVE"
    PREVIEW = "PREVIEW"
    DRAFT = "DRAFT"
    RETIRED = "RETIRED"


class Require(StrEnum):
    """
    How many of the primary channels must succeed.
    """

    ANY = "any"
    ALL = "all"


class LineageError(StrEnum):
    """
    Why the owner of an obligation could not be found.
    """

    CYCLE = "CYCLE"
    MISSING_TARGET = "MISSING_TARGET"
    GROUP_MISMATCH = "GROUP_MISMATCH"


class Resolution(StrEnum):
    """
    Whether the lineage of a notification leads to one owner.
    """

    RESOLVED = "RESOLVED"
    UNRESOLVED = "UNRESOLVED"


class ReplayBlock(StrEnum):
    """
    Why a dead-lettered notification may not be replayed.
    """

    SUCCESSOR_PENDING = "SUCCESSOR_PENDING"
    SUCCESSOR_SATISFIED = "SUCCESSOR_SATISFIED"
    RESOLVED = "RESOLVED"
    WINDOW_OWNER_PENDING = "WINDOW_OWNER_PENDING"
    WINDOW_OWNER_DELIVERED = "WINDOW_OWNER_DELIVERED"
    UNRESOLVED_LINEAGE = "UNRESOLVED_LINEAGE"


class EventKind(StrEnum):
    """
    Operational event catalog (``uns_events.kind``).
    """

    ACCEPTED = "ACCEPTED"
    DEDUP_LINKED = "DEDUP_LINKED"
    ATTEMPT_STARTED = "ATTEMPT_STARTED"
    ATTEMPT_RETURNED = "ATTEMPT_RETURNED"
    RECOVERY_STARTED = "RECOVERY_STARTED"
    CHANNEL_ATTEMPT_STARTED = "CHANNEL_ATTEMPT_STARTED"
    CHANNEL_ATTEMPT_RESULT = "CHANNEL_ATTEMPT_RESULT"
    LEASE_LOST = "LEASE_LOST"
    DELIVERY_RESULT = "DELIVERY_RESULT"
    OBLIGATION_HANDED_OFF = "OBLIGATION_HANDED_OFF"
    DEDUP_SATISFIED = "DEDUP_SATISFIED"
    DEDUP_OWNER_PROMOTED = "DEDUP_OWNER_PROMOTED"
    DEDUP_RELINKED = "DEDUP_RELINKED"
    DEDUP_FAILED_WITH_OWNER = "DEDUP_FAILED_WITH_OWNER"
    ACKED = "ACKED"
    DISMISSED = "DISMISSED"
    TIMED_OUT = "TIMED_OUT"
    WITHDRAWN = "WITHDRAWN"
    REPLAY_REQUESTED = "REPLAY_REQUESTED"
    FAILURE_RESOLVED = "FAILURE_RESOLVED"
