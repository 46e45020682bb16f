"""
A whole ledger in memory, driven plan by plan: what the tests of plans and moves stand on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from kit.builders import NOW, a_policy, a_request, an_acceptance, put_in_force
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sources import ManualClock
from uns.core.plans import dispatch, intake, recovery, response
from uns.core.plans.dispatch import Concluded
from uns.core.rules.ack import Answer
from uns.core.rules.lease import Bearer, Claim
from uns.core.rules.lineage import Lineage, resolve
from uns.core.rules.outcome import Call
from uns.core.rules.retry import Retry
from uns.core.rules.settle import Settled
from uns.ports.channel import ChannelResult
from uns.ports.decision import Change, Decision, Signal
from uns.ports.policy import Policy
from uns.ports.pubsub import Listener
from uns.ports.queries import LineOf
from uns.ports.rows import DedupWindow, Event, Notification
from uns.ports.sources import Ids
from uns.ports.store import Plan
from uns.ports.vocabulary import Ack, EventKind

T = TypeVar("T")


class Numbered:
    """
    A source of ids that counts: the same run draws the same ids, and later ones sort later.
    """

    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self) -> str:
        return f"{next(self._numbers):08x}-0000-7000-8000-000000000000"


class CountedPubSub(InProcessPubSub):
    """
    Signals within the process; ``listeners`` is how many listen now.
    """

    listeners = 0

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self.listeners += 1
        unsubscribe = super().subscribe(listener)

        def leave() -> None:
            self.listeners -= 1
            unsubscribe()

        return leave


class Ledger:
    """
    A memory store with these policies in force, and short ways to run each plan on it.

    Ids and lease tokens are drawn by counting; ``clock`` starts at ``NOW``. What commits signal is
    kept in ``signals`` and broadcast by ``pubsub``.
    """

    def __init__(
        self,
        *policies: Policy,
        clock: ManualClock | None = None,
        max_attempts: int = 3,
        base_seconds: float = 1.0,
    ) -> None:
        in_force = policies or (a_policy(),)
        self.clock = clock or ManualClock(NOW)
        self.signals: list[Signal] = []
        self.pubsub = CountedPubSub()
        self.store = MemoryStore(self.clock, publish=self._publish)
        self.resolver = put_in_force(self.store, *in_force)
        self.retry = Retry(max_attempts, base_seconds)
        self.channels = frozenset(name for p in in_force for name in p.channels.primary + p.channels.fallback)
        self.new_id = Numbered()

    def ids(self) -> Ids:
        return Ids(self.new_id())

    def run(self, plan: Plan[T]) -> T:
        return self.store.transact(plan)

    def read(self, plan: Plan[T]) -> T:
        return self.store.read(plan)

    def put(self, *rows: Any) -> None:
        """
        Insert rows as they are.
        """
        changes = tuple(Change(None, row) for row in rows)
        self.run(Plan(lambda tx: tx.apply(Decision(None, changes))))

    def accept(self, *, wants_callback: bool = False, **fields: Any) -> Notification:
        """
        Accept a request with these fields and hand back its row.
        """
        acceptance = an_acceptance(
            a_request(**fields), id=self.new_id(), ids=self.ids(), wants_callback=wants_callback
        )
        return self.run(intake.accept(acceptance, self.resolver)).accepted.row

    def bearer(self, *, starts: bool = True) -> Bearer:
        return Bearer(self.new_id(), self.retry, starts)

    def claim(self, id: str, *, starts: bool = True) -> Claim | None:
        return self.run(dispatch.claim(id, self.bearer(starts=starts), self.channels))

    def claim_due(self, limit: int) -> tuple[Claim, ...]:
        return self.run(dispatch.claim_due([self.bearer(starts=False) for _ in range(limit)], self.channels))

    def conclude(self, claim: Claim, **results: ChannelResult | bool) -> Concluded:
        """
        Settle an attempt whose calls came to ``results`` (channel=result).
        """
        plan = dispatch.conclude(claim, self.calls(**results), retry=self.retry, ids=self.ids())
        return self.run(plan)

    def calls(self, **results: ChannelResult | bool) -> tuple[Call, ...]:
        return tuple(
            Call(channel, ChannelResult(result) if isinstance(result, bool) else result, self.clock.now())
            for channel, result in results.items()
        )

    def attempt(self, id: str, **results: ChannelResult | bool) -> Settled:
        """
        One whole attempt now: claimed, called, settled.
        """
        claim = self.claim(id)
        assert claim is not None
        return self.conclude(claim, **results).settled

    def deliver(self, id: str) -> Notification:
        """
        Deliver a leader through SLACK.
        """
        self.attempt(id, SLACK=True)
        return self.row(id)

    def fail(self, id: str) -> Notification:
        """
        Let SLACK refuse a leader for good.
        """
        self.attempt(id, SLACK=refused())
        return self.row(id)

    def respond(self, id: str, actor: str = "ann", to: Ack = Ack.ACKED, **fields: Any) -> Notification:
        return self.run(response.respond(id, Answer(to=to, actor=actor, **fields), self.ids()))

    def expire(self, at: float | None = None, *, callback: bool = False) -> int:
        return self.run(response.expire(at=at, callback=callback, ids=self.ids()))

    def withdraw(self, id: str, actor: str = "agent-7", *, operator: bool = False) -> Notification:
        plan = response.withdraw(id, actor=actor, operator=operator, callback=False, ids=self.ids())
        return self.run(plan)

    def replay(self, id: str, cycle: int | None = None) -> Notification:
        cycle = self.row(id).cycle if cycle is None else cycle
        return self.run(recovery.replay(id, actor="ops", cycle=cycle, ids=self.ids()))

    def resolve_failure(self, id: str) -> bool:
        return self.run(recovery.resolve_failure(id, actor="ops", ids=self.ids()))

    def _publish(self, signals: Sequence[Signal]) -> None:
        self.signals += signals
        self.pubsub.publish(signals)

    def table(self, kind: type[T]) -> dict[str, T]:
        return dict(self.store.tables.get(kind, {}))

    def rows(self) -> dict[str, Notification]:
        return self.table(Notification)

    def row(self, id: str) -> Notification:
        return self.rows()[id]

    def window(self, row: Notification) -> DedupWindow:
        return self.table(DedupWindow)[str(row.dedup_key)]

    def events(self, id: str, kind: EventKind | None = None) -> list[Event]:
        found = [event for event in self.table(Event).values() if event.notification_id == id]
        return found if kind is None else [event for event in found if event.kind is kind]

    def kinds(self, id: str) -> list[EventKind]:
        return [event.kind for event in self.events(id)]

    def lineage(self, id: str) -> Lineage:
        return self.read(Plan(lambda tx: resolve(id, tx.find(LineOf(id)))))


def refused(error: str = "no such channel") -> ChannelResult:
    """
    A failure for good.
    """
    return ChannelResult(False, error=error, retryable=False)


def paced(seconds: float = 5.0) -> ChannelResult:
    """
    A failure because the provider asks for patience.
    """
    return ChannelResult(False, error="slow down", retry_after=seconds)
