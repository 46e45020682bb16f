"""
B05: one bad row, or one exception, stops neither the loop nor the rest of its batch.
"""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from kit.builders import a_request
from kit.runtimes import PRINCIPAL, a_document
from kit.waiting import WHILE, until
from uns import ChannelResult

ACK_SECONDS = 900


class Moody:
    """
    A channel that does with each notification what its title says.
    """

    def __init__(self):
        self.sent = []

    async def send(self, message):
        match message.notification.title:
            case "KeyError":
                raise KeyError("room")
            case "TimeoutError":
                raise TimeoutError
            case "None":
                return None
            case "unprintable":
                raise Unprintable
        self.sent.append(message.notification.title)
        return ChannelResult(True)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not even that")


@pytest.fixture
def channel():
    return Moody()


@pytest.fixture
def told():
    return []


@pytest.fixture
def runtime(open_runtime, in_force, channel, told):
    async def callback(event):
        told.append(event["kind"])

    runtime = open_runtime({"PAGER": channel}, callback=callback, max_attempts=1)
    in_force(
        runtime,
        a_document(),
        a_document("asks", notification_type="ask.*", require_ack=True, ack_timeout_minutes=15),
    )
    return runtime


@pytest.fixture
def spoil(tmp_path):
    """
    Overwrites one column of one row behind the service's back.
    """

    def spoil(id, column, value, table="uns_notifications"):
        with closing(sqlite3.connect(tmp_path / "uns.db")) as connection, connection:
            assert 1 == connection.execute(f"UPDATE {table} SET {column}=? WHERE id=?", (value, id)).rowcount

    return spoil


@pytest.fixture
def ten(runtime, clock, spoil):
    """
    Ten pending notifications, three of them bad, an overdue answer and a callback that is due.
    """
    ask, other = (
        asyncio.run(runtime.send(a_request(notification_type="ask.me"), principal=PRINCIPAL)).notification_id
        for _ in range(2)
    )
    runtime.acknowledge(other, actor="ann")
    clock.advance(ACK_SECONDS)
    titles = {2: "KeyError", 3: "TimeoutError"}
    ids = [
        str(runtime.accept(a_request(title=titles.get(n, "good")), principal=PRINCIPAL).notification_id)
        for n in range(10)
    ]
    spoil(ids[4], "notification", "{}")
    return {"ids": ids, "ask": ask, "bad": ids[2:5]}


async def settled(runtime, ids):
    await until(lambda: all(runtime.get(id)["status"] != "PENDING" for id in ids))


def outcomes(runtime, ids):
    return [(runtime.get(id)["status"], runtime.get(id)["outcome"]["error_message"]) for id in ids]


async def test_the_worker_gets_everything_else_done(runtime, ten, told):
    """
    B05: given ten notifications of which two raise and one is spoilt, an overdue answer and a due
    callback, when a worker runs, then all else goes through and the worker is well.
    """
    worker = runtime.new_worker()
    at_work = asyncio.ensure_future(worker.run(asyncio.Event()))
    await settled(runtime, ten["ids"])
    await until(lambda: len(told) == 2)
    assert worker.healthy(asyncio.get_running_loop().time())
    assert not at_work.done()
    at_work.cancel()
    await asyncio.wait({at_work})

    good = [id for id in ten["ids"] if id not in ten["bad"]]
    assert [("DELIVERED", None)] * 7 == outcomes(runtime, good)
    assert {"ACKED", "TIMED_OUT"} == set(told)
    assert "TIMED_OUT" == runtime.get(ten["ask"])["ack_status"]


async def test_what_is_bad_is_parked_with_its_reason(runtime, ten, clock):
    """
    B05: given two adapters that raise and one spoilt row, when they were attempted, then each is
    a dead letter that says why, and none of them comes back.
    """
    await runtime.run_once()
    spoilt = "PAGER: unreadable notification: Object missing required field `id`"
    failed = ["PAGER: KeyError: 'room'", "PAGER: TimeoutError: ", spoilt]
    assert [("FAILED", reason) for reason in failed] == outcomes(runtime, ten["bad"])
    clock.advance(86_400)
    assert 0 == await runtime.run_once()

    assert ten["bad"] == [letter["id"] for letter in runtime.dead_letters()]
    assert [1, 1, 1] == [letter["attempts"] for letter in runtime.dead_letters()]


SPOILT = [
    ("notification", "{}"),
    ("notification", "{"),
    ("notification", "[1]"),
    ("notification", "null"),
    ("notification", ""),
    ("effective", "{}"),
    ("effective", "{"),
    ("effective", "null"),
    ("effective", ""),
    ("effective", b"\xff"),
]


@pytest.mark.parametrize("face", ["run_once", "dispatch", "worker"])
@pytest.mark.parametrize(("column", "value"), SPOILT)
async def test_a_spoilt_row_holds_nobody_up(column, value, face, runtime, spoil, channel):
    """
    B05: given a row whose JSON somebody spoilt, when its batch is claimed, then the others are
    delivered, it ends as a dead letter with a reason, and it is listed and shown like any other.
    """
    before, bad, after = (
        str(runtime.accept(a_request(title=title), principal=PRINCIPAL).notification_id)
        for title in ("before", "bad", "after")
    )
    spoil(bad, column, value)
    await by(face, runtime, (before, bad, after))

    assert ["after", "before"] == sorted(channel.sent)
    assert ["DELIVERED", "DELIVERED"] == [runtime.get(id)["status"] for id in (before, after)]
    assert "FAILED" == runtime.get(bad)["status"]
    assert "read" in runtime.get(bad)["outcome"]["error_message"]
    assert [bad] == [letter["id"] for letter in runtime.dead_letters()]
    assert "DELIVERY_RESULT" == runtime.events(bad)[-1]["kind"]
    assert runtime.response(bad).notification_id


@pytest.mark.parametrize("face", ["run_once", "dispatch", "worker"])
@pytest.mark.parametrize(
    ("column", "value"),
    [("outcome", "{"), ("outcome", "[]"), ("intent", "FOO"), ("autonomy_mode", ""), ("policy_id", "?")],
)
async def test_what_delivery_does_not_need_does_not_hinder_it(column, value, face, runtime, spoil, channel):
    """
    B05: given a row of which something was spoilt that sending does not depend on, when its batch
    is claimed, then it is delivered with the others.
    """
    ids = [str(runtime.accept(a_request(), principal=PRINCIPAL).notification_id) for _ in range(3)]
    spoil(ids[1], column, value)
    await by(face, runtime, ids)

    assert ["DELIVERED"] * 3 == [runtime.get(id)["status"] for id in ids]


async def by(face, runtime, ids):
    """
    Attempt what is due by one of the faces.
    """
    match face:
        case "run_once":
            await runtime.run_once()
        case "dispatch":
            await asyncio.gather(*(runtime.dispatch(id) for id in ids))
        case "worker":
            at_work = asyncio.ensure_future(runtime.worker())
            await settled(runtime, ids)
            at_work.cancel()
            await asyncio.wait({at_work})


@pytest.mark.parametrize("column", ["effective", "outcome", "notification"])
async def test_a_spoilt_row_does_not_stop_the_sweep(column, runtime, clock, spoil, told):
    """
    B05: given an overdue answer whose row was spoilt, among others, when the deadlines are swept,
    then each of them is timed out and called back.
    """
    asks = [
        str((await runtime.send(a_request(notification_type="ask.me"), principal=PRINCIPAL)).notification_id)
        for _ in range(3)
    ]
    spoil(asks[0], column, "{")
    clock.advance(ACK_SECONDS)
    runtime.expire()
    await runtime.deliver_callbacks()

    assert ["TIMED_OUT"] * 3 == [runtime.get(id)["ack_status"] for id in asks]
    assert ["TIMED_OUT"] * 3 == told


async def test_a_spoilt_leader_does_not_take_its_followers_along(runtime, in_force, spoil):
    """
    B05: given a leader whose settings were spoilt and a follower behind it, when it has failed,
    then the follower inherits and is delivered.
    """
    in_force(runtime, a_document(dedup_window_seconds=300))
    leader, follower = (
        str(runtime.accept(a_request(), principal=PRINCIPAL).notification_id) for _ in range(2)
    )
    spoil(leader, "effective", "{")
    await runtime.run_once()
    await runtime.run_once()

    assert ["FAILED", "DELIVERED"] == [runtime.get(id)["status"] for id in (leader, follower)]


async def test_a_spoilt_event_does_not_stop_the_callbacks(runtime, spoil, told):
    """
    B05: given a due callback whose payload was spoilt, among others, when callbacks are delivered,
    then the others are, and it fails three times and then waits for an operator.
    """
    for _ in range(3):
        sent = await runtime.send(a_request(notification_type="ask.me"), principal=PRINCIPAL)
        runtime.acknowledge(sent.notification_id, actor="ann")
    bad = runtime.events(sent.notification_id)[-1]
    spoil(bad["id"], "payload", "{", table="uns_events")
    await runtime.deliver_callbacks()

    assert ["ACKED", "ACKED"] == told
    assert {"unreadable": "Input data was truncated"} == runtime.events(sent.notification_id)[-1]["payload"]
    assert runtime.events(sent.notification_id)[-1]["callback_error"].startswith("DecodeError")


@pytest.mark.parametrize("title", ["KeyError", "TimeoutError", "None", "unprintable"])
async def test_whatever_an_adapter_does_is_a_failed_attempt(title, runtime):
    """
    B05: given an adapter that raises or returns nonsense, when it is called, then the attempt
    failed, with a reason.
    """
    sent = await runtime.send(a_request(title=title), principal=PRINCIPAL)

    assert "FAILED" == sent.status
    assert runtime.get(sent.notification_id)["outcome"]["error_message"].startswith("PAGER: ")


async def test_a_row_the_database_will_not_settle_is_told_last(runtime, ten, tmp_path):
    """
    B05: given one row that the database refuses to settle, when a round is run, then everything
    else of it is done before the refusal is raised.
    """
    poisoned = ten["ids"][0]
    with closing(sqlite3.connect(tmp_path / "uns.db")) as connection, connection:
        connection.execute(
            "CREATE TRIGGER no BEFORE UPDATE OF status ON uns_notifications "
            f"WHEN new.id = '{poisoned}' BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    with pytest.raises(Exception, match="no") as refused:
        await runtime.run_once()

    assert "store_refused" == refused.value.code
    assert "PENDING" == runtime.get(poisoned)["status"]
    assert ["DELIVERED"] * 6 == [runtime.get(id)["status"] for id in ten["ids"][1:] if id not in ten["bad"]]
    assert "TIMED_OUT" == runtime.get(ten["ask"])["ack_status"]


async def test_a_loop_that_dies_is_seen(runtime):
    """
    B05: given a worker whose runtime is closed under it, when its loops have nothing to work on
    any more, then it ends with an error and is not healthy.
    """
    worker = runtime.new_worker()
    at_work = asyncio.ensure_future(worker.run(asyncio.Event()))
    await asyncio.sleep(0)
    runtime.close()
    await asyncio.wait({at_work}, timeout=WHILE)

    assert "closed" == at_work.exception().code
    assert not worker.healthy(asyncio.get_running_loop().time())
