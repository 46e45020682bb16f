"""
PostgreSQL's faults: sided against, cut off, gone while nobody looked; and sessions that are only lent.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from kit.builders import NOW, a_notification
from kit.plans import applied, asked, got, put
from kit.rows import a_copy, a_window, an_event
from kit.servers import postgres_database
from kit.stores import everything, postgres_ledger
from uns.adapters.sources import ManualClock
from uns.adapters.sql.postgres import SESSION, Plans, postgres_engine
from uns.adapters.sql.store import SqlStore
from uns.ports.decision import Decision, Signal, SignalKind
from uns.ports.errors import StoreRefused, StoreUnavailable
from uns.ports.queries import CopiesOf, DedupKeyOf, LineOf, WithKey
from uns.ports.rows import Copy, DedupWindow, Event, Notification
from uns.ports.store import Plan, Wants

TRIES = 5
PATIENCE = 10.0


@pytest.fixture
def url():
    with postgres_ledger() as url:
        yield url


@pytest.fixture
def signals():
    return []


@pytest.fixture
def store(url, signals):
    with closing(SqlStore(postgres_engine(url), ManualClock(NOW), publish=signals.extend)) as store:
        yield store


@pytest.fixture
def admin(url):
    """
    Another session on the same database.
    """
    with closing(psycopg.connect(url.replace("+psycopg", ""), autocommit=True)) as connection:
        yield connection


def failing(error, times):
    """
    A plan under which the database fails so many times.
    """
    runs = []

    def run(tx):
        runs.append(tx.now)
        tx.apply(Decision(None, signals=(Signal(SignalKind.DUE, "n1"),)))
        put(a_window("p")).run(tx)
        if len(runs) <= times:
            raise error

    return Plan(run), runs


SIDED_AGAINST = [psycopg.errors.DeadlockDetected("deadlock"), psycopg.errors.SerializationFailure("again")]


@pytest.mark.parametrize("error", SIDED_AGAINST, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("times", [1, TRIES - 1])
def test_who_was_sided_against_runs_again(store, signals, error, times):
    """
    Given a deadlock that the database ends at our expense, then the group is run again, and commits.
    """
    plan, runs = failing(error, times)

    assert [None] * 3 == store.transact_many([put(a_window("a")), plan, put(a_window("b"))])
    assert times + 1 == len(runs)
    assert ["a", "b", "p"] == [window.key for window in everything(store)["DedupWindow"]]
    assert 1 == len(signals)


@pytest.mark.parametrize("error", SIDED_AGAINST, ids=lambda error: type(error).__name__)
def test_who_is_always_sided_against_fails_alone(store, signals, error):
    """
    Given a plan that the database never sides with, then it is given up and its neighbours commit.
    """
    plan, _ = failing(error, 1000)
    before, failed, after = store.transact_many([put(a_window("a")), plan, put(a_window("b"))])

    assert (None, None) == (before, after)
    assert isinstance(failed, StoreUnavailable)
    assert ["a", "b"] == [window.key for window in everything(store)["DedupWindow"]]
    assert [] == signals


def terminate(admin):
    """
    End all other sessions on this database.
    """
    admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_a_session_that_ends_in_mid_transaction_leaves_nothing(store, admin, signals):
    """
    Given a session that is ended while its group runs, then each of the group is of unknown outcome,
    nothing is written, nothing is told, and the next group works in a new session.
    """
    store.transact(put(a_window("before")))
    told = applied(Decision(None, signals=(Signal(SignalKind.DUE, "n1"),)))
    replies = store.transact_many([put(a_window("a")), told, Plan(lambda _: terminate(admin))])

    assert [StoreUnavailable] * 3 == [type(reply) for reply in replies]
    assert [] == signals
    assert None is store.transact(put(a_window("after")))
    assert ["after", "before"] == [window.key for window in everything(store)["DedupWindow"]]


CUT_OFF = """
    CREATE FUNCTION cut_off() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER cut_off AFTER INSERT ON uns_dedup DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.key = 'cut') EXECUTE FUNCTION cut_off();
"""


@pytest.fixture
def cut_off(admin):
    """
    A database that ends the session of whoever commits the window ``cut``.
    """
    admin.execute(CUT_OFF)
    yield
    admin.execute("DROP FUNCTION cut_off CASCADE")


def test_a_session_that_ends_in_its_commit_fails_the_whole_group(store, cut_off, signals):
    """
    Given a session that is ended by its COMMIT, then each of the group is of unknown outcome, none is
    run a second time by itself, and the next group works.
    """
    plan, runs = failing(ValueError(), 0)
    replies = store.transact_many([plan, put(a_window("cut"))])

    assert [StoreUnavailable] * 2 == [type(reply) for reply in replies]
    assert 1 == len(runs)
    assert [] == signals
    assert None is store.transact(put(a_window("after")))
    assert ["after"] == [window.key for window in everything(store)["DedupWindow"]]


def test_a_read_does_not_hear_that_idle_sessions_have_ended(store, admin):
    """
    Given sessions that lay idle while the server ended them, when somebody reads, again and again,
    then the first answer is as good as the later ones.
    """
    store.transact(put(a_window("a")))
    with ThreadPoolExecutor(3) as threads:  # so that there are several
        meet = threading.Barrier(3)
        list(threads.map(lambda _: store.read(Plan(lambda _: meet.wait(PATIENCE))), range(3)))
    terminate(admin)

    assert [a_window("a")] * 4 == [store.read(got(DedupWindow, "a")) for _ in range(4)]


def test_a_read_that_fails_for_good_is_told(store, admin):
    """
    Given a table that is gone, when somebody reads, then that is one clear sentence.
    """
    admin.execute("ALTER TABLE uns_dedup RENAME TO elsewhere")
    try:
        with pytest.raises(StoreUnavailable, match=r'^the database \w+ does not answer: .*"uns_dedup"'):
            store.read(got(DedupWindow, "a"))
    finally:
        admin.execute("ALTER TABLE elsewhere RENAME TO uns_dedup")

    assert None is store.read(got(DedupWindow, "a"))


def test_a_statement_that_takes_too_long_is_ended(store):
    """
    Given a statement beyond the time for one, then the group is of unknown outcome at once.
    """

    def slow(tx):
        tx._group._cursor.execute("SET LOCAL statement_timeout = '50ms'")
        tx._group._cursor.execute("SELECT pg_sleep(5)")

    replies = store.transact_many([put(a_window("a")), Plan(slow)])

    assert [StoreUnavailable] * 2 == [type(reply) for reply in replies]
    assert "statement timeout" in str(replies[1])


# Values that PostgreSQL does not take

NUL = "a\0b"
UNSTORABLE = {
    "a key": put(a_window(NUL)),
    "a body": put(a_notification(body=NUL)),
    "an event": put(an_event(payload=NUL)),
    "a reference": put(a_copy(ref=NUL)),
    "a long id": put(a_notification("n" * 37)),
    "a long number": put(a_window(generation=2**31)),
    "no such status": put(a_notification(status="LOST")),
    "no instant": put(a_notification(next_attempt=float("nan"))),
}


@pytest.mark.parametrize("plan", UNSTORABLE.values(), ids=UNSTORABLE)
def test_what_cannot_be_stored_is_refused_alone(store, plan):
    """
    Given values that do not go into their columns, then their plan is refused and its neighbours commit.
    """
    before, refused, after = store.transact_many([put(a_window("a")), plan, put(a_window("b"))])

    assert (None, None) == (before, after)
    assert isinstance(refused, StoreRefused)
    assert ["a", "b"] == [window.key for window in everything(store)["DedupWindow"]]


LOOKING = {
    "a notification": (got(Notification, NUL), None),
    "a window": (got(DedupWindow, NUL), None),
    "an event": (got(Event, NUL), None),
    "a copy": (got(Copy, f"{NUL}/X"), None),
    "a key": (asked(WithKey(NUL)), []),
    "a dedup key": (asked(DedupKeyOf(NUL)), []),
    "copies": (asked(CopiesOf(NUL)), []),
    "a line": (asked(LineOf(NUL)), []),
}
WANTS = Wants(windows=(NUL,), keys=(NUL,), rows=(NUL,), groups=(NUL,), copies=(NUL,))


@pytest.mark.parametrize(("plan", "found"), LOOKING.values(), ids=LOOKING)
def test_what_cannot_be_stored_is_not_found(store, plan, found):
    """
    When somebody looks for what cannot be there, then it is not there, as on SQLite.
    """
    assert found == store.transact(plan)
    assert found == store.read(plan)
    assert found == store.transact(Plan(plan.run, WANTS))


# Sessions

EVERY = ", ".join(f"current_setting('{name}')" for name in SESSION)
USED = "SELECT count(*) FROM pg_prepared_statements"


def told_by(question):
    """
    What the database answers to a question of ours within a transaction.
    """

    def run(tx):
        tx._group._cursor.execute(question)
        return tx._group._cursor.fetchone()

    return Plan(run)


@pytest.mark.parametrize("prepare", [True, False], ids=["ours", "lent"])
def test_every_transaction_is_set_up_alike(url, prepare):
    """
    Whether sessions are ours or lent, a writer's locks and statements have their time limits.
    """
    with closing(SqlStore(postgres_engine(url, prepare=prepare), ManualClock(NOW))) as store:
        assert tuple(SESSION.values()) == store.transact(told_by(f"SELECT {EVERY}"))
        assert "force_custom_plan" == store.read(told_by("SHOW plan_cache_mode"))[0]
        assert "10s" == store.read(told_by("SHOW statement_timeout"))[0]


def test_a_lent_session_is_given_back_as_it_was(url):
    """
    Given a proxy that lends each transaction a session, then a transaction leaves nothing in it.
    """
    engine = postgres_engine(url, prepare=False)
    with closing(SqlStore(engine, ManualClock(NOW))) as store:
        for n in range(7):
            store.transact(put(a_window(f"w{n}"), a_notification(f"n{n}")))
            store.read(got(DedupWindow, f"w{n}"))
        store.transact(told_by("SELECT 1"))
        cursor = store._writer.driver_connection.cursor()

        assert (0,) == cursor.execute(USED).fetchone()
        assert ("0",) == cursor.execute("SHOW lock_timeout").fetchone()
        assert ("on",) == cursor.execute("SHOW enable_seqscan").fetchone()


def test_a_session_of_ours_keeps_its_statements(store):
    """
    Given sessions that are ours, then a statement is prepared once and run many times.
    """
    for n in range(7):
        store.transact(put(a_window(f"w{n}")))
    first = store.transact(told_by(USED))
    for n in range(7):
        store.transact(put(a_window(f"v{n}")))

    assert 0 < first[0] <= store.transact(told_by(USED))[0] <= first[0] + 1


def test_plans_are_made_anew_as_tables_grow(monkeypatch):
    """
    Plans are outdated after 1, 2, 4, 8... transactions, each 1024th, and each one that comes 10 s after
    they were made.
    """
    now = [0.0]
    monkeypatch.setattr("uns.adapters.sql.postgres.time.monotonic", lambda: now[0])
    plans = Plans()
    outdated = [n for n in range(1, 4097) if plans.outdated()]
    now[0] = 9.999
    early = plans.outdated()
    now[0] = 10.0
    late, again = plans.outdated(), plans.outdated()

    assert [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096] == outdated
    assert (False, True, False) == (early, late, again)


def test_a_database_of_another_encoding_is_refused():
    """
    What cannot hold every text is refused before anything is written to it.
    """
    with postgres_database(encoding="SQL_ASCII") as url:
        engine = postgres_engine(url)
        with pytest.raises(StoreUnavailable, match="holds text as SQL_ASCII: make one with ENCODING 'UTF8'"):
            engine.connect()
        engine.dispose()


def test_a_host_that_sets_an_option_is_heard(url):
    """
    What a URL says of a session goes before what is usual.
    """
    engine = postgres_engine(f"{url}?options=-c%20lock_timeout%3D5s&application_name=ours")
    with engine.connect() as connection:
        assert "5s" == connection.exec_driver_sql("SHOW lock_timeout").scalar_one()
        assert "10s" == connection.exec_driver_sql("SHOW statement_timeout").scalar_one()
        assert "ours" == connection.exec_driver_sql("SHOW application_name").scalar_one()
    engine.dispose()
