"""
Alive is one question, able to work another.
"""

import asyncio
import time

import pytest

from kit.channels import ScriptedChannel
from kit.runtimes import a_document
from kit.waiting import until
from kit.web import OBSERVER
from uns.core.loops.worker import Worker
from uns.entrypoints.http import probes
from uns.ports.errors import StoreUnavailable

READY = {"database": "ok", "worker": "ok", "channels": "ok"}


async def checks(web, path="/ready"):
    """
    Status, and the state of each part.
    """
    answer = await web.get(path, key=OBSERVER)
    fit = answer.status == 200
    assert ({True: "ready", False: "not_ready"}[fit]) == answer.json["status"]
    return answer.status, answer.json["checks"]


def broken(error):
    def fails(*_):
        raise error

    return fails


@pytest.mark.parametrize("path", ["/health", "/healthz"])
async def test_alive_without_a_database(web, monkeypatch, path):
    """
    Public, and nothing is asked but whether somebody answers.
    """
    monkeypatch.setattr(web.container.ledger().store, "read", broken(StoreUnavailable()))
    answer = await web.get(path, key=None)

    assert (200, {"status": "ok"}) == (answer.status, answer.json)


async def test_alive_while_every_thread_is_busy(serving):
    """
    Given that all threads of the service wait, then liveness is answered at once.
    """
    async with serving() as web:
        hold = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait():
            asyncio.run_coroutine_threadsafe(hold.wait(), loop).result()

        busy = [asyncio.ensure_future(asyncio.to_thread(wait)) for _ in range(40)]
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        answer = await web.get("/health", key=None)
        took = time.monotonic() - begun
        hold.set()
        await asyncio.gather(*busy)

    assert (200, True) == (answer.status, took < 1)


@pytest.mark.parametrize("path", ["/ready", "/readyz"])
async def test_ready(serving, path):
    """
    The database answers, every loop goes round, every channel is there.
    """
    async with serving(work=True) as web:
        await until(lambda: web.worker.healthy(asyncio.get_running_loop().time()))

        assert (200, READY) == await checks(web, path)


@pytest.fixture
def elsewhere(open_runtime, in_force):
    """
    Puts a policy in force whose channels are those of another process.
    """
    other = open_runtime({"SLACK": ScriptedChannel(), "PAGERDUTY": ScriptedChannel()})
    channels = {"primary": ["SLACK"], "fallback": ["PAGERDUTY"]}
    return lambda: in_force(other, a_document(channels=channels))


async def test_without_a_worker_only_the_database_counts(serving, elsewhere):
    """
    Somebody else sends, with channels of their own.
    """
    async with serving() as web:
        elsewhere()

        assert (200, {"database": "ok"}) == await checks(web)


async def test_a_database_that_does_not_answer(serving, monkeypatch):
    """
    503 that says so in a sentence; ready again once it answers.
    """
    async with serving(work=True) as web:
        store = web.container.ledger().store
        with monkeypatch.context() as patched:
            patched.setattr(store, "read", broken(StoreUnavailable("the database is on holiday")))
            status, found = await checks(web)
        await until(lambda: web.worker.healthy(asyncio.get_running_loop().time()))
        again = await checks(web)

    assert (503, "the database is on holiday") == (status, found["database"])
    assert (200, READY) == again


async def test_a_database_that_hangs(serving, monkeypatch):
    """
    503 within the patience of a probe.
    """
    monkeypatch.setattr(probes, "PATIENCE_SECONDS", 0.1)
    async with serving() as web:
        monkeypatch.setattr(web.container.ledger().store, "read", lambda _: time.sleep(0.5))
        begun = time.monotonic()
        status, found = await checks(web)

    assert (503, "no answer within 0.1 s") == (status, found["database"])
    assert time.monotonic() - begun < 3


async def test_a_channel_in_force_that_is_not_set_up(serving, in_force, elsewhere):
    """
    Given policies that name channels nobody set up here, then 503 names them, until a policy without
    them is in force.
    """
    async with serving(work=True) as web:
        elsewhere()
        await until(lambda: web.worker.healthy(asyncio.get_running_loop().time()))
        status, found = await checks(web)
        in_force(web.runtime, a_document())
        again = await checks(web)

    assert (503, "not set up here: PAGERDUTY, SLACK") == (status, found["channels"])
    assert (200, READY) == again


@pytest.mark.parametrize("loop", [0, 1])
async def test_a_loop_that_is_stuck_or_dead(serving, loop):
    """
    Given a loop that has not come round for a minute, or that ended, then 503, and 200 once it does.
    """
    async with serving(work=True, settings={"worker_poll_seconds": 600.0}) as web:
        await until(lambda: web.worker.healthy(asyncio.get_running_loop().time()))
        beat = web.worker.beats[loop]
        last = beat.last_round
        for name, value in (("last_round", last - 61), ("alive", False)):
            before = getattr(beat, name)
            setattr(beat, name, value)
            status, found = await checks(web)
            setattr(beat, name, before)

            assert (503, "a loop is dead or stuck") == (status, found["worker"])
        assert (200, READY) == await checks(web)


async def test_a_worker_that_ended_is_logged_and_the_doors_stay_open(serving, monkeypatch, caplog):
    """
    Given a worker that dies of something unforeseen, then the log has its stack, readiness is false,
    and requests are still taken.
    """

    async def dies(*_):
        raise KeyError("unforeseen")

    monkeypatch.setattr(Worker, "run", dies)
    async with serving(work=True) as web:
        await asyncio.sleep(0.01)
        status, found = await checks(web)
        id = await web.sent()

    assert (503, "a loop is dead or stuck") == (status, found["worker"])
    assert id
    (record,) = [record for record in caplog.records if record.message == "the worker has ended"]
    assert record.exc_info[0] is KeyError
