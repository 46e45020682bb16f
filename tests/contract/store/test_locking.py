"""
Two processes on one PostgreSQL: who waits for whom, who passes over what, and who begins again.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from msgspec.structs import replace

from kit.builders import NOW, a_notification, a_policy, a_request, an_acceptance, put_in_force
from kit.plans import applied, asked, change, got, put
from kit.rows import a_window, an_event
from kit.stores import everything, postgres_ledger
from uns.adapters.sources import ManualClock
from uns.adapters.sql.postgres import postgres_engine
from uns.adapters.sql.store import SqlStore
from uns.core.plans import intake
from uns.ports.decision import Change, Decision, Signal, SignalKind
from uns.ports.errors import StoreUnavailable
from uns.ports.policy import AUTHORITY, PolicyAuthority
from uns.ports.queries import CallbacksDue, Due, FollowersOf, LineInto, Overdue, WithKey
from uns.ports.rows import DedupWindow, Notification
from uns.ports.sources import Ids
from uns.ports.store import Plan, Wants
from uns.ports.vocabulary import Ack, Status

PATIENCE = 10.0
A_MOMENT = 0.15
"""How long it is watched that somebody goes on waiting."""

LOCK_TIMEOUT = "-c lock_timeout=700ms"


@pytest.fixture
def url():
    with postgres_ledger() as url:
        yield url


@pytest.fixture
def opened(url):
    """
    Opens stores on one database, as processes do.
    """
    stores = []

    def opened(clock=ManualClock(NOW), **options):  # noqa: B008 - it stands still
        at = f"{url}?options={LOCK_TIMEOUT.replace(' ', '%20').replace('=', '%3D')}"
        stores.append(SqlStore(postgres_engine(at), clock, **options))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def ours(opened):
    return opened()


@pytest.fixture
def theirs(opened):
    return opened()


class Paused:
    """
    A plan of another process, in the middle of its transaction until it is let go.
    """

    def __init__(self, store, plan):
        self._reached, self._go = threading.Event(), threading.Event()
        self._threads = ThreadPoolExecutor(1)

        def run(tx):
            reply = plan.run(tx)
            self._reached.set()
            assert self._go.wait(PATIENCE)
            return reply

        self._reply = self._threads.submit(store.transact, Plan(run, plan.wants))
        assert self._reached.wait(PATIENCE), self._reply.result(0)

    def let_go(self):
        self._go.set()
        self._threads.shutdown()
        return self._reply.result(PATIENCE)


@pytest.fixture
def paused(theirs):
    """
    Pauses a plan of the other process.
    """
    held = []

    def paused(plan):
        held.append(Paused(theirs, plan))
        return held[-1]

    yield paused
    for each in held:
        each.let_go()


@pytest.fixture
def waiting():
    """
    Runs plans in a thread, and sees that they wait.
    """
    with ThreadPoolExecutor() as threads:

        def waiting(store, plan):
            running = threads.submit(store.transact, plan)
            with pytest.raises(TimeoutError):
                running.result(A_MOMENT)
            return running

        yield waiting


def wanting(plan, **wants):
    return Plan(plan.run, Wants(**wants))


def counted(plan):
    """
    The same plan, and a list that grows with each of its runs.
    """
    runs = []

    def run(tx):
        runs.append(tx.now)
        return plan.run(tx)

    return Plan(run, plan.wants), runs


def several(*plans):
    """
    Several plans in one.
    """
    return Plan(lambda tx: [plan.run(tx) for plan in plans])


ROWS = [a_notification(f"n{n}", next_attempt=NOW - 10 + n) for n in range(4)]


@pytest.mark.parametrize("wants", [{}, {"windows": ("w",)}], ids=["asked for", "wanted"])
def test_a_dedup_key_is_locked_before_it_has_a_window(ours, paused, waiting, wants):
    """
    Given a process that looked for a window and found none, when another looks for it, then it waits,
    and finds the one that the first has opened.
    """
    first = paused(several(got(DedupWindow, "w"), put(a_window("w"))))
    second = waiting(ours, wanting(got(DedupWindow, "w"), **wants))
    first.let_go()

    assert a_window("w") == second.result(PATIENCE)


@pytest.mark.parametrize("wants", [{}, {"rows": ("n1",)}], ids=["asked for", "wanted"])
def test_a_row_is_waited_for_and_read_as_it_has_become(ours, paused, waiting, wants):
    """
    Given a process that moves a row, when another asks for it, then it waits and sees the row moved.
    """
    moved = replace(ROWS[1], lease_token="theirs")
    ours.transact(put(*ROWS))
    first = paused(change(ROWS[1], moved))
    second = waiting(ours, wanting(got(Notification, "n1"), **wants))
    first.let_go()

    assert moved == second.result(PATIENCE)


@pytest.mark.parametrize(
    ("held", "then", "wants"),
    [
        (got(Notification, "n2"), got(Notification, "n1"), {}),
        (got(Notification, "n2"), asked(WithKey("key-n1")), {}),
        (got(Notification, "n2"), got(DedupWindow, "w"), {"rows": ("n2",)}),
        (got(DedupWindow, "v"), got(DedupWindow, "w"), {"windows": ("v",)}),
        (got(Notification, "n2"), asked(FollowersOf("n0", Status.PENDING, 1)), {}),
        (got(Notification, "n2"), asked(LineInto("n3")), {}),
    ],
    ids=["a row", "a row by its key", "a window", "a second window", "a follower", "a line"],
)
def test_what_is_locked_out_of_order_is_locked_anew(ours, opened, paused, waiting, held, then, wants):
    """
    Given a lock that a plan asks for after those it should have come with, when another process has
    it, then the plan does not wait with what it holds: it begins again and takes all in order.
    """
    follower = replace(ROWS[1], dedup_owner_id="n0", status=Status.PENDING, dedup_successor_id="n3")
    ours.transact(put(ROWS[0], follower, *ROWS[2:]))
    first = paused(several(got(DedupWindow, "w"), got(Notification, "n1")))
    plan, runs = counted(wanting(several(held, then), **wants))
    second = waiting(ours, plan)

    assert 1 == len(runs)
    assert ROWS[2] == opened().transact(got(Notification, "n2"))  # what it held is free while it waits

    first.let_go()
    second.result(PATIENCE)
    assert 2 == len(runs)


@pytest.mark.parametrize(
    "then",
    [
        got(Notification, "n1"),
        got(DedupWindow, "w"),
        asked(WithKey("key-n1")),
        asked(FollowersOf("n0", Status.PENDING, 1)),
    ],
    ids=["a row", "a window", "a key", "a follower"],
)
def test_what_nobody_holds_is_taken_as_it_comes(ours, paused, then, waiting):
    """
    Given a lock that a plan asks for late, when it is free, then the plan goes on with it, and others
    wait.
    """
    ours.transact(put(ROWS[0], replace(ROWS[1], dedup_owner_id="n0"), *ROWS[2:]))
    plan, runs = counted(wanting(several(got(Notification, "n2"), then), rows=("n2",)))
    first = paused(plan)
    second = waiting(ours, several(got(DedupWindow, "w"), got(Notification, "n1")))
    first.let_go()
    second.result(PATIENCE)

    assert 1 == len(runs)


def test_a_row_that_is_not_there_is_asked_for_once_more(ours):
    """
    Given a plan that holds one row, when it asks for another that is not there, then it is run again
    and told so: what cannot be locked at once may only have been busy.
    """
    ours.transact(put(*ROWS))
    plan, runs = counted(several(got(Notification, "n1"), got(Notification, "nobody")))

    assert [ROWS[1], None] == ours.transact(plan)
    assert 2 == len(runs)


def test_a_group_begins_again_with_all_its_plans(ours, theirs, paused, waiting):
    """
    Given a group whose last plan asks for what another process holds, then its neighbours commit once.
    """
    ours.transact(put(*ROWS))
    first = paused(change(ROWS[1], replace(ROWS[1], lease_token="theirs")))
    plan, runs = counted(several(got(Notification, "n2"), got(Notification, "n1")))
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(ours.transact_many, [put(a_window("a")), plan, put(a_window("b"))])
        with pytest.raises(TimeoutError):
            running.result(A_MOMENT)
        first.let_go()
        replies = running.result(PATIENCE)

    assert [None, [ROWS[2], replace(ROWS[1], lease_token="theirs")], None] == replies
    assert 2 == len(runs)
    assert ["a", "b"] == [window.key for window in everything(ours)["DedupWindow"]]


PROPOSALS = {
    "due": (Due(("SLACK",), 2), ["n2", "n3"]),
    "overdue": (Overdue(NOW, 2), ["n2", "n3"]),
    "callbacks": (CallbacksDue(3, 2), ["e2", "e3"]),
}


@pytest.mark.parametrize(("query", "found"), PROPOSALS.values(), ids=PROPOSALS)
def test_a_proposal_passes_over_what_others_hold(ours, paused, query, found):
    """
    Given a process that works on the first two rows, when another asks for two, then it waits for
    nobody and gets the next two.
    """
    rows = [replace(row, ack_status=Ack.PENDING, deadline=row.next_attempt) for row in ROWS]
    due = [an_event(f"e{n}", callback_pending=True, callback_until=NOW - 10 + n) for n in range(4)]
    ours.transact(put(*rows, *due))
    first = paused(asked(query))
    proposed = ours.transact(asked(query))

    assert found == sorted(row.id for row in proposed)
    assert ["0", "1"] == sorted(row.id[1:] for row in first.let_go())


def test_the_heir_is_the_first_by_acceptance_whoever_holds_it(ours, paused, waiting):
    """
    Given two followers, the first in another process's hands, when the heir is looked for, then the
    first is waited for and not passed over.
    """
    behind = [a_notification(f"n{n}", dedup_owner_id="n0", accepted_at=NOW + n) for n in (1, 2)]
    ours.transact(put(a_notification("n0"), *behind))
    first = paused(change(behind[0], replace(behind[0], attempts=1)))
    heir = waiting(
        ours,
        wanting(several(got(Notification, "n0"), asked(FollowersOf("n0", Status.PENDING, 1))), rows=("n0",)),
    )
    first.let_go()

    assert [replace(behind[0], attempts=1)] == heir.result(PATIENCE)[1]


# Policies


def authority(revision):
    return PolicyAuthority(id=AUTHORITY, revision=revision, snapshot_hash="s" * 64)


def test_many_accept_under_one_authority(ours, paused):
    """
    Given a process that accepts, when another accepts, then neither waits.
    """
    ours.transact(put(authority(1)))
    paused(wanting(got(PolicyAuthority, AUTHORITY), policy=True))

    assert authority(1) == ours.transact(wanting(got(PolicyAuthority, AUTHORITY), policy=True))
    assert authority(1) == ours.transact(got(PolicyAuthority, AUTHORITY))


def test_who_activates_waits_for_those_who_accept_and_they_for_it(ours, opened, paused, waiting):
    """
    Given a process that accepts, when another activates and a third accepts, then the second waits for
    the first, the third for the second, and the third sees what the second put in force.
    """
    ours.transact(put(authority(1)))
    first = paused(wanting(got(PolicyAuthority, AUTHORITY), policy=True))
    second = waiting(ours, wanting(change(authority(1), authority(2)), policy=True, activates=True))
    third = waiting(opened(), wanting(got(PolicyAuthority, AUTHORITY), policy=True))

    assert authority(1) == first.let_go()
    second.result(PATIENCE)
    assert authority(2) == third.result(PATIENCE)


def test_who_activates_is_alone_in_its_transaction(opened):
    """
    Given a group with an activation in its middle, then it is three transactions, in order.
    """
    published = []
    store = opened(publish=lambda signals: published.append([signal.subject for signal in signals]))

    def told(subject, **wants):
        return wanting(applied(Decision(subject, signals=(Signal(SignalKind.DUE, subject),))), **wants)

    replies = store.transact_many([told("a"), told("b"), told("c", activates=True), told("d")])

    assert ["a", "b", "c", "d"] == replies
    assert [["a", "b"], ["c"], ["d"]] == published


# Idempotency keys


def test_two_writers_racing_on_one_key_are_one_acceptance_and_one_replay(ours, theirs):
    """
    Given two processes that accept the same request at the same moment, again and again, then each
    time one of them accepts and the other replays.
    """
    resolver = put_in_force(ours, a_policy(dedup_window_seconds=0.0))
    meet = threading.Barrier(2)

    def accept(store, who):
        replayed = []
        for n in range(30):
            id = Ids(f"01890000-0000-7000-8000-{who}{n:04}0000000")
            acceptance = an_acceptance(a_request(idempotency_key=f"k{n}"), id=id.base, ids=Ids(id.base))
            meet.wait(PATIENCE)
            replayed.append(store.transact(intake.accept(acceptance, resolver)).accepted.replayed)
        return replayed

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(accept, (ours, theirs), (1, 2))

    assert [True] * 30 == [a ^ b for a, b in zip(first, second, strict=True)]
    assert 30 == len(everything(ours)["Notification"])


def test_groups_that_insert_the_same_keys_never_wait_crosswise(ours, theirs, url):
    """
    Given two processes whose groups insert the same keys in opposite orders, then no deadlock is seen.
    """
    meet = threading.Barrier(2)

    def insert(store, order):
        for n in range(20):
            rows = [a_notification(f"{order}{n}-{k}", key=f"k{n}-{k}") for k in range(8)]
            meet.wait(PATIENCE)
            store.transact_many([known_or_new(row) for row in rows[::order]])

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(insert, (ours, theirs), (1, -1)))

    assert 160 == len(everything(ours)["Notification"])
    assert 0 == deadlocks(url)


def known_or_new(row):
    def run(tx):
        if not tx.find(WithKey(row.key)):
            tx.apply(Decision(None, (Change(None, row),)))

    return Plan(run, Wants(keys=(row.key,)))


def deadlocks(url):
    """
    How often the server had to end a circle of waiting.
    """
    with closing(psycopg.connect(url.replace("+psycopg", ""), autocommit=True)) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        question = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ((number,),) = connection.execute(question)
        return number


# Time


def test_now_is_the_databases_and_later_than_what_was_waited_for(ours, opened, paused, waiting):
    """
    Given a store without a clock of its own, when it waits for a lock, then its time is the
    database's, read once the lock is held.
    """
    unclocked = opened(None)
    first = paused(got(DedupWindow, "w"))
    second = waiting(unclocked, wanting(Plan(lambda tx: tx.now), windows=("w",)))
    before = unclocked.read(Plan(lambda tx: tx.now))
    first.let_go()

    assert before < second.result(PATIENCE)


# What others hold for too long


def test_a_lock_that_is_held_too_long_is_not_waited_for_longer(ours, paused):
    """
    Given a process that stays in its transaction, when others' patience with its lock ends, then
    their group is of unknown outcome; nothing of it is written, and the next transaction works.
    """
    paused(got(DedupWindow, "w"))
    replies = ours.transact_many([put(a_window("a")), wanting(got(DedupWindow, "w"), windows=("w",))])

    assert [StoreUnavailable] * 2 == [type(reply) for reply in replies]
    assert "lock timeout" in str(replies[0])
    assert [] == everything(ours)["DedupWindow"]
    assert None is ours.transact(put(a_window("a")))
