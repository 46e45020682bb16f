"""
All or nothing: plans that raise, groups with a poisoned plan, and signals only of what was committed.
"""

import pytest
from msgspec.structs import replace

from kit.builders import a_notification
from kit.plans import Commit, applied, asked, change, got, put, raising
from kit.rows import a_copy, a_window, an_event
from kit.stores import everything, open_store
from uns.ports.decision import Decision, Signal, SignalKind, Sweep
from uns.ports.errors import Conflict, NotFound, StoreRefused
from uns.ports.queries import CopiesOf, EventsOf, FollowersOf, WithKey
from uns.ports.rows import DedupWindow, Event, Notification
from uns.ports.store import Plan
from uns.ports.vocabulary import Status

LONE_SURROGATE = "\ud800"


class Own(Exception):
    """
    An error that no store knows.
    """


ERRORS = [
    Conflict("no"),
    NotFound(),
    ValueError("v"),
    KeyError("k"),
    Own("own"),
    StopIteration(),
    TimeoutError(),
]


def told(subject):
    return Decision(subject, signals=(Signal(SignalKind.DUE, subject),))


def empty(store):
    return not any(everything(store.inner).values())


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_plan_that_raises_gets_its_own_error_back(run, error):
    """
    When a plan raises, then it gets that very exception back.
    """
    (outcome,) = run.outcomes(raising(error))

    assert outcome is error


def test_a_plan_that_raises_after_it_applied_leaves_nothing(run, store):
    """
    When a plan inserts rows of every kind and then raises, then the store is as empty as before.
    """
    run.outcomes(raising(Own(), a_window(), a_notification(), a_copy(), an_event()))

    assert empty(store)


def test_a_plan_that_raises_after_a_move_leaves_the_row_as_it_was(run, store):
    """
    Given a row with a crowd behind it, when a plan moves it, sweeps the crowd, and raises, then all
    stays.
    """
    rows = [a_notification("n1"), a_notification("a", dedup_owner_id="n1"), a_window()]
    run(put(*rows))
    before = everything(store.inner)

    def move_and_raise(tx):
        change(rows[2], replace(rows[2], followers=9)).run(tx)
        change(rows[0], replace(rows[0], status=Status.DELIVERED)).run(tx)
        tx.apply(
            Decision(
                None, sweeps=(Sweep(owner_id="n1", statuses=(Status.PENDING,), to_status=Status.FAILED),)
            )
        )
        raise Own

    run.outcomes(Plan(move_and_raise))

    assert before == everything(store.inner)


def test_the_neighbours_of_a_plan_that_raises_commit(run, store):
    """
    Given a group whose second and last plans raise, then the others' rows are there, and nothing else.
    """
    plans = [
        put(a_window("a")),
        raising(Own(), a_window("b"), an_event("e-b")),
        put(a_window("c"), an_event("e-c")),
        raising(Own(), a_window("d")),
    ]

    outcomes = run.outcomes(*plans)
    held = everything(store.inner)

    assert [None, Own, None, Own] == [None if o is None else type(o) for o in outcomes]
    assert ["a", "c"] == [window.key for window in held["DedupWindow"]]
    assert ["e-c"] == [event.id for event in held["Event"]]


def test_later_plans_do_not_see_what_a_plan_that_raised_had_applied(run):
    """
    When a plan inserts rows and raises, then the plans after it find none of them, however they ask.
    """
    _, *found = run.outcomes(
        raising(Own(), a_window(), a_notification(dedup_owner_id="n0"), a_copy(), an_event()),
        got(DedupWindow, a_window().key),
        got(Notification, "n1"),
        asked(WithKey("key-n1")),
        asked(FollowersOf("n0", Status.PENDING, 1)),
        asked(CopiesOf("n1")),
        got(Event, "e1"),
        asked(EventsOf("n1")),
    )

    assert [None, None, [], [], [], None, []] == found


def test_later_plans_see_what_earlier_ones_did(run):
    """
    When a plan inserts rows, then the plans after it find all of them, however they ask.
    """
    window, row, copy, event = a_window(), a_notification(dedup_owner_id="n0"), a_copy(), an_event()

    _, *found = run.outcomes(
        put(window, row, copy, event),
        got(DedupWindow, window.key),
        got(Notification, "n1"),
        asked(WithKey("key-n1")),
        asked(FollowersOf("n0", Status.PENDING, 1)),
        asked(CopiesOf("n1")),
        got(Event, "e1"),
        asked(EventsOf("n1")),
    )

    assert [window, row, [row], [row], [copy], event, [event]] == found


def test_a_group_of_nothing_is_answered_with_nothing(run):
    """
    When no plans are handed in, then there are no replies.
    """
    assert run.outcomes() == []


def test_replies_come_in_the_order_of_the_plans(run):
    """
    When many plans are handed in, then each has its own reply in its place.
    """
    assert list(range(150)) == run.outcomes(*(applied(Decision(n)) for n in range(150)))


def test_all_plans_of_a_transaction_have_one_now(run, clock):
    """
    ``tx.now`` is the clock's, and stands still while a plan runs.
    """

    def twice(tx):
        before = tx.now
        clock.advance(5)
        return before, tx.now

    started = clock.now()

    assert (started, started) == run(Plan(twice))


# What a database refuses


POISONS = {
    "a title": put(a_notification(body=LONE_SURROGATE)),
    "an error in JSON": put(a_notification(response_metadata=LONE_SURROGATE, status=Status.FAILED)),
    "an event": put(an_event(payload=LONE_SURROGATE)),
    "a copy": put(a_copy(ref=LONE_SURROGATE)),
    "a key": put(a_notification(key=LONE_SURROGATE)),
    "a sweep": applied(
        Decision(
            None,
            sweeps=(
                Sweep(
                    owner_id="n0",
                    statuses=(Status.PENDING,),
                    to_status=Status.FAILED,
                    error_message=LONE_SURROGATE,
                ),
            ),
        )
    ),
}
POISON = pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)


@POISON
def test_what_the_database_refuses_is_refused(run, store, poison):
    """
    Given a follower, when a plan writes a text that is not Unicode, then it is refused, and nothing
    of it is kept.
    """
    run(put(a_notification("f", dedup_owner_id="n0")))
    before = everything(store.inner)

    (outcome,) = run.outcomes(poison)

    assert isinstance(outcome, StoreRefused)
    assert before == everything(store.inner)


@POISON
@pytest.mark.parametrize("place", range(4))
def test_a_poisoned_plan_fails_alone(run, store, poison, place):
    """
    Given a group with one plan that the database refuses, wherever it stands, when it is committed,
    then it alone fails and its neighbours' rows are there.
    """
    run(put(a_notification("f", dedup_owner_id="n0")))
    plans = [put(a_window(key)) for key in "abc"]
    plans.insert(place, poison)

    outcomes = run.outcomes(*plans)

    assert [StoreRefused if n == place else type(None) for n in range(4)] == [type(o) for o in outcomes]
    assert ["a", "b", "c"] == [window.key for window in everything(store.inner)["DedupWindow"]]
    assert ["f"] == [row.id for row in everything(store.inner)["Notification"]]


QUESTIONS = {
    "a query": asked(FollowersOf("n9", Status.PENDING, 1)),
    "an event": got(Event, "e9"),
    "a sweep": applied(
        Decision(None, sweeps=(Sweep(owner_id="n9", statuses=(Status.PENDING,), to_status=Status.FAILED),))
    ),
}


@pytest.mark.parametrize("poison", [POISONS[name] for name in ("a title", "an event")], ids=["row", "event"])
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_poisoned_plan_fails_alone_when_its_neighbour_asks(run, store, poison, question):
    """
    Given a poisoned plan whose neighbour makes the group write before it ends, when they are
    committed, then the fault is still the poisoned one's and not its neighbour's.
    """
    before, poisoned, asking, after = run.outcomes(put(a_window("a")), poison, question, put(a_window("b")))

    assert (before, after) == (None, None)
    assert isinstance(poisoned, StoreRefused)
    assert not isinstance(asking, BaseException)
    assert ["a", "b"] == [window.key for window in everything(store.inner)["DedupWindow"]]


def test_several_poisoned_plans_fail_and_no_other(run, store):
    """
    Given a group of sixteen with three that the database refuses, then these fail and no other.
    """
    poisoned = {0, 7, 8}
    plans = [put(a_window(f"{n:02}", owner_id=LONE_SURROGATE if n in poisoned else "n1")) for n in range(16)]

    outcomes = run.outcomes(*plans)

    assert poisoned == {n for n, outcome in enumerate(outcomes) if isinstance(outcome, StoreRefused)}
    assert 13 == len(everything(store.inner)["DedupWindow"])


# Signals


def test_signals_are_published_after_the_commit(store, run, signals):
    """
    When a plan's decision has signals, then nobody hears of them before what it wrote can be read.
    """
    heard = []

    def write(tx):
        put(a_window("a")).run(tx)
        heard.append(list(signals))
        return tx.apply(told("n1"))

    run(Plan(write))

    assert [[]] == heard
    assert [Signal(SignalKind.DUE, "n1")] == signals


def test_a_listener_can_read_what_it_is_told_of(way, clock, tmp_path):
    """
    Given a listener that reads, when it hears a signal, then it finds what the signal is about.
    """
    kind, _, how = way.rpartition("-")
    found = []
    with open_store(
        kind, clock, tmp_path, lambda _: found.append(opened.read(got(DedupWindow, "a")))
    ) as opened:
        Commit(opened, grouped=how == "grouped")(put(a_window("a")), applied(told("n1")))

    assert [a_window("a")] == found


def test_plans_that_failed_tell_nothing(run, signals):
    """
    Given a group in which one plan raises and one is refused, when it is committed, then only the
    others' signals are published, once each and in order.
    """

    def raise_after(tx):
        tx.apply(told("raised"))
        raise Own

    def refused(tx):
        tx.apply(told("refused"))
        put(a_window(LONE_SURROGATE)).run(tx)

    run.outcomes(applied(told("first")), Plan(raise_after), Plan(refused), applied(told("last")))

    assert ["first", "last"] == [signal.subject for signal in signals]


def test_nothing_is_published_where_nothing_was_told(way, clock, tmp_path):
    """
    When plans without signals are committed, then listeners are not woken.
    """
    woken = []
    kind, _, how = way.rpartition("-")
    with open_store(kind, clock, tmp_path, woken.append) as opened:
        Commit(opened, grouped=how == "grouped")(put(a_window("a")), got(DedupWindow, "a"))

    assert [] == woken
