"""
What every decision of every rule must keep to: known inputs, and moves that are in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from uns.core.rules.lifecycle import MOVES, Move, Phase, phase
from uns.ports.decision import Decision, Sweep
from uns.ports.rows import Notification
from uns.ports.vocabulary import Status

SWEPT = {
    (Status.PENDING, Status.PENDING): (Phase.FOLLOWING, Move.RELINK, Phase.FOLLOWING),
    (Status.PENDING, Status.DEDUPLICATED): (Phase.FOLLOWING, Move.SATISFY, Phase.DEDUPLICATED),
    (Status.FAILED, Status.DEDUPLICATED): (Phase.FAILED_WITH_OWNER, Move.SATISFY, Phase.DEDUPLICATED),
    (Status.PENDING, Status.FAILED): (Phase.FOLLOWING, Move.FAIL_WITH_OWNER, Phase.FAILED_WITH_OWNER),
}


def legal(before: Notification | None, move: Move, after: Notification) -> bool:
    """
    Whether the table of moves knows this step.
    """
    start = None if before is None else phase(before)
    return phase(after) in MOVES.get((start, move), frozenset())


def assert_lawful(
    decision: Decision[Any], inputs: Iterable[Any], moves: Mapping[str, Move], created: Iterable[str] = ()
) -> None:
    """
    Every ``before`` is one of ``inputs``; every row moves as ``moves`` (by id) says, and legally.

    Rows that a decision makes anew are those in ``created``, records and windows apart.
    """
    known = [row for row in inputs if row is not None]
    for change in decision.changes:
        assert change.before is None or any(change.before is row for row in known)
        if not isinstance(change.after, Notification):
            continue
        assert change.before is not None or change.after.id in created
        assert legal(change.before, moves[change.after.id], change.after)
    for sweep in decision.sweeps:
        _assert_lawful_sweep(sweep)
    ids = [event.id for event in decision.events]

    assert len(ids) == len(set(ids))


def _assert_lawful_sweep(sweep: Sweep) -> None:
    for status in sweep.statuses:
        start, move, end = SWEPT[status, sweep.to_status]

        assert end in MOVES[start, move]
        assert (sweep.new_owner_id is not None) is (move is Move.RELINK)
