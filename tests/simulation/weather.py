"""
What kind of day it is: how often things go wrong in one run, drawn from its seed.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random

from msgspec import Struct

STATED_SKEW = 5.0
"""How far apart, in seconds, two clocks may be by contract."""

POLLS = ("claim_due", "expire", "callback claim")
"""The plans that mostly find nothing to do."""

_SELDOM = {
    "callback claim": 3.0,
    "callback settle": 3.0,
    "expire": 8.0,
    "fall_back": 3.0,
    "give_back": 4.0,
    "renew": 3.0,
    "replay": 2.0,
    "resolve_failure": 3.0,
    "respond": 2.0,
    "withdraw": 2.0,
}
"""How much likelier than others a plan is to meet with a fault, because there are few of it."""


class Fate(StrEnum):
    """
    What happens to a plan on its way into the store and to its answer on the way back.
    """

    FINE = "fine"
    STALE = "stale"
    UNAVAILABLE = "unavailable"
    LOST = "answer lost"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"


_BEFORE = (Fate.STALE, Fate.UNAVAILABLE, Fate.CRASH_BEFORE)
_SPARED = 0.95


class Weather(Struct, frozen=True, kw_only=True):
    """
    The faults of one run.

    Args:
        fair: clocks and pauses keep to the stated bounds, in which no two calls may overlap.
        own_clocks: ``tx.now`` is the acting process's clock, as on SQLite, not the database's.
        jump_seconds: how far a clock may be from true time.
        pause_seconds: the longest that a process stands still.
        fates: chances per commit, FINE taking the rest.
        unrest_seconds: mean time between two mishaps of one machine.
        outage_seconds: the longest time that the store is away.
        slow_store: how often a plan waits long in the queue, or its answer on the way back.
        stalls: how often a process stands still just where it hurts, around calls and commits.
    """

    fair: bool
    own_clocks: bool
    jump_seconds: float
    pause_seconds: float
    fates: tuple[tuple[Fate, float], ...]
    unrest_seconds: float
    outage_seconds: float
    lost_signals: float
    stalls: float
    untimely_stops: float
    slow_store: float

    def fate(self, chance: Random, plan: str) -> Fate:
        """
        What happens to one plan. For the sake of time, polls are mostly spared where nothing is done.
        """
        drawn = chance.random() / _SELDOM.get(plan, 1.0)
        spared = plan in POLLS and chance.random() < _SPARED
        for fate, share in self.fates:
            if drawn < share:
                return Fate.FINE if spared and fate in _BEFORE else fate
            drawn -= share
        return Fate.FINE


CALM = Weather(
    fair=True,
    own_clocks=False,
    jump_seconds=0.0,
    pause_seconds=0.0,
    fates=(),
    unrest_seconds=0.0,
    outage_seconds=0.0,
    lost_signals=0.0,
    stalls=0.0,
    untimely_stops=0.0,
    slow_store=0.0,
)
"""Once the faults have ceased."""


def weather(chance: Random) -> Weather:
    """
    Two days in three are fair; on the others clocks and pauses break every bound.
    """
    fair = chance.random() < 0.67
    own_clocks = chance.random() < 0.5
    steady = fair and chance.random() < 0.5
    rough = chance.choice((0.3, 1.0, 2.0))
    return Weather(
        fair=fair,
        own_clocks=own_clocks and not steady,
        jump_seconds=0.0 if steady else STATED_SKEW / 2 if fair else 100.0,
        # What a call leaves of its lease, 15 s, covers skew and pause together.
        pause_seconds=14.0 if steady else 9.0 if fair else 150.0,
        fates=(
            (Fate.CRASH_BEFORE, 0.02 * rough),
            (Fate.CRASH_AFTER, 0.03 * rough),
            (Fate.LOST, 0.07 * rough),
            (Fate.UNAVAILABLE, 0.03 * rough),
            (Fate.STALE, 0.03 * rough),
        ),
        unrest_seconds=40.0 / rough,
        outage_seconds=chance.choice((1.0, 8.0, 20.0)),
        lost_signals=chance.choice((0.0, 0.2, 1.0)),
        slow_store=chance.choice((0.0, 0.02, 0.15)),
        untimely_stops=0.05,
        stalls=0.1 if fair else 0.2,
    )
