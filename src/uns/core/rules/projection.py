"""
The canonical obligation response projection: one row's own answer, and its owner's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from uns.core.rules.lineage import Lineage
from uns.ports.replies import Projection
from uns.ports.rows import Link, Notification
from uns.ports.vocabulary import Ack, Resolution, Status


def project(id: str, links: Sequence[Link], lineage: Lineage) -> Projection:
    """
    The response view of ``id``. An intermediate row is never presented as the owner.
    """
    own = next(link for link in links if link.id == id)
    owner = lineage.owner
    view = {
        "notification_id": id,
        "ack_status": own.ack_status,
        "obligation_owner_id": owner.id if owner is not None else None,
        "effective_ack_status": owner.ack_status if owner is not None else None,
        "ack_inherited": owner is not None and owner.id != id,
        "obligation_resolution_status": _status(lineage),
        "obligation_resolution_error": lineage.error,
    }
    return msgspec.convert(view, Projection)


def unread(row: Notification) -> Projection:
    """
    The response view of a row whose line could not be read: whose obligation it is stays open.
    """
    return msgspec.convert({"notification_id": row.id, "ack_status": row.ack_status}, Projection)


def final(lineage: Lineage) -> bool:
    """
    Whether the owner's response is terminal, or none can come any more.

    A dead letter may be replayed, and a pending owner delivered; what is delivered and asks for
    no answer, or has ended without a dead letter, stays as it is.
    """
    owner = lineage.owner
    if owner is None or owner.status is Status.PENDING:
        return False
    return owner.ack_status is not Ack.PENDING and not owner.dead_letter


def _status(lineage: Lineage) -> Resolution:
    return Resolution.RESOLVED if lineage.owner is not None else Resolution.UNRESOLVED
