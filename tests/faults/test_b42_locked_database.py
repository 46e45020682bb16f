"""
B42: a busy SQLite file is waited for; nobody hears of its locks.
"""

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from functools import partial

import pytest

from kit.builders import a_request
from kit.children import Fickle, Noted, live, noted
from kit.processes import children
from kit.runtimes import ON_BOTH, PRINCIPAL, a_document
from uns import Runtime, SimpleAdapterRegistry, StoreUnavailable
from uns.adapters.sql import databases
from uns.adapters.sql.sqlite import begin_immediate
from uns.entrypoints.wiring import Options, open_ledger

CLIENTS, TIMES = 4, 60


@ON_BOTH
def test_two_processes_under_load(url, open_runtime, in_force, tmp_path):
    """
    B42: given one database, when two processes accept, send, answer, replay and read at once, then no
    call meets a lock, every acceptance is there, and each was sent once.
    """
    notes, start = tmp_path / "notes", tmp_path / "start"
    runtime = open_runtime({"PAGER": Noted(notes), "FICKLE": Fickle(notes)}, clock=time.time)
    in_force(
        runtime,
        a_document(),
        a_document("asks", notification_type="ask.*", require_ack=True),
        a_document("fickle", notification_type="fickle.*", channels={"primary": ["FICKLE"]}),
    )
    adapters = {"PAGER": Noted(notes), "FICKLE": Fickle(notes)}
    arguments = (url, start, adapters, CLIENTS, TIMES)
    with children(live, arguments, arguments) as two:
        start.touch()
        accepted = [id for child in two for id in child.result()]

    assert 2 * CLIENTS * TIMES == len(set(accepted))
    assert Counter(accepted) == Counter(noted(notes))
    rows = [runtime.get(id) for id in accepted]
    assert {"DELIVERED"} == {row["status"] for row in rows}
    quarter = len(rows) // 4
    assert Counter({1: 3 * quarter, 2: quarter}) == Counter(row["attempts"] for row in rows)
    assert Counter({None: 3 * quarter, "ACKED": quarter}) == Counter(row["ack_status"] for row in rows)
    assert [] == runtime.dead_letters()


@pytest.fixture
def locked(tmp_path):
    """
    Holds the file's write lock for so many seconds, from another connection.
    """

    def locked(seconds):
        held = threading.Event()

        def hold():
            with closing(sqlite3.connect(tmp_path / "uns.db", isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                held.set()
                time.sleep(seconds)
                connection.execute("ROLLBACK")

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(5)
        return thread

    return locked


FACES = {
    "accept": lambda runtime, id: runtime.accept(a_request(), principal=PRINCIPAL),
    "send": lambda runtime, id: asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)),
    "dispatch": lambda runtime, id: asyncio.run(runtime.dispatch(id)),
    "run_once": lambda runtime, id: asyncio.run(runtime.run_once()),
    "expire": lambda runtime, id: runtime.expire(),
}


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_write_waits_for_the_lock(face, runtime, locked):
    """
    B42: given another process that holds the write lock for a while, when something is written,
    then it goes through once the lock is free.
    """
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    holder = locked(0.2)
    face(runtime, id)
    holder.join()


def test_so_does_a_runtime_that_opens(runtime, open_runtime, locked):
    """
    B42: given another process that holds the write lock for a while, when a runtime opens the
    database, then it opens.
    """
    holder = locked(0.2)
    assert [] == open_runtime().dead_letters()
    holder.join()


def test_a_lock_that_outlasts_all_patience_is_told(url, runtime, channel, locked, monkeypatch):
    """
    B42: given another process that never lets go of the lock, when a request is put in, then the
    error says that the database stayed locked, and the same request with the same key goes through
    once the lock is free.
    """
    monkeypatch.setattr(databases, "begin_immediate", partial(begin_immediate, patience_seconds=0.05))
    registry = SimpleAdapterRegistry({"PAGER": channel})
    request = a_request(idempotency_key="k")
    with Runtime.over(open_ledger(url, registry, Options(patience_seconds=0)), registry) as impatient:
        holder = locked(0.5)
        with pytest.raises(StoreUnavailable, match="stayed locked") as refused:
            impatient.accept(request, principal=PRINCIPAL)
        holder.join()

        assert ("store_unavailable", 503) == (refused.value.code, refused.value.status)
        assert not impatient.accept(request, principal=PRINCIPAL).idempotent_replay


READS = {
    "get": lambda runtime, id: runtime.get(id),
    "events": lambda runtime, id: runtime.events(id),
    "response": lambda runtime, id: runtime.response(id),
    "dead_letters": lambda runtime, id: runtime.dead_letters(),
    "simulate": lambda runtime, id: runtime.simulate(a_request(), principal=PRINCIPAL),
    "wait": lambda runtime, id: asyncio.run(runtime.wait(id, timeout=0)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_does_not_wait_for_it(read, runtime, locked):
    """
    B42: given another process that holds the write lock, when something is read, then the answer
    comes before the lock is free.
    """
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    holder = locked(0.3)
    read(runtime, id)
    assert holder.is_alive()
    holder.join()
