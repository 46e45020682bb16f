"""
Room: how much may be under way to one destination, so that a slow one never holds up the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from uns.ports.rows import Notification

SHARE = 0.25


class Room(Struct, frozen=True, kw_only=True):
    """
    What a worker can still start: ``slots`` in all, and less than that to one destination.

    ``busy`` is how much is under way to each destination, ``to`` names the destinations of a row
    (a pure function: the plan that asks may run twice). ``full`` are effective hashes whose rows
    certainly do not fit, so that nobody reads them in vain.
    """

    slots: int
    busy: Mapping[str, int]
    to: Callable[[Notification], tuple[str, ...]]
    share: float = SHARE
    full: tuple[str, ...] = ()


def fits(busy: int, free: int, share: float = SHARE) -> bool:
    """
    Whether one more may start to a destination to which ``busy`` are under way.

    Alone it gets ``share`` of all slots; several slow ones get less each, and some always stay
    free: the bound is a fixed proportion of what is free at the moment.
    """
    return busy * (1 - share) < free * share


def fitting(rows: Iterable[Notification], room: Room) -> Iterator[Notification]:
    """
    Those of ``rows`` that can be started one after another, in their order.
    """
    free, busy = room.slots, Counter(room.busy)
    for row in rows:
        to = room.to(row)
        if all(fits(busy[destination], free, room.share) for destination in to):
            free -= 1
            busy.update(to)
            yield row
