"""
Rows of every type: what is written is read back, guarded moves, and what a row may not do.
"""

import pytest
from msgspec.structs import replace

from kit.builders import NOW, a_notification
from kit.plans import applied, asked, change, got, key_of, put
from kit.rows import BARE, FULL, a_copy, a_full_notification, a_window, an_event
from kit.stores import everything
from uns.adapters.sql.codec import STORED
from uns.ports.decision import Change, Decision
from uns.ports.errors import StoreUnavailable
from uns.ports.policy import AUTHORITY, PolicyAuthority
from uns.ports.queries import EventsOf
from uns.ports.rows import NOTHING_YET, Copy, DedupWindow, Event, Notification
from uns.ports.store import Plan
from uns.ports.vocabulary import Ack, Status

MOVED = [
    (a_notification(), {"status": Status.DELIVERED, "attempts": 1, "lease_token": "t"}),
    (
        a_full_notification(),
        {"outcome": NOTHING_YET, "ack_status": None, "dead_letter": False, "deadline": None},
    ),
    (a_notification(), {"response_metadata": "{}", "ack_status": Ack.ACKED}),
    (a_window(), {"owner_id": "n2", "followers": 3, "until": NOW + 0.5}),
    (an_event(), {"callback_pending": True, "callback_token": "t", "callback_until": NOW}),
    (a_copy(), {"state": "UPDATED", "routing": "{}"}),
    (PolicyAuthority(id=AUTHORITY, revision=1, snapshot_hash="a"), {"revision": 2, "snapshot_hash": "b"}),
]
MOVES = pytest.mark.parametrize(
    ("before", "moved"),
    [pytest.param(*case, id=f"{type(case[0]).__name__}-{'+'.join(case[1])}") for case in MOVED],
)
ROW = pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{type(row).__name__}-{how}")
        for how, rows in (("full", FULL), ("bare", BARE))
        for row in rows
    ],
)


def test_every_type_of_row_is_tried():
    """
    The rows of this suite cover the registry of stored types.
    """
    assert {type(row) for row in FULL} == set(STORED)


@ROW
def test_a_row_is_read_back_as_it_was_written(run, row):
    """
    When a row is inserted, then a later plan reads an equal one, whatever its texts and gaps.
    """
    assert row == run(put(row), got(type(row), key_of(row)))


@ROW
def test_a_row_survives_its_transaction(run, row):
    """
    Given a committed row, when another transaction reads it, then it is equal.
    """
    run(put(row))

    assert row == run(got(type(row), key_of(row)))


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_an_absent_row_is_none(run, kind):
    """
    When there is no row with a key, then there is None, the second time too.
    """
    key = "a/b" if kind is Copy else "a"

    assert run(got(kind, key)) is None
    assert run(got(kind, key), got(kind, key)) is None


def test_a_key_is_taken_whole(run):
    """
    When a key has a slash in it, then it is not read as two.
    """
    run(put(a_notification("n1")))

    assert run(got(Notification, "n1/x")) is None


def test_a_plan_sees_what_it_inserted(run):
    """
    When a plan applies a decision, then its own reads see it at once.
    """
    rows = (a_window(), a_notification(), a_copy(), an_event())

    def write_and_read(tx):
        put(*rows).run(tx)
        return tuple(tx.get(type(row), key_of(row)) for row in rows)

    assert rows == run(Plan(write_and_read))


@MOVES
def test_a_move_is_read_back(run, before, moved):
    """
    Given a row, when it moves, then its new image is read, by later plans and transactions.
    """
    after = replace(before, **moved)

    assert after == run(put(before), change(before, after), got(type(before), key_of(before)))
    assert after == run(got(type(before), key_of(before)))


@MOVES
def test_a_move_of_a_committed_row_is_read_back(run, before, moved):
    """
    Given a row of an earlier transaction, when it moves, then its new image is read.
    """
    after = replace(before, **moved)
    run(put(before))
    run(change(before, after))

    assert after == run(got(type(before), key_of(before)))


@MOVES
def test_a_move_touches_no_other_row(run, before, moved):
    """
    Given two rows of a type, when one moves, then the other stays.
    """
    first = before.__struct_fields__[0]
    other = replace(before, **{first: "other"})
    if isinstance(before, Notification):
        other = replace(other, key="other")
    run(put(before, other))
    run(change(before, replace(before, **moved)))

    assert other == run(got(type(other), key_of(other)))


def test_moves_of_one_row_in_one_transaction_add_up(run):
    """
    When several plans move one row one after another, then the last image stands.
    """
    first = a_window()
    second = replace(first, followers=1)
    third = replace(second, followers=2, until=NOW)

    run(put(first), change(first, second), change(second, third))

    assert third == run(got(DedupWindow, first.key))


def test_a_move_there_and_back_changes_nothing(run):
    """
    When a row moves and moves back, then it is as it was.
    """
    before = a_notification()
    leased = replace(before, lease_token="t", lease_until=NOW + 60)
    run(put(before))

    run(change(before, leased), change(leased, before))

    assert before == run(got(Notification, "n1"))


WRONG = [
    pytest.param(a_notification(), {"status": Status.FAILED}, id="status"),
    pytest.param(a_notification(), {"lease_token": "other"}, id="null was expected"),
    pytest.param(a_notification(lease_token="t"), {"lease_token": None}, id="null was found"),
    pytest.param(a_notification(), {"next_attempt": NOW + 1e-6}, id="a microsecond"),
    pytest.param(a_window(), {"followers": 1}, id="window"),
    pytest.param(an_event(callback_pending=True), {"callback_token": "other"}, id="event"),
]


@pytest.mark.parametrize(("stored", "believed"), WRONG)
def test_a_wrong_before_image_moves_nothing(run, unwatched, stored, believed):
    """
    Given a plan that believes something else of a row, when it moves it, then nothing is written
    and the store says that the row kept moving; ``Stale`` itself never leaves a store.
    """
    wrong = replace(stored, **believed)
    run(put(stored))

    (outcome,) = unwatched.outcomes(change(wrong, stored))

    assert isinstance(outcome, StoreUnavailable)
    assert stored == run(got(type(stored), key_of(stored)))


def test_a_stale_plan_fails_alone(run, unwatched):
    """
    Given a group in which one plan's before image is wrong for good, when it is committed, then
    its neighbours are there.
    """
    run(put(a_window("a")))
    wrong = change(a_window("a", followers=7), a_window("a", followers=8))

    before, stale, after = unwatched.outcomes(put(a_window("b")), wrong, put(a_window("c")))

    assert (before, after) == (None, None)
    assert isinstance(stale, StoreUnavailable)
    assert [a_window(key) for key in "abc"] == [run(got(DedupWindow, key)) for key in "abc"]


def test_a_before_image_may_come_from_an_earlier_transaction(run, unwatched):
    """
    Given a row that nobody moved since, when a plan moves it without reading it again, then it moves.
    """
    run(put(a_window()))

    unwatched(applied(Decision(None, (Change(a_window(), a_window(followers=1)),))))

    assert a_window(followers=1) == run(got(DedupWindow, a_window().key))


@pytest.mark.parametrize(
    ("row", "rival"),
    [
        pytest.param(a_notification(), a_notification(principal="other"), id="primary key"),
        pytest.param(a_notification(), a_notification("n2", key="key-n1"), id="idempotency key"),
        pytest.param(a_window(), a_window(owner_id="n2"), id="window"),
        pytest.param(a_copy(), a_copy(ref="m2"), id="copy"),
    ],
)
def test_a_row_that_exists_is_not_inserted_again(run, row, rival):
    """
    Given a row, when a plan that did not read it inserts one with the same key, then the first one
    stays, the plan has failed, and its neighbours are there.
    """
    run(put(row))

    before, wrong, after = run.outcomes(put(a_window("b")), put(rival), put(a_window("c")))

    assert (before, after) == (None, None)
    assert isinstance(wrong, StoreUnavailable)
    assert row == run(got(type(row), key_of(row)))
    assert run(got(DedupWindow, "b")) == a_window("b")
    assert run(got(DedupWindow, "c")) == a_window("c")


def test_the_cold_columns_never_move(run):
    """
    When a row's content is changed between two images, then only the rest is written: content is
    written once.
    """
    before = a_notification(body='{"title": "a"}')
    after = replace(before, status=Status.DELIVERED, body='{"title": "b"}')
    run(put(before))
    run(change(before, after))
    again = run(got(Notification, "n1"))

    assert again.status is Status.DELIVERED


def test_an_event_with_an_id_that_exists_is_left_as_it_is(run):
    """
    Given an event, when another with its id is appended, in the same transaction or later, then the
    first one stays and nothing is raised.
    """
    first, rival = an_event(payload='{"n":1}'), an_event(payload='{"n":2}', notification_id="n2")

    run(put(first), put(rival, an_event("e2")))
    run(put(rival))

    assert run(asked(EventsOf("n1"))) == [first, an_event("e2")]
    assert run(asked(EventsOf("n2"))) == []


def test_an_event_that_was_missed_is_found_once_it_is_there(run):
    """
    Given a plan that looked for an event in vain, when a later plan of the group appends it, then
    the next one finds it.
    """
    missed, _, found = run.outcomes(got(Event, "e1"), put(an_event()), got(Event, "e1"))

    assert (None, an_event()) == (missed, found)


def test_a_decision_may_say_the_same_thing_twice(run):
    """
    When a plan moves a row twice, then the second move starts from the first one's image.
    """
    before = a_window()
    between = replace(before, followers=1)
    after = replace(before, followers=2)

    def twice(tx):
        tx.get(DedupWindow, before.key)
        tx.apply(Decision(None, (Change(before, between),)))
        tx.apply(Decision(None, (Change(between, after),)))
        return tx.get(DedupWindow, before.key)

    assert after == run(put(before), Plan(twice))
    assert after == run(got(DedupWindow, before.key))


def test_the_reply_is_the_decisions(run):
    """
    ``apply`` hands back the reply of the decision.
    """
    assert run(applied(Decision("reply"))) == "reply"


def test_everything_that_was_written_is_told(run, store):
    """
    The suite's own view of a store holds one row of each type, equal to what was written.
    """
    run(put(*FULL))

    assert [[row] for row in FULL] == [everything(store.inner)[type(row).__name__] for row in FULL]
