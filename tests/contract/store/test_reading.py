"""
Reading beside the writer: a consistent snapshot, no locks, and nothing applied.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from kit.builders import a_notification
from kit.plans import applied, asked, change, got, put, raising
from kit.rows import a_copy, a_window, an_event
from kit.stores import everything
from uns.ports.decision import Change, Decision, Signal, SignalKind, Sweep
from uns.ports.errors import Conflict
from uns.ports.queries import CopiesOf, EventsOf, FollowersOf, WithKey
from uns.ports.rows import DedupWindow, Notification
from uns.ports.store import Plan
from uns.ports.vocabulary import Status

PATIENCE = 20
BEFORE = (a_window("a"), a_window("b"))
AFTER = tuple(replace(window, followers=1) for window in BEFORE)


@pytest.fixture
def beside(way):
    """
    Whether this store's readers and its writer work at the same time.
    """
    return way.rpartition("-")[0] in {"sqlite", "postgres"}


@pytest.fixture
def threads():
    with ThreadPoolExecutor() as pool:
        yield pool


def both(tx):
    return tx.get(DedupWindow, "a"), tx.get(DedupWindow, "b")


def move_both(tx):
    for before, after in zip(BEFORE, AFTER, strict=True):
        change(before, after).run(tx)


def test_reading_finds_what_was_committed(run, store):
    """
    Given committed rows, when a plan is read, then it finds them by key and by query.
    """
    row, copy, event = a_notification(dedup_owner_id="n0"), a_copy(), an_event()
    run(put(a_window(), row, copy, event))

    def look(tx):
        return [
            tx.get(DedupWindow, a_window().key),
            *tx.find(WithKey("key-n1")),
            *tx.find(FollowersOf("n0", Status.PENDING, 1)),
            *tx.find(CopiesOf("n1")),
            *tx.find(EventsOf("n1")),
        ]

    assert [a_window(), row, row, copy, event] == store.read(Plan(look))


def test_reading_has_the_clocks_now(store, clock):
    """
    ``tx.now`` is the clock's when reading too.
    """
    assert clock.now() == store.read(Plan(lambda tx: tx.now))


def test_reading_locks_in_any_order(run, store):
    """
    When a read asks for a row and then for its window, then it may: it takes no locks.
    """
    run(put(a_window(), a_notification()))

    def backwards(tx):
        return tx.get(Notification, "n1"), tx.get(DedupWindow, a_window().key)

    assert (a_notification(), a_window()) == store.read(Plan(backwards))


@pytest.mark.parametrize(
    "decision",
    [
        Decision(None, (Change(None, a_window()),)),
        Decision(None, (), (Sweep(owner_id="n1", statuses=(Status.PENDING,), to_status=Status.FAILED),)),
        Decision(None, (), (), (an_event(),)),
    ],
    ids=["change", "sweep", "event"],
)
def test_reading_applies_nothing(run, store, decision):
    """
    When a plan that is read applies something, then it is told so and nothing is written.
    """
    run(put(a_notification("f", dedup_owner_id="n1")))
    before = everything(store.inner)

    with pytest.raises(TypeError, match="read-only"):
        store.read(applied(decision))

    assert before == everything(store.inner)


def test_reading_may_decide_nothing(store, signals):
    """
    When a plan that is read applies a decision without any change, then it has its reply, and what
    the decision signals is not published.
    """
    idle = Decision("reply", signals=(Signal(SignalKind.DUE, "n1"),))

    assert "reply" == store.read(applied(idle))
    assert [] == signals


def test_a_read_that_raises_gets_its_own_error_back(run, store):
    """
    When a plan that is read raises, then the caller gets that very exception, and the store works on.
    """
    error = Conflict("no")

    with pytest.raises(Conflict) as caught:
        store.read(raising(error))

    assert caught.value is error
    assert None is run(put(a_window()))


def test_a_read_sees_one_snapshot(run, store, threads, beside):
    """
    Given a read that has begun, when a writer moves two rows, then the read finds both as they were:
    a writer beside it commits without waiting for it, one that takes turns waits.
    """
    run(put(*BEFORE))

    def slowly(tx):
        first = tx.get(DedupWindow, "a")
        moving = threads.submit(run, Plan(move_both))
        if beside:
            moving.result(PATIENCE)
        return (first, tx.get(DedupWindow, "b")), moving

    seen, moving = store.read(Plan(slowly))
    moving.result(PATIENCE)

    assert BEFORE == seen
    assert AFTER == store.read(Plan(both))


def test_a_read_waits_for_no_writer_and_sees_nothing_half_done(run, store, threads, beside):
    """
    Given a transaction under way, when somebody reads, then nothing of it is seen before it commits:
    where reads work beside the writer they come at once, elsewhere they take turns.
    """
    run(put(*BEFORE))
    begun, go_on = threading.Event(), threading.Event()

    def hold(tx):
        move_both(tx)
        begun.set()
        assert go_on.wait(PATIENCE)

    writing = threads.submit(run, Plan(hold), asked(FollowersOf("n1", Status.PENDING, 1)))
    assert begun.wait(PATIENCE)
    reading = threads.submit(store.read, Plan(both))
    if beside:
        seen = reading.result(PATIENCE)
        go_on.set()
    else:
        go_on.set()
        seen = reading.result(PATIENCE)
    writing.result(PATIENCE)

    assert (BEFORE if beside else AFTER) == seen
    assert AFTER == store.read(Plan(both))


def test_many_read_while_one_writes(run, store, threads):
    """
    Given readers in several threads, when a counter is moved a hundred times, then none of them ever
    sees it go back or two rows apart.
    """
    run(put(*BEFORE))
    done = threading.Event()

    def watch():
        counts = []
        while not done.is_set():
            first, second = store.read(Plan(both))
            counts.append((first.followers, second.followers))
        return counts

    watching = [threads.submit(watch) for _ in range(3)]
    try:
        for n in range(100):
            run(Plan(lambda tx, n=n: _count(tx, n)))
    finally:
        done.set()
    seen = [reader.result(PATIENCE) for reader in watching]

    assert all(counts == sorted(counts) for counts in seen)
    assert all(first == second for counts in seen for first, second in counts)
    assert (100, 100) == tuple(window.followers for window in store.read(Plan(both)))


def _count(tx, n):
    for window in both(tx):
        assert n == window.followers
        tx.apply(Decision(None, (Change(window, replace(window, followers=n + 1)),)))


def test_a_read_of_a_row_leaves_nothing_behind(run, store):
    """
    Given a read that found no row, when the row is inserted, then the next read finds it.
    """
    missed = store.read(got(DedupWindow, "a"))
    run(put(a_window("a")))

    assert (None, a_window("a")) == (missed, store.read(got(DedupWindow, "a")))
