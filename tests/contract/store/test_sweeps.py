"""
Set-based moves: which rows move, what becomes of each, and the event each of them gets.
"""

import pytest
from msgspec.structs import replace

from kit.builders import NOW, a_notification
from kit.plans import applied, asked, change, got, put
from kit.rows import an_event
from kit.stores import everything
from uns.ports.decision import Change, Decision, Sweep
from uns.ports.queries import EventsOf, FollowersOf
from uns.ports.rows import Event, Notification, Outcome
from uns.ports.sources import Ids
from uns.ports.store import Plan
from uns.ports.vocabulary import EventKind, Status

BASE = "01890000-0000-7000-8000-abcdefabcdef"
IDS = Ids(BASE)
FIRST = 0x1000

SATISFY = Sweep(
    owner_id="n1",
    statuses=(Status.PENDING, Status.FAILED),
    to_status=Status.DEDUPLICATED,
    event=EventKind.DEDUP_SATISFIED,
    at=NOW + 5,
    payload='{"owner_id":"n1"}',
    ids=IDS,
    first_id=FIRST,
)
RELINK = Sweep(
    owner_id="n1",
    statuses=(Status.PENDING,),
    to_status=Status.PENDING,
    new_owner_id="n2",
    event=EventKind.DEDUP_RELINKED,
    at=NOW + 5,
    ids=IDS,
    first_id=FIRST,
)
FAIL = Sweep(
    owner_id="n1", statuses=(Status.PENDING,), to_status=Status.FAILED, error_message="failed with its owner"
)


def behind(id, owner="n1", **fields):
    return a_notification(id, dedup_owner_id=owner, **fields)


def swept(*sweeps, changes=(), events=()):
    return applied(Decision(None, changes, sweeps, events))


def rows_of(store):
    return {row.id: row for row in everything(store.inner)["Notification"]}


OUTCOME = Outcome(channels_attempted=("SLACK",), error_message="earlier")
CROWD = (
    a_notification("n1"),
    behind("a"),
    behind("b", status=Status.FAILED, outcome=OUTCOME),
    behind("c", status=Status.DEDUPLICATED),
    behind("d", status=Status.DELIVERED),
    behind("e", owner="n2"),
    a_notification("f"),
)


@pytest.mark.parametrize(
    ("sweep", "moved"),
    [
        (SATISFY, {"a": {"status": Status.DEDUPLICATED}, "b": {"status": Status.DEDUPLICATED}}),
        (RELINK, {"a": {"dedup_owner_id": "n2"}}),
        (FAIL, {"a": {"status": Status.FAILED, "outcome": Outcome(error_message="failed with its owner")}}),
        (replace(SATISFY, statuses=()), {}),
        (replace(SATISFY, owner_id="nobody"), {}),
        (
            replace(RELINK, error_message="moved on"),
            {"a": {"dedup_owner_id": "n2", "outcome": Outcome(error_message="moved on")}},
        ),
    ],
    ids=["satisfy", "relink", "fail with owner", "no status", "no such owner", "relink with an error"],
)
def test_a_sweep_moves_the_rows_it_names_and_no_other(run, store, sweep, moved):
    """
    Given rows behind two owners in every state, when one owner's are swept, then those with one of
    the statuses move as told, keep all else, and the others stay.
    """
    run(put(*CROWD))
    run(swept(sweep))

    assert {row.id: replace(row, **moved.get(row.id, {})) for row in CROWD} == rows_of(store)


def test_each_row_gets_its_event_in_acceptance_order(run, store):
    """
    Given followers of equal and of different age, when they are swept, then the ``n``-th accepted
    gets the ``n``-th id of the block, with the sweep's kind, instant and payload.
    """
    ages = {"d": 1, "b": 0, "a": 0.5, "c": 0}
    run(put(a_notification("n1"), *(behind(id, accepted_at=NOW + age) for id, age in ages.items())))
    run(swept(SATISFY))

    told = everything(store.inner)["Event"]

    assert [
        Event(
            id=IDS.nth(FIRST + n),
            notification_id=id,
            kind=EventKind.DEDUP_SATISFIED,
            at=NOW + 5,
            payload='{"owner_id":"n1"}',
            callback_until=SATISFY.at,
        )
        for n, id in enumerate("bcad")
    ] == told


@pytest.mark.parametrize("part", [0, 1, 0xABC])
def test_the_events_of_a_part_of_the_ids_have_that_parts(run, part):
    """
    Given a block of ids that begins further on, when rows are swept, then their events' ids do too.
    """
    sweep = replace(SATISFY, ids=IDS.part(part))
    run(put(a_notification("n1"), behind("a"), behind("b")))
    run(swept(sweep))

    assert [IDS.nth(part * 0x100 + FIRST + 1)] == [event.id for event in run(asked(EventsOf("b")))]


def test_a_sweep_without_an_event_tells_nothing(run, store):
    """
    When a sweep names no event, then none is written.
    """
    run(put(a_notification("n1"), behind("a")))
    run(swept(FAIL))

    assert everything(store.inner)["Event"] == []


def test_a_sweep_writes_no_event_twice(run):
    """
    Given the events of a sweep whose answer was lost, when they are there already, then they stay.
    """
    there = an_event(IDS.nth(FIRST), "a", payload='{"first": true}')
    run(put(there, a_notification("n1"), behind("a")))
    run(swept(SATISFY))

    assert run(asked(EventsOf("a"))) == [there]
    assert run(got(Notification, "a")).status is Status.DEDUPLICATED


def test_a_sweep_comes_after_the_decisions_changes(run, store):
    """
    Given a hand-off, when the heir leaves the crowd in the changes and the rest is swept, then the
    heir is not swept, and its event comes first.
    """
    promoted = replace(behind("a"), dedup_owner_id=None)
    told = an_event(IDS.nth(0), "a", kind=EventKind.DEDUP_OWNER_PROMOTED)
    run(put(a_notification("n1"), behind("a"), behind("b")))

    def hand_off(tx):
        tx.get(Notification, "a")
        tx.apply(
            Decision(None, (Change(behind("a"), promoted),), (replace(RELINK, new_owner_id="a"),), (told,))
        )

    run(Plan(hand_off))

    assert {"n1": None, "a": None, "b": "a"} == {id: r.dedup_owner_id for id, r in rows_of(store).items()}
    assert ["a", "b"] == [event.notification_id for event in everything(store.inner)["Event"]]


def test_sweeps_of_one_decision_run_one_after_another(run, store):
    """
    When a decision relinks a crowd and satisfies it behind its new owner, then both happened.
    """
    run(put(a_notification("n1"), a_notification("n2"), behind("a")))
    run(swept(RELINK, replace(SATISFY, owner_id="n2", first_id=FIRST + 0x100)))

    assert behind("a", owner="n2", status=Status.DEDUPLICATED) == rows_of(store)["a"]


def test_later_plans_see_what_was_swept(run):
    """
    Given rows that an earlier plan of the transaction read, when the next one sweeps them, then the
    one after it sees them moved, by key and by query, and can move them on.
    """
    run(put(a_notification("n1"), behind("a"), behind("b")))
    gone = behind("a", status=Status.DEDUPLICATED)

    _, _, row, waiting, _ = run.outcomes(
        got(Notification, "a"),
        swept(SATISFY),
        got(Notification, "a"),
        asked(FollowersOf("n1", Status.PENDING, 9)),
        change(gone, replace(gone, attempts=7)),
    )

    assert (gone, []) == (row, waiting)
    assert replace(gone, attempts=7) == run(got(Notification, "a"))


def test_rows_inserted_in_the_same_transaction_are_swept(run, store):
    """
    When a follower is inserted and swept in one transaction, then it moved.
    """
    run(put(a_notification("n1")), put(behind("a")), swept(SATISFY))

    assert rows_of(store)["a"].status is Status.DEDUPLICATED


def test_a_row_changed_and_swept_in_one_transaction_has_both(run, store):
    """
    When one plan changes a follower and the next one sweeps it, then it has both.
    """
    counted = behind("a", attempts=3)
    run(put(a_notification("n1"), behind("a")))
    run(change(behind("a"), counted), swept(FAIL))

    assert (3, Status.FAILED) == (rows_of(store)["a"].attempts, rows_of(store)["a"].status)


def test_a_crowd_moves_whole(run, store):
    """
    Given three hundred followers, when they are satisfied, then all of them moved and each has its
    own event.
    """
    run(put(a_notification("n1"), *(behind(f"f{n:03}") for n in range(300))))
    run(swept(SATISFY))
    told = everything(store.inner)["Event"]

    assert {Status.DEDUPLICATED} == {row.status for id, row in rows_of(store).items() if id != "n1"}
    assert [(IDS.nth(FIRST + n), f"f{n:03}") for n in range(300)] == [(e.id, e.notification_id) for e in told]
