"""
A ``Runtime`` whose disk fills up: it says so, writes nothing by halves, and goes on once there is room.
"""

import asyncio
import sqlite3
import threading
from contextlib import ExitStack, closing

import pytest
import sqlalchemy as sa

from kit.builders import a_request
from kit.children import outgrows_its_limit
from kit.processes import result_of
from kit.runtimes import LEASE_SECONDS, PRINCIPAL, a_document, kinds_of
from kit.waiting import until
from uns import ChannelResult, Runtime, SimpleAdapterRegistry, StoreUnavailable
from uns.entrypoints.wiring import Options, open_ledger

LONG = "a" * 60_000
PATIENCE_SECONDS = 0.2


class Disk:
    """
    How much room every SQLite connection of this process has.
    """

    def __init__(self):
        self.connections = []

    def add(self, connection, _record):
        self.connections.append(connection)

    def fill(self):
        """
        From now on no database can grow.
        """
        for connection in self.connections:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages}")

    def clear(self):
        for connection in self.connections:
            connection.execute("PRAGMA max_page_count=1000000")

    def clear_after(self, seconds):
        threading.Timer(seconds, self.clear).start()


@pytest.fixture
def disk():
    disk = Disk()
    sa.event.listen(sa.Pool, "connect", disk.add)
    yield disk
    sa.event.remove(sa.Pool, "connect", disk.add)


@pytest.fixture
def everything(tmp_path):
    """
    All rows of the database, table by table.
    """

    def everything():
        with closing(sqlite3.connect(tmp_path / "uns.db")) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {t: connection.execute(f'SELECT * FROM "{t}"').fetchall() for (t,) in tables}

    return everything


class Telling:
    """
    A channel that has much to tell, and may fill the disk before it does.
    """

    def __init__(self):
        self.calls = []
        self.before = lambda: None

    async def send(self, message):
        self.calls.append(message)
        self.before()
        return ChannelResult(True, metadata={"told": LONG})


@pytest.fixture
def channel():
    return Telling()


@pytest.fixture
def opened(url, disk, clock, in_force, channel):
    """
    Opens the runtime with so many seconds of patience.
    """
    with ExitStack() as stack:

        def opened(patience_seconds=PATIENCE_SECONDS):
            registry = SimpleAdapterRegistry({"PAGER": channel})
            options = Options(create_tables=True, clock=clock.now, patience_seconds=patience_seconds)
            runtime = Runtime.over(open_ledger(url, registry, options), registry)
            stack.enter_context(runtime)
            in_force(runtime, a_document(require_ack=True))
            runtime.accept(a_request(title="earlier"), principal=PRINCIPAL)
            return runtime

        yield opened


INTAKE = {
    "accept": lambda runtime, request: runtime.accept(request, principal=PRINCIPAL),
    "send": lambda runtime, request: asyncio.run(runtime.send(request, principal=PRINCIPAL)),
}


@pytest.mark.parametrize("intake", INTAKE.values(), ids=INTAKE)
def test_what_does_not_fit_is_not_accepted(intake, opened, disk, everything, channel, tmp_path):
    """
    Given a full disk, when a request is put in, then the error says which file cannot grow, nothing
    of it is stored or sent; and once there is room, it is accepted as the first of its key.
    """
    runtime, request = opened(), a_request(message=LONG, idempotency_key="k")
    before = everything()
    disk.fill()
    with pytest.raises(StoreUnavailable, match=f"{tmp_path / 'uns.db'} cannot grow") as refused:
        intake(runtime, request)

    assert ("store_unavailable", 503) == (refused.value.code, refused.value.status)
    assert before == everything()
    assert [] == channel.calls
    disk.clear()
    assert not intake(runtime, request).idempotent_replay
    assert intake(runtime, request).idempotent_replay


@pytest.mark.parametrize("intake", INTAKE.values(), ids=INTAKE)
def test_it_is_accepted_if_room_is_made_in_time(intake, opened, disk):
    """
    Given a full disk, when somebody makes room while a request is put in, then it is accepted.
    """
    runtime = opened(patience_seconds=5)
    disk.fill()
    disk.clear_after(0.1)

    assert not intake(runtime, a_request(message=LONG, idempotency_key="k")).idempotent_replay


def test_others_go_through_beside_it(opened, disk):
    """
    Given a full disk, when large and small requests come at once, then those that still fit are
    accepted or all are refused, and whatever was answered is stored.
    """
    runtime = opened()
    disk.fill()

    async def send_all():
        requests = [a_request(message=LONG if n % 2 else "short") for n in range(10)]
        sending = (runtime.send(request, principal=PRINCIPAL) for request in requests)
        return await asyncio.gather(*sending, return_exceptions=True)

    sent = [outcome for outcome in asyncio.run(send_all()) if not isinstance(outcome, StoreUnavailable)]

    assert [each.notification_id for each in sent] == [
        runtime.response(each.notification_id).notification_id for each in sent
    ]
    assert len(sent) < 10


FACES = {
    "dispatch": lambda runtime, id: asyncio.run(runtime.dispatch(id)),
    "run_once": lambda runtime, id: asyncio.run(runtime.run_once()),
}


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_an_outcome_that_does_not_fit_is_settled_later(face, opened, disk, clock, channel, everything):
    """
    Given a disk that fills up during a call, when its outcome cannot be settled, then nothing of it
    is written; and once there is room and the lease has run out, it is sent again with the same
    token, and settled.
    """
    runtime = opened()
    asyncio.run(runtime.run_once())
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    channel.calls.clear()
    channel.before = disk.fill
    with pytest.raises(StoreUnavailable, match="cannot grow"):
        face(runtime, id)
    assert ["ACCEPTED", "ATTEMPT_STARTED", "CHANNEL_ATTEMPT_STARTED"] == kinds_of(runtime, id)
    row = runtime.get(id)
    assert ("PENDING", [], 1) == (row["status"], row["outcome"]["channels_attempted"], row["attempts"])
    disk.clear()
    channel.before = lambda: None
    clock.advance(LEASE_SECONDS)
    face(runtime, id)

    assert ("DELIVERED", 2) == (runtime.get(id)["status"], runtime.get(id)["attempts"])
    assert 1 == len({call.idempotency_token for call in channel.calls})
    assert 2 == len(channel.calls)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_it_is_settled_at_once_if_room_is_made_in_time(face, opened, disk, channel):
    """
    Given a disk that fills up during a call, when somebody makes room soon, then the outcome is
    settled, and the channel was called once.
    """
    runtime = opened(patience_seconds=5)
    asyncio.run(runtime.run_once())
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    channel.calls.clear()

    def fill_for_a_moment():
        disk.fill()
        disk.clear_after(0.1)

    channel.before = fill_for_a_moment
    face(runtime, id)

    assert "DELIVERED" == runtime.get(id)["status"]
    assert 1 == len(channel.calls)


async def test_a_worker_outlives_it(opened, disk, clock, channel):
    """
    Given a worker whose disk fills up, when it could not settle, then it is still at work, and
    settles once there is room and the lease has run out.
    """
    runtime = opened()
    channel.before = disk.fill
    at_work = asyncio.ensure_future(runtime.worker())
    await until(lambda: channel.calls)
    await asyncio.sleep(2 * PATIENCE_SECONDS)
    assert not at_work.done()
    disk.clear()
    channel.before = lambda: None
    clock.advance(LEASE_SECONDS)
    await until(lambda: runtime.get(channel.calls[0].notification.id)["status"] == "DELIVERED")
    at_work.cancel()
    await asyncio.wait({at_work})


def test_an_answer_that_does_not_fit_is_not_given(opened, disk, everything):
    """
    Given a full disk, when an answer brings more than fits, then it is refused and the response
    stays open; and once there is room, it can be given.
    """
    runtime = opened()
    id = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).notification_id
    before = everything()
    disk.fill()
    with pytest.raises(StoreUnavailable, match="cannot grow"):
        runtime.acknowledge(id, actor="ann", metadata={"told": LONG})
    assert before == everything()
    assert "PENDING" == runtime.response(id).ack_status
    disk.clear()

    assert "ACKED" == runtime.acknowledge(id, actor="ann", metadata={"told": LONG}).ack_status


def test_reading_goes_on(opened, disk):
    """
    Given a full disk, when somebody looks, then everything is shown.
    """
    runtime = opened()
    id = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).notification_id
    disk.fill()

    assert "DELIVERED" == runtime.get(id)["status"]
    assert "ACCEPTED" == runtime.events(id)[0]["kind"]
    assert [] == runtime.dead_letters()
    assert "ops" == runtime.simulate(a_request(), principal=PRINCIPAL).policy_id


def test_a_real_write_that_fails(url, opened, everything):
    """
    Given a process whose files may not grow, when it accepts until that fails, then the error is
    one sentence, all that it was told is accepted is stored, and with more room it goes on.
    """
    opened().close()
    before = {row[0] for row in everything()["uns_notifications"]}
    told = result_of(outgrows_its_limit, url)

    stored = {row[0] for row in everything()["uns_notifications"]} - before
    assert set(told["accepted"]) == stored
    assert 1 <= len(told["accepted"])
    code, sentence = told["refused"]
    assert "store_unavailable" == code
    assert sentence.startswith("the database /")
    assert 1 == len(told["resumed"])
    assert set(told["resumed"]) <= stored
