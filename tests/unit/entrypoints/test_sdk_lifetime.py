"""
The life of a ``Runtime``: threads, event loops and processes around it, its workers, and its end.
"""

import asyncio
import gc
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit.builders import a_request
from kit.channels import ScriptedChannel
from kit.children import answers_later
from kit.processes import Child
from kit.runtimes import PRINCIPAL, a_document
from kit.waiting import WHILE, until
from uns import ChannelResult, Conflict, StoreUnavailable
from uns.ports.errors import Closed

TESTS = Path(__file__).parents[2]

IN_BOTH = pytest.mark.parametrize("url", ["file", "memory"], indirect=True)


@pytest.fixture
def asking(runtime, in_force):
    """
    The runtime under a policy that needs answers.
    """
    in_force(runtime, a_document(require_ack=True))
    return runtime


def delivered(runtime):
    return asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).notification_id


@IN_BOTH
def test_one_runtime_serves_many_event_loops_in_a_row(asking, channel):
    """
    Given one runtime, when each of its async methods is run by an ``asyncio.run`` of its own,
    again and again, then all of them work.
    """
    for n in range(1, 6):
        sent = asyncio.run(asking.send(a_request(), principal=PRINCIPAL))
        accepted = asking.accept(a_request(), principal=PRINCIPAL)
        assert asyncio.run(asking.dispatch(accepted.notification_id)) is True
        asking.accept(a_request(), principal=PRINCIPAL)
        assert 1 == asyncio.run(asking.run_once())
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(asking.worker(), 0.01))
        asyncio.run(asking.deliver_callbacks())
        assert "PENDING" == asyncio.run(asking.wait(sent.notification_id, timeout=0)).effective_ack_status

        assert 3 * n == len(channel.calls)


@IN_BOTH
def test_event_loops_side_by_side_share_it(asking, channel):
    """
    Given eight threads with an event loop each, when all send through one runtime, then each gets
    its own answers.
    """

    async def send_ten(n):
        requests = [a_request(title=f"alert {n}.{m}") for m in range(10)]
        sent = await asyncio.gather(*(asking.send(request, principal=PRINCIPAL) for request in requests))
        return [asking.get(each.notification_id)["notification"]["title"] for each in sent]

    with ThreadPoolExecutor(8) as threads:
        titles = list(threads.map(lambda n: asyncio.run(send_ten(n)), range(8)))

    assert [[f"alert {n}.{m}" for m in range(10)] for n in range(8)] == titles
    assert 80 == len(channel.calls)


@IN_BOTH
def test_sync_methods_work_from_any_thread(asking):
    """
    Given many threads, when each accepts, reads, answers, sweeps and lists through one runtime,
    then none of them meets the others.
    """
    ids = [delivered(asking) for _ in range(24)]

    def live(id):
        accepted = asking.accept(a_request(), principal=PRINCIPAL)
        asking.simulate(a_request(), principal=PRINCIPAL)
        answer = asking.acknowledge(id, actor=f"ann-{id}")
        asking.expire()
        assert "PENDING" == asking.get(accepted.notification_id)["status"]
        assert ["ACCEPTED"] == [event["kind"] for event in asking.events(accepted.notification_id)]
        assert [] == asking.dead_letters()
        with pytest.raises(Conflict):
            asking.replay(id, actor="ann")
        return answer.acked_by == asking.get(id)["actor"] == f"ann-{id}"

    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(live, ids))


async def test_sync_methods_work_inside_an_event_loop(asking):
    """
    Given a running event loop, when sync methods are called within it, then they work.
    """
    accepted = asking.accept(a_request(), principal=PRINCIPAL)
    await asking.dispatch(accepted.notification_id)
    asking.acknowledge(accepted.notification_id, actor="ann")

    assert "ACKED" == asking.response(accepted.notification_id).ack_status


async def test_giving_up_on_a_send_leaves_it_to_a_worker(open_runtime, in_force, clock):
    """
    Given a caller that stops waiting for its send, when the lease has run out, then a worker sends
    it, and the runtime serves others meanwhile.
    """

    class Hangs:
        async def send(self, message):
            await asyncio.Event().wait()

    hanging = open_runtime({"PAGER": Hangs()})
    in_force(hanging, a_document())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hanging.send(a_request(idempotency_key="k"), principal=PRINCIPAL), 0.1)
    id = (await hanging.send(a_request(idempotency_key="k"), principal=PRINCIPAL)).notification_id
    assert "PENDING" == hanging.get(id)["status"]
    clock.advance(60)

    assert 1 == await open_runtime({"PAGER": ScriptedChannel()}).run_once()
    assert "DELIVERED" == hanging.get(id)["status"]


def test_an_event_loop_that_ends_early_takes_nobody_along(runtime):
    """
    Given callers whose event loops end while their plans are in the queue, when others come, then
    they are served.
    """

    async def leave():
        left = [asyncio.ensure_future(runtime.send(a_request(), principal=PRINCIPAL)) for _ in range(50)]
        await asyncio.wait(left, timeout=0)

    for _ in range(10):
        asyncio.run(leave())

    assert "DELIVERED" == runtime.get(delivered(runtime))["status"]


@IN_BOTH
@pytest.mark.parametrize("dismiss", [False, True])
async def test_waiting_ends_with_the_answer_of_another_thread(dismiss, asking):
    """
    Given somebody who waits, when another thread answers, then the wait ends at once, long before
    it would have looked again.
    """
    id = (await asking.send(a_request(), principal=PRINCIPAL)).notification_id
    waiting = asyncio.ensure_future(asking.wait(id))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    threading.Thread(
        target=asking.acknowledge, args=(id,), kwargs={"actor": "ann", "dismiss": dismiss}
    ).start()

    answered = await asyncio.wait_for(waiting, 0.9)
    assert ("DISMISSED" if dismiss else "ACKED") == answered.effective_ack_status


async def test_waiting_ends_with_the_answer_of_another_process(url, asking, clock):
    """
    Given somebody who waits, when another process answers, then the wait ends within about the
    second in which it looks again.
    """
    id = (await asking.send(a_request(), principal=PRINCIPAL)).notification_id
    waiting = asyncio.ensure_future(asking.wait(id))
    child = Child(answers_later, url, clock.now(), str(id), 0.1)

    assert "ACKED" == (await asyncio.wait_for(waiting, WHILE)).effective_ack_status
    assert child.result() == "ann"


async def test_waiting_ends_with_the_deadline(asking, clock):
    """
    Given somebody who waits, when nobody answers in time and the deadlines are swept, then the
    wait ends with that.
    """
    id = (await asking.send(a_request(), principal=PRINCIPAL)).notification_id
    waiting = asyncio.ensure_future(asking.wait(id))
    clock.set(asking.get(id)["deadline"])
    await asyncio.to_thread(asking.expire)

    assert "TIMED_OUT" == (await asyncio.wait_for(waiting, WHILE)).effective_ack_status


@pytest.mark.parametrize("seconds", [-1, 0, 0.1, 1.1])
async def test_waiting_ends_at_its_time_with_things_as_they_stand(seconds, asking):
    """
    Given nobody who answers, when the time to wait is over, then the response view comes as it is.
    """
    id = (await asking.send(a_request(), principal=PRINCIPAL)).notification_id
    began = time.monotonic()
    view = await asking.wait(id, timeout=seconds)

    assert ("PENDING", "PENDING", False) == (view.ack_status, view.effective_ack_status, view.ack_inherited)
    assert max(seconds, 0) <= time.monotonic() - began < max(seconds, 0) + 0.9


ENDED = ["answered", "in need of no answer", "withdrawn", "best effort that failed", "resolved"]


@pytest.mark.parametrize("what", ENDED)
async def test_waiting_for_what_can_never_come_ends_at_once(what, open_runtime, in_force):
    """
    Given an obligation that is over, when somebody waits for its answer without a limit, then the
    view comes at once.
    """
    succeeds = what in {"answered", "in need of no answer"}
    runtime = open_runtime({"PAGER": ScriptedChannel(succeeds)}, max_attempts=1)
    mode = "BEST_EFFORT" if what == "best effort that failed" else "GUARANTEED"
    in_force(runtime, a_document(require_ack=what != "in need of no answer", delivery_mode=mode))
    if what == "withdrawn":
        id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
        runtime.withdraw(id, actor="ann")
    else:
        id = (await runtime.send(a_request(), principal=PRINCIPAL)).notification_id
    if what == "answered":
        runtime.acknowledge(id, actor="ann")
    if what == "resolved":
        assert runtime.resolve_failure(id, actor="ann")

    view = await asyncio.wait_for(runtime.wait(id), 0.9)
    assert ("ACKED" if what == "answered" else None) == view.effective_ack_status


STILL_POSSIBLE = ["pending", "dead letter"]


@pytest.mark.parametrize("what", STILL_POSSIBLE)
async def test_waiting_goes_on_while_an_answer_may_still_come(what, open_runtime, in_force):
    """
    Given a notification that is not delivered yet, or a dead letter that may be replayed, when
    somebody waits, then the wait lasts until it is delivered and answered.
    """
    channel = ScriptedChannel(False, True)
    runtime = open_runtime({"PAGER": channel}, max_attempts=1, retry_seconds=0)
    in_force(runtime, a_document(require_ack=True, max_attempts=2 if what == "pending" else 1))
    id = (await runtime.send(a_request(), principal=PRINCIPAL)).notification_id
    waiting = asyncio.ensure_future(runtime.wait(id))
    if what == "dead letter":
        await asyncio.to_thread(runtime.replay, id, actor="ann")
    await runtime.run_once()
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await asyncio.to_thread(runtime.acknowledge, id, actor="ann")

    assert "ACKED" == (await asyncio.wait_for(waiting, 0.9)).effective_ack_status


async def test_a_follower_waits_for_its_owners_answer(asking, in_force):
    """
    Given a duplicate, when somebody waits for it and its owner is answered, then the wait ends with
    the owner's answer as inherited.
    """
    in_force(asking, a_document(require_ack=True, dedup_window_seconds=300))
    owner = (await asking.send(a_request(), principal=PRINCIPAL)).notification_id
    duplicate = (await asking.send(a_request(), principal=PRINCIPAL)).notification_id
    waiting = asyncio.ensure_future(asking.wait(duplicate))
    await asyncio.sleep(0.02)
    await asyncio.to_thread(asking.acknowledge, owner, actor="ann")

    view = await asyncio.wait_for(waiting, 0.9)
    assert (None, "ACKED", True, owner) == (
        view.ack_status,
        view.effective_ack_status,
        view.ack_inherited,
        view.obligation_owner_id,
    )


async def test_a_wait_may_be_given_up(asking):
    """
    Given somebody who waits without a limit, when the wait is cancelled, then it ends, and no
    listener is left behind.
    """
    id = (await asking.send(a_request(), principal=PRINCIPAL)).notification_id
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asking.wait(id), 0.05)
    asking.acknowledge(id, actor="ann")

    assert () == asking._ledger.pubsub._listeners


def test_a_worker_sends_what_others_accept(runtime, channel):
    """
    Given a worker that is idle, when another thread accepts a request, then it is sent at once,
    without waiting for the next poll.
    """

    async def work():
        at_work = asyncio.ensure_future(runtime.worker())
        await asyncio.sleep(0.05)
        await asyncio.to_thread(runtime.accept, a_request(), principal=PRINCIPAL)
        await until(lambda: channel.calls, 0.9)
        at_work.cancel()
        await asyncio.wait({at_work})
        return at_work.cancelled()

    assert asyncio.run(work())


def test_a_worker_sends_what_another_process_accepted(runtime, open_runtime, channel):
    """
    Given a worker that is idle, when another runtime accepts a request, then it is found by
    polling.
    """
    other = open_runtime()

    async def work():
        at_work = asyncio.ensure_future(runtime.worker())
        await asyncio.sleep(0.05)
        other.accept(a_request(), principal=PRINCIPAL)
        await until(lambda: channel.calls)
        at_work.cancel()
        await asyncio.wait({at_work})

    asyncio.run(work())


@pytest.mark.parametrize("face", ["dispatch", "run_once", "send"])
def test_what_needs_a_channel_that_is_not_here_is_left_to_others(face, runtime, open_runtime, channel):
    """
    Given a runtime without the adapter that a policy names, when it meets such a notification, then
    it accepts it, and attempts nothing; one that has the adapter sends it.
    """
    lacking = open_runtime()
    if face == "send":
        id = asyncio.run(lacking.send(a_request(), principal=PRINCIPAL)).notification_id
    else:
        id = lacking.accept(a_request(), principal=PRINCIPAL).notification_id
        arguments = (id,) if face == "dispatch" else ()
        assert not asyncio.run(getattr(lacking, face)(*arguments))
    assert ("PENDING", 0) == (lacking.get(id)["status"], lacking.get(id)["attempts"])

    assert 1 == asyncio.run(runtime.run_once())
    assert 1 == len(channel.calls)


async def test_a_worker_stops_when_told(runtime, channel):
    """
    Given a worker with a stop event, when it is set, then the worker ends without an error, soon,
    and can be started again.
    """
    for n in range(3):
        stop = asyncio.Event()
        at_work = asyncio.ensure_future(runtime.worker(stop))
        runtime.accept(a_request(), principal=PRINCIPAL)
        await until(lambda n=n: len(channel.calls) == n + 1)
        stop.set()

        assert await asyncio.wait_for(at_work, 0.9) is None


class Brief:
    """
    A channel that takes a moment.
    """

    def __init__(self):
        self.begun = 0
        self.done = 0

    async def send(self, message):
        self.begun += 1
        await asyncio.sleep(0.1)
        self.done += 1
        return ChannelResult(True)


@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_what_was_begun_is_finished(how, open_runtime, in_force):
    """
    Given calls in flight, when their worker is stopped or cancelled, then they are finished and
    settled before it ends.
    """
    channel = Brief()
    runtime = open_runtime({"PAGER": channel})
    in_force(runtime, a_document())
    ids = [runtime.accept(a_request(), principal=PRINCIPAL).notification_id for _ in range(5)]
    stop = asyncio.Event()
    at_work = asyncio.ensure_future(runtime.worker(stop))
    await until(lambda: channel.begun == 5)
    if how == "stopped":
        stop.set()
    else:
        at_work.cancel()
    await asyncio.wait({at_work}, timeout=WHILE)

    assert at_work.done()
    assert 5 == channel.done
    assert ["DELIVERED"] * 5 == [runtime.get(id)["status"] for id in ids]


@pytest.mark.parametrize("when", [0.0, 0.001, 0.02, 0.15])
@pytest.mark.parametrize("how", ["run", "loop"])
def test_a_cancelled_worker_leaves_no_task_behind(how, when, open_runtime, in_force, caplog):
    """
    Given a worker as a task, when it is cancelled at any moment and its event loop is closed, then
    no task is destroyed while pending, and no coroutine was never awaited.
    """

    async def callback(event):
        await asyncio.sleep(0.01)

    runtime = open_runtime({"PAGER": Brief()}, callback=callback)
    in_force(runtime, a_document(require_ack=True))
    runtime.acknowledge(delivered(runtime), actor="ann")
    for _ in range(3):
        runtime.accept(a_request(), principal=PRINCIPAL)

    async def work():
        at_work = asyncio.ensure_future(runtime.worker())
        await asyncio.sleep(when)
        at_work.cancel()
        await asyncio.wait({at_work})
        assert at_work.cancelled()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if how == "run":
            asyncio.run(work())
        else:
            loop = asyncio.new_event_loop()
            loop.run_until_complete(work())
            loop.close()
        gc.collect()

    assert [] == [str(warning.message) for warning in warned]
    assert [] == [record.getMessage() for record in caplog.records if record.name == "asyncio"]


CALLS = {
    "accept": lambda runtime, id: runtime.accept(a_request(), principal=PRINCIPAL),
    "send": lambda runtime, id: asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)),
    "simulate": lambda runtime, id: runtime.simulate(a_request(), principal=PRINCIPAL),
    "dispatch": lambda runtime, id: asyncio.run(runtime.dispatch(id)),
    "run_once": lambda runtime, id: asyncio.run(runtime.run_once()),
    "worker": lambda runtime, id: asyncio.run(asyncio.wait_for(runtime.worker(), WHILE)),
    "deliver_callbacks": lambda runtime, id: asyncio.run(runtime.deliver_callbacks()),
    "acknowledge": lambda runtime, id: runtime.acknowledge(id, actor="ann"),
    "withdraw": lambda runtime, id: runtime.withdraw(id, actor="ann"),
    "expire": lambda runtime, id: runtime.expire(),
    "wait": lambda runtime, id: asyncio.run(runtime.wait(id)),
    "replay": lambda runtime, id: runtime.replay(id, actor="ann"),
    "resolve_failure": lambda runtime, id: runtime.resolve_failure(id, actor="ann"),
    "dead_letters": lambda runtime, id: runtime.dead_letters(),
    "exhausted_callbacks": lambda runtime, id: runtime.exhausted_callbacks(),
    "rearm_callback": lambda runtime, id: runtime.rearm_callback(id),
    "get": lambda runtime, id: runtime.get(id),
    "events": lambda runtime, id: runtime.events(id),
    "response": lambda runtime, id: runtime.response(id),
}


@IN_BOTH
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_closed_runtime_says_so(call, open_runtime):
    """
    Given a closed runtime, when any of its methods is called, then that is an error which says so.
    """

    async def callback(event):
        pass

    runtime = open_runtime(callback=callback)
    id = delivered(runtime)
    runtime.close()
    with pytest.raises(Closed, match="closed") as refused:
        call(runtime, id)

    assert ("closed", 503) == (refused.value.code, refused.value.status)
    assert isinstance(refused.value, StoreUnavailable)


def test_reloading_policies_of_a_closed_runtime_says_so_too(runtime, in_force):
    """
    Given a closed runtime, when a folder is loaded, then that is an error which says so.
    """
    runtime.close()
    with pytest.raises(Closed):
        in_force(runtime, a_document())


@IN_BOTH
def test_closing_twice_is_closing_once(open_runtime):
    """
    Given a runtime, when it is closed again and again, by several threads and by ``with``, then
    nothing happens.
    """
    with open_runtime() as runtime:
        delivered(runtime)
        with ThreadPoolExecutor(4) as threads:
            assert [None] * 8 == [future.result() for future in [threads.submit(runtime.close)] * 8]
    runtime.close()


def test_with_closes_though_it_failed(open_runtime):
    """
    Given a ``with`` block that raises, when it is left, then the runtime is closed and the error
    comes through.
    """
    with pytest.raises(LookupError, match="mine"), open_runtime() as runtime:
        raise LookupError("mine")
    with pytest.raises(Closed):
        runtime.dead_letters()


def test_closing_serves_what_waits(runtime, open_runtime):
    """
    Given plans in the queue, when the runtime is closed, then each of them is either done, and
    stored, or refused as closed.
    """

    def accept(n):
        try:
            return runtime.accept(a_request(title=f"alert {n}"), principal=PRINCIPAL).notification_id
        except Closed:
            return None

    with ThreadPoolExecutor(16) as threads:
        accepting = [threads.submit(accept, n) for n in range(200)]
        accepting[0].result()
        runtime.close()
        ids = [id for future in accepting if (id := future.result()) is not None]

    assert 1 <= len(ids)
    assert set(map(str, ids)) == {row["id"] for row in map(open_runtime().get, ids)}


def test_what_was_accepted_outlives_it(runtime, open_runtime, channel):
    """
    Given a notification accepted by a runtime that was closed, when another one opens the file,
    then it is there and is sent.
    """
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    runtime.close()
    other = open_runtime({"PAGER": channel})

    assert 1 == asyncio.run(other.run_once())
    assert "DELIVERED" == other.get(id)["status"]


FORGETFUL = """
import asyncio, sys
from kit.builders import a_request
from uns import Runtime
runtime = Runtime(sys.argv[1], create_tables=True)
asyncio.run(runtime.send(a_request(), principal="p"))
runtime.dead_letters()
print("done")
"""


@pytest.mark.parametrize("form", ["sqlite:///{}", "sqlite://"])
def test_one_that_is_never_closed_lets_the_interpreter_end(form, tmp_path):
    """
    Given a runtime that nobody closed, when the program ends, then it ends, at once, without an
    error or a warning.
    """
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGETFUL, form.format(tmp_path / "forgotten.db")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=TESTS,
    )

    assert (0, "done\n", "") == (ended.returncode, ended.stdout, ended.stderr)


def test_a_worker_whose_runtime_is_closed_ends(runtime):
    """
    Given a worker, when its runtime is closed under it, then it ends with that error instead of
    going round for nothing.
    """

    async def work():
        at_work = asyncio.ensure_future(runtime.worker())
        await asyncio.sleep(0.05)
        runtime.close()
        await asyncio.wait_for(at_work, WHILE)

    with pytest.raises(Closed):
        asyncio.run(work())
