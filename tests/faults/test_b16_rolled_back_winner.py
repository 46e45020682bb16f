"""
B16: whoever loses the race for a dedup window never relies on a winner that was rolled back.
"""

import asyncio
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count

import psycopg
import pytest

from kit.builders import a_request
from kit.runtimes import ON_BOTH, PRINCIPAL, a_document
from uns.ports.errors import StoreRefused

MANY = 40


FAULTS = {
    "the row": ("uns_notifications", "new.notification LIKE '%poison%'"),
    "the event": (
        "uns_events",
        "new.kind = 'ACCEPTED' AND EXISTS (SELECT 1 FROM uns_notifications AS n"
        " WHERE n.id = new.notification_id AND n.notification LIKE '%poison%')",
    ),
    "the window": (
        "uns_dedup",
        "EXISTS (SELECT 1 FROM uns_notifications AS n"
        " WHERE n.id = new.owner_id AND n.notification LIKE '%poison%')",
    ),
}
TRIGGER = """
    CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF {1} THEN RAISE 'no'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER no {2} INSERT ON {0} FOR EACH ROW EXECUTE FUNCTION no();
"""


class Sqlite:
    """
    The file of a runtime, by another connection.
    """

    def __init__(self, url):
        self._connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        self.execute, self.close = self._connection.execute, self._connection.close

    def refuse(self, table, condition):
        then = "BEGIN SELECT RAISE(ABORT, 'no'); END"
        self.execute(f"CREATE TRIGGER no BEFORE INSERT ON {table} WHEN {condition} {then}")

    def mend(self):
        self.execute("DROP TRIGGER IF EXISTS no")


class Postgres:
    """
    The database of a runtime, by another session.
    """

    def __init__(self, url):
        self._connection = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)
        self.execute, self.close = self._connection.execute, self._connection.close

    def refuse(self, table, condition):
        # A window is written in no known order with its owner: looked at when all is there.
        when = "AFTER" if "EXISTS" in condition else "BEFORE"
        self.execute(TRIGGER.format(table, condition, when))

    def mend(self):
        self.execute("DROP FUNCTION IF EXISTS no CASCADE")


@pytest.fixture
def database(url):
    database = Sqlite(url) if url.startswith("sqlite") else Postgres(url)
    with closing(database):
        yield database
        database.mend()


@pytest.fixture(params=FAULTS.values(), ids=FAULTS)
def poisonous(request, runtime, in_force, database):
    """
    A runtime on a database that refuses a part of every poisoned acceptance, after its dedup step.
    """
    in_force(runtime, a_document(dedup_window_seconds=300))
    database.refuse(*request.param)
    return runtime


def requests():
    """
    Alternately poisoned and sound requests under one dedup key.
    """
    messages = ("poison", "sound")
    return [a_request(dedup_key="d", message=messages[n % 2], metadata={"n": n}) for n in range(MANY)]


def nothing_dangles(database):
    """
    Whether each owner, successor and window's owner is there, and each event's notification.
    """
    links = [
        "SELECT dedup_owner_id FROM uns_notifications",
        "SELECT dedup_successor_id FROM uns_notifications",
        "SELECT owner_id FROM uns_dedup",
        "SELECT notification_id FROM uns_events",
    ]
    ids = {id for (id,) in database.execute("SELECT id FROM uns_notifications")}
    return all(id is None or id in ids for link in links for (id,) in database.execute(link))


def leaders(database):
    """
    How many leaders each generation has.
    """
    found = database.execute("SELECT dedup_generation FROM uns_notifications WHERE dedup_owner_id IS NULL")
    return Counter(generation for (generation,) in found)


def answered(outcomes):
    """
    The replies among ``outcomes``: those of every sound request, and of what was not refused.
    """
    assert [] == [outcome for outcome in outcomes[1::2] if isinstance(outcome, Exception)]
    return [outcome for outcome in outcomes if not isinstance(outcome, StoreRefused)]


@ON_BOTH
async def test_sent_at_once_by_tasks(poisonous, database, channel):
    """
    B16: given a database that refuses every second acceptance, when 40 requests of one key are
    sent at once, in groups, then the sound ones stand behind one leader that exists and was sent.
    """
    outcomes = await asyncio.gather(
        *(poisonous.send(request, principal=PRINCIPAL) for request in requests()), return_exceptions=True
    )
    sent = answered(outcomes)

    assert isinstance(outcomes[0], StoreRefused)
    assert {"DELIVERED", "DEDUPLICATED"} == {poisonous.get(each.notification_id)["status"] for each in sent}
    assert {1: 1} == leaders(database)
    assert nothing_dangles(database)
    assert 1 == len(channel.calls)


@ON_BOTH
def test_accepted_at_once_by_threads(poisonous, database, channel):
    """
    B16: given the same, when 40 threads accept them, then each reply is of a row that exists, and a
    worker leaves none of them without an end.
    """

    def accept(request):
        try:
            return poisonous.accept(request, principal=PRINCIPAL)
        except StoreRefused as refusal:
            return refusal

    with ThreadPoolExecutor(MANY) as threads:
        accepted = answered(list(threads.map(accept, requests())))
    assert {1: 1} == leaders(database)
    assert nothing_dangles(database)
    while asyncio.run(poisonous.run_once()):
        pass

    rows = [poisonous.get(each.notification_id) for each in accepted]
    assert Counter(DELIVERED=1, DEDUPLICATED=len(rows) - 1) == Counter(row["status"] for row in rows)
    assert 1 == len(channel.calls)


@ON_BOTH
async def test_every_generation_has_one_leader(poisonous, database, clock):
    """
    B16: given windows that end, when each of five generations is begun by a poisoned request, then
    each has exactly one leader, and the numbers have no gap.
    """
    for _ in range(5):
        await asyncio.gather(
            *(poisonous.send(request, principal=PRINCIPAL) for request in requests()[:6]),
            return_exceptions=True,
        )
        clock.advance(300)

    assert {1: 1, 2: 1, 3: 1, 4: 1, 5: 1} == leaders(database)
    assert nothing_dangles(database)


@ON_BOTH
def test_a_refused_request_may_come_again(poisonous, database):
    """
    B16: given an acceptance that was refused, when the fault is mended and it comes again, then it
    is the first of its key and leads.
    """
    poisoned = a_request(dedup_key="d", message="poison", idempotency_key="k")
    with pytest.raises(StoreRefused):
        poisonous.accept(poisoned, principal=PRINCIPAL)
    assert [(0,), (0,), (0,)] == [
        database.execute(f"SELECT count(*) FROM {table}").fetchone()
        for table in ("uns_notifications", "uns_events", "uns_dedup")
    ]
    database.mend()
    again = poisonous.accept(poisoned, principal=PRINCIPAL)

    assert not again.idempotent_replay
    assert again.obligation_owner_id == again.notification_id


async def all_are_stored_and_one_is_sent(runtime, database, channel):
    """
    When 40 requests of one key are sent at once.
    """
    sent = await asyncio.gather(*(runtime.send(request, principal=PRINCIPAL) for request in requests()))

    assert MANY == len({each.notification_id for each in sent})
    assert [(MANY,)] == database.execute("SELECT count(*) FROM uns_notifications").fetchall()
    assert {1: 1} == leaders(database)
    assert nothing_dangles(database)
    assert 1 == len(channel.calls)


@pytest.mark.parametrize("steps", [1, 20, 400, 2000])
async def test_an_interrupted_group_costs_nobody_anything(steps, runtime, in_force, database, channel):
    """
    B16: given a database that is interrupted so many steps into every second group, its rollback
    included where that takes one, when 40 requests of one key are sent at once, then each of them
    is stored once and one of them was sent.
    """
    in_force(runtime, a_document(dedup_window_seconds=300))
    store, groups = runtime._ledger.store, count()
    begin = store._begin

    def begin_and_be_interrupted(*arguments):
        cursor = begin(*arguments)
        cursor.connection.set_progress_handler(None if next(groups) % 2 else lambda: 1, steps)
        return cursor

    store._begin = begin_and_be_interrupted
    await all_are_stored_and_one_is_sent(runtime, database, channel)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_killed_session_costs_nobody_anything(runtime, in_force, database, channel):
    """
    B16: given a session that is ended in every second group, when 40 requests of one key are sent at
    once, then each of them is stored once and one of them was sent.
    """
    in_force(runtime, a_document(dedup_window_seconds=300))
    store, groups = runtime._ledger.store, count()
    begin = store._begin

    def begin_and_be_killed(*arguments):
        cursor = begin(*arguments)
        if next(groups) % 2 == 0:
            database.execute("SELECT pg_terminate_backend(%s, 5000)", [cursor.connection.info.backend_pid])
        return cursor

    store._begin = begin_and_be_killed
    await all_are_stored_and_one_is_sent(runtime, database, channel)
