"""
Whose obligation is it now? Follow owners and successors to the end of the line.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from uns.ports.rows import Link, Notification
from uns.ports.vocabulary import LineageError, Status


class Lineage(Struct, frozen=True):
    """
    The canonical owner of an obligation, or why it cannot be found.
    """

    owner: Link | None
    error: LineageError | None = None


def resolve(id: str, links: Iterable[Link]) -> Lineage:
    """
    Follow the lineage of ``id`` through ``links`` (see ``LineOf``).

    From a row: to its owner if set, else to its successor if it is FAILED, else it is the end.
    An ``escalation_of`` link may cross dedup keys and generations; others may not cross keys, and
    an owner link may not join two generations.
    """
    by_id = {link.id: link for link in links}
    seen: set[str] = set()
    current = by_id.get(id)
    if current is None:
        return Lineage(None, LineageError.MISSING_TARGET)
    while (target := onward(current)) is not None:
        seen.add(current.id)
        if target in seen:
            return Lineage(None, LineageError.CYCLE)
        reached = by_id.get(target)
        if reached is None:
            return Lineage(None, LineageError.MISSING_TARGET)
        if not _same_group(current, reached):
            return Lineage(None, LineageError.GROUP_MISMATCH)
        current = reached
    return Lineage(current)


def onward(link: Link | Notification) -> str | None:
    """
    The next id on the way to the owner, None at the end.
    """
    if link.dedup_owner_id is not None:
        return link.dedup_owner_id
    return link.dedup_successor_id if link.status is Status.FAILED else None


def _same_group(current: Link, reached: Link) -> bool:
    if reached.escalation_of == current.id:
        return True
    if current.dedup_key != reached.dedup_key:
        return False
    return current.dedup_owner_id is None or current.dedup_generation == reached.dedup_generation
