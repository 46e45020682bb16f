"""
How rules write events: the payload becomes JSON once, here.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from uns.ports.rows import Event
from uns.ports.sources import Ids
from uns.ports.vocabulary import EventKind

SWEEP_IDS = 0x1000
"""Where the event ids of a set-based move begin in a plan's block; below are single events."""

_encode = msgspec.json.Encoder().encode


def encoded(payload: Any) -> str:
    """
    ``payload`` as JSON text.
    """
    return _encode(payload).decode()


class Stamp(Struct, frozen=True, gc=False):
    """
    What a decision signs its records with: the instant it holds for, and the ids drawn for it.
    """

    ids: Ids
    now: float

    def event(self, kind: EventKind, notification_id: str, slot: int, /, **payload: Any) -> Event:
        """
        One line of the timeline of ``notification_id``, with the ``slot``-th id of the block.

        Slots are fixed per rule, so that a decision made twice writes the same ids.
        """
        return Event(
            id=self.ids.nth(slot),
            notification_id=notification_id,
            kind=kind,
            at=self.now,
            payload=encoded(payload),
            callback_until=self.now,
        )

    def part(self, number: int) -> Stamp:
        """
        The same instant with the ``number``-th part of the ids: one for each row of a batch.
        """
        return Stamp(self.ids.part(number), self.now)
