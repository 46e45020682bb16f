"""
One commit as the checks see it, and what they remember from one to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from simulation.lines import Rows
from uns.ports.rows import Copy, DedupWindow, Event, Notification
from uns.ports.vocabulary import Ack, EventKind

UNANSWERED = (None, Ack.PENDING)
Copies = Mapping[str, Mapping[str, Copy]]


class Memory(Struct):
    """
    What is remembered from step to step.

    Tokens of claims: ``counted`` as an attempt, ``settled``, ``lost``, ``refused`` for good by some
    provider. ``handed_on`` counts by dedup key, from a new leader or a replay on.
    """

    counted: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    handed_on: Counter[str] = field(default_factory=Counter)


class Step(Struct):
    """
    The ledger around one commit: rows before and after, and what the commit wrote.
    """

    old: Rows
    new: Rows
    old_windows: Mapping[str, DedupWindow]
    windows: Mapping[str, DedupWindow]
    old_copies: Copies
    copies: Copies
    changes: list[tuple[Notification | None, Notification]]
    events: list[Event]

    def events_of(self, *kinds: EventKind) -> Iterator[Event]:
        return (event for event in self.events if event.kind in kinds)
