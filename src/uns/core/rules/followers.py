"""
Those behind a leader: who they are, and the set-based moves that its fate makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from uns.core.rules.events import SWEEP_IDS, Stamp, encoded
from uns.ports.decision import Sweep
from uns.ports.rows import DedupWindow, Notification
from uns.ports.vocabulary import EventKind, Status

FAILED_WITH_OWNER = "failed with its owner"
WITHDRAWN_WITH_OWNER = "withdrawn with its owner"


class Group(Struct, frozen=True, gc=False):
    """
    A leader, its window, the first pending row behind it and how many wait in all.
    """

    leader: Notification
    window: DedupWindow | None = None
    heir: Notification | None = None
    waiting: int = 0


def satisfied_by(row: Notification, stamp: Stamp) -> Sweep:
    """
    Everyone behind ``row`` has what it asked for, also who had failed with it.
    """
    link = {"previous_owner_id": row.id, "owner_id": row.id, "generation": row.dedup_generation}
    return Sweep(
        owner_id=row.id,
        statuses=(Status.PENDING, Status.FAILED),
        to_status=Status.DEDUPLICATED,
        event=EventKind.DEDUP_SATISFIED,
        at=stamp.now,
        payload=encoded(link),
        ids=stamp.ids,
        first_id=SWEEP_IDS,
    )


def relinked(link: Mapping[str, object], stamp: Stamp) -> Sweep:
    """
    The rest follows the heir. ``link`` is the payload of their events.
    """
    return Sweep(
        owner_id=str(link["previous_owner_id"]),
        statuses=(Status.PENDING,),
        to_status=Status.PENDING,
        new_owner_id=str(link["owner_id"]),
        event=EventKind.DEDUP_RELINKED,
        at=stamp.now,
        payload=encoded(link),
        ids=stamp.ids,
        first_id=SWEEP_IDS,
    )


def failed_with(owner: Notification) -> Sweep:
    """
    Everyone who waits ends with ``owner``: the link is kept, and none becomes a dead letter.
    """
    return Sweep(
        owner_id=owner.id,
        statuses=(Status.PENDING,),
        to_status=Status.FAILED,
        error_message=WITHDRAWN_WITH_OWNER if owner.withdrawn else FAILED_WITH_OWNER,
    )
