"""
The watch over the lock order itself: it speaks up where a plan could deadlock, and only there.
"""

import pytest
from msgspec.structs import replace

from kit.builders import NOW, a_notification
from kit.ordered_tx import QUERIES, ROWS, Lock, OutOfOrder
from kit.plans import applied, put
from kit.rows import a_copy, a_window, an_event
from uns.adapters.sql.codec import STORED
from uns.ports.decision import Change, Decision
from uns.ports.policy import AUTHORITY, PolicyAuthority, SnapshotRecord
from uns.ports.queries import (
    CallbacksDue,
    CopiesOf,
    DedupKeyOf,
    Due,
    EventsWithIds,
    FollowersOf,
    LineOf,
    TypesSeen,
    WithKey,
)
from uns.ports.rows import Copy, DedupWindow, Event, Notification
from uns.ports.store import Plan
from uns.ports.vocabulary import Status

LOCKS = {
    Lock.POLICY: [lambda tx: tx.get(PolicyAuthority, AUTHORITY)],
    Lock.WINDOW: [lambda tx: tx.get(DedupWindow, "w")],
    Lock.NOTIFICATION: [
        lambda tx: tx.get(Notification, "n1"),
        lambda tx: tx.find(WithKey("k")),
        lambda tx: tx.find(FollowersOf("n1", Status.PENDING, 1)),
        lambda tx: tx.find(Due((), 1)),
        lambda tx: tx.find(LineOf("n1")),
    ],
    Lock.RECORD: [
        lambda tx: tx.get(Copy, "n1/SLACK"),
        lambda tx: tx.get(Event, "e1"),
        lambda tx: tx.find(CopiesOf("n1")),
        lambda tx: tx.find(CallbacksDue(3, 1)),
    ],
}
FREE = [
    lambda tx: tx.get(SnapshotRecord, "s"),
    lambda tx: tx.find(DedupKeyOf("n1")),
    lambda tx: tx.find(EventsWithIds(("e1",))),
    lambda tx: tx.find(TypesSeen(NOW)),
]
TAKES = [(lock, take) for lock, ways in LOCKS.items() for take in ways]
PAIRS = [(first, second) for first in TAKES for second in TAKES]


def test_every_row_and_query_has_its_place():
    """
    The watch knows all stored types and all queries that the memory store answers.
    """
    assert set(ROWS) == set(STORED)
    assert set(LOCKS) == set(Lock)
    assert set(QUERIES.values()) == {*Lock, None} - {Lock.POLICY, Lock.WINDOW}


@pytest.mark.parametrize("way", ["memory-direct"])
@pytest.mark.parametrize(
    "pair", PAIRS, ids=[f"{a.name}-{b.name}-{n}" for n, ((a, _), (b, _)) in enumerate(PAIRS)]
)
def test_a_lock_of_an_earlier_class_is_out_of_order(run, pair):
    """
    When a plan takes two locks, then the watch raises exactly if the second one's class is earlier.
    """
    (first, take_first), (second, take_second) = pair

    def both(tx):
        take_first(tx)
        take_second(tx)

    (outcome,) = run.outcomes(Plan(both))

    assert (second < first) is isinstance(outcome, OutOfOrder)


@pytest.mark.parametrize("way", ["memory-direct", "memory-grouped"])
@pytest.mark.parametrize("free", FREE, ids=["snapshot", "dedup key", "events", "types"])
def test_what_never_changes_is_read_at_any_time(run, free):
    """
    When a plan reads facts that never change after its last lock, then that is in order.
    """

    def late(tx):
        tx.find(CopiesOf("n1"))
        free(tx)
        tx.find(CopiesOf("n2"))

    assert run(Plan(late)) is None


@pytest.mark.parametrize("way", ["memory-direct"])
def test_a_row_that_is_held_may_be_read_again(run):
    """
    When a plan looks again at a row that it has locked, then that is in order; another row is not.
    """

    def again(tx, id):
        tx.get(Notification, "n1")
        tx.find(CopiesOf("n1"))
        tx.get(Notification, id)

    (other,) = run.outcomes(Plan(lambda tx: again(tx, "n2")))

    assert run(Plan(lambda tx: again(tx, "n1"))) is None
    assert isinstance(other, OutOfOrder)


@pytest.mark.parametrize("way", ["memory-direct"])
@pytest.mark.parametrize(
    "row", [a_window(), a_notification(), a_copy(), an_event()], ids=lambda r: type(r).__name__
)
def test_a_change_of_a_row_that_was_never_read_is_out_of_order(run, row):
    """
    When a plan moves a row that it did not lock first, then the watch raises.
    """
    moved = replace(row, **{row.__struct_fields__[-1]: None})
    run(put(row))

    (outcome,) = run.outcomes(applied(Decision(None, (Change(row, moved),))))

    assert isinstance(outcome, OutOfOrder)


@pytest.mark.parametrize("way", ["memory-direct"])
def test_each_plan_of_a_group_begins_with_no_locks(run):
    """
    Given a group, when one plan ends with the last class and the next begins with the first, then
    that is in order: a store takes the locks of a group together.
    """
    last, first = Plan(lambda tx: tx.find(CopiesOf("n1"))), Plan(lambda tx: tx.get(DedupWindow, "w"))

    assert run(last, first) is None
