"""
What a run is about: the policies in force, and the few obligations that everybody fights over.
"""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec import Struct

from kit.builders import a_policy, a_request, put_in_force
from simulation.providers import DARK_MOODS, MOODS, Mood
from simulation.world import EPOCH, World
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sources import ManualClock
from uns.core.rules.policy import Resolver
from uns.ports.policy import ChannelPlan
from uns.ports.requests import SendNotificationRequest
from uns.ports.vocabulary import DeliveryMode, Require

PRINCIPAL = "agent-7"

_POLICIES = {
    "plain": {"channels": ChannelPlan(primary=("SLACK",)), "dedup_window_seconds": 60.0},
    "once": {
        "channels": ChannelPlan(primary=("SLACK",)),
        "require_ack": True,
        "ack_timeout_minutes": 1,
        "max_attempts": 1,
        "dedup_window_seconds": 120.0,
    },
    "either": {
        "channels": ChannelPlan(primary=("SLACK", "EMAIL")),
        "require_ack": True,
        "ack_timeout_minutes": 1,
        "dedup_window_seconds": 40.0,
    },
    "both": {
        "channels": ChannelPlan(primary=("SLACK", "EMAIL"), fallback=("PAGERDUTY",), require=Require.ALL),
        "require_ack": True,
        "ack_timeout_minutes": 1,
        "max_attempts": 2,
        "dedup_window_seconds": 90.0,
    },
    "every": {
        "channels": ChannelPlan(primary=("SLACK", "EMAIL"), require=Require.ALL),
        "max_attempts": 1,
        "dedup_window_seconds": 60.0,
    },
    "fallback": {
        "channels": ChannelPlan(primary=("SLACK",), fallback=("EMAIL", "PAGERDUTY")),
        "require_ack": True,
        "ack_timeout_minutes": 1,
        "max_attempts": 3,
        "dedup_window_seconds": 30.0,
    },
    "effort": {
        "channels": ChannelPlan(primary=("SLACK",), fallback=("EMAIL",)),
        "delivery_mode": DeliveryMode.BEST_EFFORT,
        "dedup_window_seconds": 45.0,
    },
    "alone": {
        "channels": ChannelPlan(primary=("PAGERDUTY",)),
        "require_ack": True,
        "ack_timeout_minutes": 1,
        "dedup_window_seconds": 0.0,
    },
}

# How likely each is: in a run where anything may happen, and in one about recovery.
_ALL = {"plain": 2, "once": 2, "either": 2, "both": 5, "every": 2, "fallback": 2, "effort": 1, "alone": 2}
_FAILING = {"plain": 2, "once": 4, "both": 3, "every": 3}
_RECOVERY = 0.5


class Scenario(Struct, frozen=True, kw_only=True):
    """
    One run's plot. Times are seconds.

    Args:
        topics: pairs of policy and dedup key; all requests are about these.
        bursts: when producers come, and how many at once.
        moods: those that providers fall into.
        look_seconds: the longest time between two looks of an operator.
    """

    topics: tuple[tuple[str, str], ...]
    bursts: tuple[tuple[float, int], ...]
    moods: tuple[Mood, ...]
    trouble_seconds: float
    look_seconds: float
    poll_seconds: float
    machines: int = 2


def scenario(chance: Random) -> Scenario:
    """
    Few topics and many requests, so that they meet each other. Two plots take turns.

    In the first anything may happen. The second is about recovery: one topic, providers that are
    mostly down, a request every few seconds, and an operator who replays what failed.
    """
    recovery = chance.random() < _RECOVERY
    kinds, weights = zip(*(_FAILING if recovery else _ALL).items(), strict=True)
    topics = 1 if recovery else chance.choice((1, 1, 2))
    length = chance.uniform(80.0, 200.0)
    bursts = chance.randint(8, 12) if recovery else chance.randint(2, 5)
    sizes = (1, 1, 2) if recovery else (1, 1, 2, 3, 5)
    return Scenario(
        topics=tuple((chance.choices(kinds, weights)[0], f"topic {n}") for n in range(topics)),
        bursts=tuple((0.6 * length * chance.random() ** 2, chance.choice(sizes)) for _ in range(bursts)),
        moods=DARK_MOODS if recovery else MOODS,
        trouble_seconds=length,
        look_seconds=8.0 if recovery else 20.0,
        poll_seconds=chance.uniform(5.0, 15.0),
    )


def request_about(topic: tuple[str, str], n: int, **fields: Any) -> SendNotificationRequest:
    """
    The ``n``-th request of a run.
    """
    kind, dedup_key = topic
    plain = {"notification_type": f"sim.{kind}", "dedup_key": dedup_key, "idempotency_key": f"request {n}"}
    return a_request(**(plain | fields))


class PoliciesInForce:
    """
    The stored policies, made once and copied into the ledger of each run.
    """

    def __init__(self) -> None:
        store = MemoryStore(ManualClock(EPOCH))
        policies = [a_policy(kind, notification_type=f"sim.{kind}", **_POLICIES[kind]) for kind in _POLICIES]
        self.resolver: Resolver = put_in_force(store, *policies)
        self._tables = store.tables

    def copy_into(self, world: World) -> None:
        world.store.tables.update({kind: dict(rows) for kind, rows in self._tables.items()})
