"""
The simulation can see: each repair of the ledger's rules, taken out, is missed within a thousand runs.

R1 to R7 are the marks of the rules; each patch undoes one of them and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from simulation.run import simulate
from uns.core.plans import dispatch
from uns.core.rules import accept, ack, attempt, lease, recovery
from uns.core.rules.accept import Accepted
from uns.ports.decision import Change
from uns.ports.errors import Conflict
from uns.ports.rows import Copy, Event, Notification
from uns.ports.vocabulary import ReplayBlock

SEEDS = 1000


def take_out_r1(patch: pytest.MonkeyPatch) -> None:
    """
    Followers take the generation of the window, not that of their owner.
    """

    def linked(row: Any, window: Any, owner: Any, **more: Any) -> Any:
        decision = original(row, window, owner, **more)
        admitted = decision.reply.row
        if admitted.leads:
            return decision
        moved = replace(admitted, dedup_generation=window.generation)
        _, *others = decision.changes
        return replace(decision, reply=Accepted(moved), changes=(Change(None, moved), *others))

    original = accept.accept
    patch.setattr(accept, "accept", linked)


def take_out_r2(patch: pytest.MonkeyPatch) -> None:
    """
    A replay always turns its line round, also where the row is the end of it.
    """

    def turned(line: Any, end: Any, **more: Any) -> Any:
        decision = original(line, end, **more)
        if end.id != line.row.id:
            return decision
        row = replace(decision.reply, dedup_successor_id=end.id)
        return replace(decision, reply=row, changes=(Change(line.row, row),))

    original = recovery.replay
    patch.setattr(recovery, "replay", turned)


def take_out_r3(patch: pytest.MonkeyPatch) -> None:
    """
    Only the successes of the present cycle count.
    """
    cycles: dict[tuple[str, str], int] = {}

    def record(claim: Any, calls: Any, copies: Any, stamp: Any) -> Any:
        for call in calls:
            if call.result.success:
                cycles.setdefault((claim.id, call.channel), claim.row.cycle)
        return recorded(claim, calls, copies, stamp)

    def of_this_cycle(row: Notification, copies: Any) -> list[Copy]:
        return [copy for copy in copies if cycles.get((row.id, copy.channel)) == row.cycle]

    recorded = attempt.record
    patch.setattr(attempt, "record", record)
    read_before_calls(patch, of_this_cycle)


def take_out_r4(patch: pytest.MonkeyPatch) -> None:
    """
    An end that was resolved, or withdrawn, does not stand in the way of a replay.
    """

    def blockers(line: Any) -> Any:
        blocked = original(line)
        return None if blocked is not None and blocked.reason is ReplayBlock.RESOLVED else blocked

    original = recovery.blockers
    patch.setattr(recovery, "blockers", blockers)


def take_out_r5(patch: pytest.MonkeyPatch) -> None:
    """
    The successes on record are not read before a claim or a start.
    """
    read_before_calls(patch, lambda row, copies: [])


def take_out_r6_settlement(patch: pytest.MonkeyPatch) -> None:
    """
    A settlement that finds its lease gone does not look for its own result.
    """

    class Blind:
        def __init__(self, tx: Any) -> None:
            self._tx = tx

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tx, name)

        def get(self, kind: type, key: str) -> Any:
            return None if kind is Event else self._tx.get(kind, key)

    def conclude(*args: Any, **more: Any) -> Any:
        plan = original(*args, **more)
        return replace(plan, run=lambda tx: plan.run(Blind(tx)))

    original = dispatch.conclude
    patch.setattr(dispatch, "conclude", conclude)


def take_out_r6_acceptance(patch: pytest.MonkeyPatch) -> None:
    """
    An acceptance that finds its own row takes it for somebody else's.
    """

    def known(row: Any, acceptance: Any) -> Accepted:
        if row.fingerprint != acceptance.fingerprint:
            raise Conflict
        return Accepted(row, replayed=True)

    patch.setattr(accept, "known", known)


def take_out_r6_claim(patch: pytest.MonkeyPatch) -> None:
    """
    A claim does not know the lease that it holds already.
    """
    patch.setattr(dispatch, "_held", lambda *_: [])


def take_out_r7(patch: pytest.MonkeyPatch) -> None:
    """
    An answer that comes before the settlement is refused.
    """
    patch.setattr(ack, "provable", lambda row: False)


def read_before_calls(patch: pytest.MonkeyPatch, read: Callable[[Notification, Any], list[Copy]]) -> None:
    """
    Have claims and starts see only those successes that ``read`` leaves.
    """
    claim, start = lease.claim, attempt.start
    patch.setattr(lease, "claim", lambda row, copies, *rest: claim(row, read(row, copies), *rest))
    patch.setattr(
        attempt, "start", lambda row, held, copies, *rest: start(row, held, read(row, copies), *rest)
    )


REPAIRS = {
    "R1": (take_out_r1, "P1 the lineage of a row does not resolve: GROUP_MISMATCH"),
    "R2": (take_out_r2, "P1 the lineage of a row does not resolve: CYCLE"),
    "R3": (take_out_r3, "P7 a channel with a success on record is called again"),
    "R4": (take_out_r4, "P9 a replay of a line whose end was resolved or withdrawn"),
    "R5": (take_out_r5, "P7 a channel with a success on record is called again"),
    "R6 settlement": (take_out_r6_settlement, "P10 LEASE_LOST recorded for a lease that was settled"),
    "R6 acceptance": (take_out_r6_acceptance, "R6 an acceptance that ran twice takes itself for a replay"),
    "R6 claim": (take_out_r6_claim, "R6 a claim that ran twice forgot what it had leased"),
    "R7": (take_out_r7, "P11 an answer is refused of someone who has the message"),
}


@pytest.mark.parametrize(("take_out", "promise"), REPAIRS.values(), ids=REPAIRS)
def test_a_repair_taken_out_is_missed(take_out, promise, monkeypatch):
    """
    Given one repair undone, when seed after seed is run, then within a thousand its promise breaks.
    """
    take_out(monkeypatch)

    assert promise == next((found for seed in range(SEEDS) if (found := simulate(seed).broken)), None)
