"""
One writer queue for all callers: sync and async, on any loop and thread; each gets its own answer.
"""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from kit.gates import PATIENCE_SECONDS
from kit.plans import applied, got, put, raising
from kit.rows import a_window
from uns.adapters.group_commit import GroupCommit
from uns.ports.decision import Change, Decision
from uns.ports.errors import Closed, Conflict
from uns.ports.rows import DedupWindow
from uns.ports.store import Plan

NAME = "uns-committer"


def counted(key="w"):
    """
    A plan that counts one more follower of a window, and replies with the count.
    """

    def run(tx):
        window = tx.get(DedupWindow, key)
        after = replace(window, followers=window.followers + 1)
        return tx.apply(Decision(after.followers, (Change(window, after),)))

    return Plan(run)


def committers():
    return [thread for thread in threading.enumerate() if thread.name == NAME]


async def test_a_caller_gets_its_plans_reply(commits):
    """
    When a plan is run, then its reply comes back and what it wrote can be read.
    """
    assert await commits.run(applied(Decision("reply"))) == "reply"
    await commits.run(put(a_window()))
    assert await commits.read(got(DedupWindow, a_window().key)) == a_window()


async def test_a_caller_gets_its_plans_error(commits):
    """
    When a plan raises, then its caller gets that exception and its neighbours their replies.
    """
    error = Conflict("no")
    plans = [applied(Decision(1)), raising(error), applied(Decision(3))]

    replies = await asyncio.gather(*(commits.run(plan) for plan in plans), return_exceptions=True)

    assert [1, error, 3] == replies


def test_a_sync_caller_gets_its_reply_or_its_error(commits):
    """
    When a plan is called without an event loop, then its reply comes back, or its error is raised.
    """
    assert commits.call(applied(Decision("reply"))) == "reply"
    with pytest.raises(Conflict, match="no"):
        commits.call(raising(Conflict("no")))


async def test_many_callers_on_one_loop_get_their_own_replies(commits):
    """
    Given two hundred callers at once, then each counts once and gets its own count.
    """
    await commits.run(put(a_window("w")))

    counts = await asyncio.gather(*(commits.run(counted()) for _ in range(200)))

    assert list(range(1, 201)) == counts


def test_sync_callers_from_many_threads_get_their_own_replies(commits):
    """
    Given callers in eight threads, then each counts once and gets its own count.
    """
    commits.call(put(a_window("w")))
    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(lambda _: commits.call(counted()), range(100)))

    assert list(range(1, 101)) == sorted(counts)


def test_event_loops_come_and_go(commits):
    """
    When one event loop after another runs plans, then each gets its replies.
    """
    commits.call(put(a_window("w")))

    assert [1, 2, 3] == [asyncio.run(commits.run(counted())) for _ in range(3)]


def test_event_loops_work_side_by_side(commits):
    """
    Given three event loops and a sync caller at once, then every caller gets its own count.
    """
    commits.call(put(a_window("w")))

    async def many():
        return await asyncio.gather(*(commits.run(counted()) for _ in range(30)))

    with ThreadPoolExecutor(4) as threads:
        loops = [threads.submit(asyncio.run, many()) for _ in range(3)]
        alone = threads.submit(lambda: [commits.call(counted()) for _ in range(10)])
        counts = [count for each in (*loops, alone) for count in each.result(PATIENCE_SECONDS)]

    assert list(range(1, 101)) == sorted(counts)


def test_one_loops_callers_are_woken_in_the_order_of_their_plans(commits):
    """
    Given callers of one loop, then they go on in the order in which their plans were committed.
    """
    woken = []

    async def one(n):
        await commits.run(applied(Decision(n)))
        woken.append(n)

    async def many():
        await asyncio.gather(*(one(n) for n in range(50)))

    asyncio.run(many())

    assert list(range(50)) == woken


@pytest.mark.parametrize("error", [StopIteration("stop"), StopAsyncIteration("stop"), TimeoutError("late")])
def test_no_error_leaves_a_caller_waiting(commits, error):
    """
    When a plan raises what a coroutine cannot raise, then its callers are answered all the same, and
    so is everybody else.
    """

    async def both():
        answers = [commits.run(raising(error)), commits.run(applied(Decision("other")))]
        return await asyncio.gather(*answers, return_exceptions=True)

    failed, other = asyncio.run(asyncio.wait_for(both(), PATIENCE_SECONDS))

    assert error in {failed, failed.__cause__}
    assert other == "other"


# Closing


def test_a_closed_queue_takes_nothing(commits):
    """
    Given a closed queue, when somebody comes, then nothing is begun and it says so.
    """
    commits.call(applied(Decision(None)))
    commits.close()

    with pytest.raises(Closed):
        commits.call(applied(Decision(None)))
    with pytest.raises(Closed):
        asyncio.run(commits.run(applied(Decision(None))))


def test_a_queue_that_was_never_used_closes(commits):
    """
    Given a queue that no plan came to, when it is closed, twice, then it is closed.
    """
    commits.close()
    commits.close()

    with pytest.raises(Closed):
        commits.call(applied(Decision(None)))


async def test_closing_serves_those_who_wait(queue_over, gate):
    """
    Given plans in the queue behind one that commits, when it is closed, then nobody new is taken,
    all who wait get their replies, and the thread ends.
    """
    queue = queue_over(max_group=2)
    waiting = [asyncio.create_task(queue.run(applied(Decision(n)))) for n in range(5)]
    await asyncio.sleep(0)
    await asyncio.to_thread(gate.arrived)
    closing = asyncio.create_task(asyncio.to_thread(queue.close))
    while True:  # until the close has begun
        try:
            waiting.append(asyncio.create_task(queue.run(applied(Decision(len(waiting))))))
            await asyncio.sleep(0)
            waiting[-1].result()
        except asyncio.InvalidStateError:
            continue
        except Closed:
            waiting.pop()
            break
    gate.let(1000)
    await closing

    assert list(range(len(waiting))) == await asyncio.gather(*waiting)


def test_closing_from_several_threads_is_closing(queue_over, gate):
    """
    When several threads close a queue at once, then all of them come back.
    """
    queue = queue_over()
    gate.let(1000)
    queue.call(applied(Decision(None)))
    with ThreadPoolExecutor(4) as threads:
        closed = list(threads.map(lambda _: queue.close(), range(4), timeout=PATIENCE_SECONDS))

    assert [None] * 4 == closed


def test_a_plan_may_close_its_own_queue(queue_over, gate):
    """
    When the queue is closed from its own thread, then it does not wait for itself.
    """
    queue = queue_over()
    gate.let(1000)

    assert queue.call(Plan(lambda _: queue.close())) is None


# The thread


def test_no_thread_runs_before_the_first_plan(gate):
    """
    Given a queue that no plan came to, then it has no thread; with the first plan it has one.
    """
    before = len(committers())
    queue = GroupCommit(gate)
    unused = len(committers())
    gate.let(2)
    queue.call(applied(Decision(None)))
    queue.call(applied(Decision(None)))
    used = len(committers())
    queue.close()

    assert (before, before + 1, before) == (unused, used, len(committers()))


def test_the_thread_is_a_daemon(queue_over, gate):
    """
    The committer keeps no interpreter alive.
    """
    gate.let(1000)
    queue_over().call(applied(Decision(None)))

    assert all(thread.daemon for thread in committers())
    assert committers()


def test_an_interpreter_ends_with_a_queue_that_nobody_closed():
    """
    Given a process that used a queue and did not close it, when its main thread is done, then the
    process ends.
    """
    program = """
from uns.adapters.group_commit import GroupCommit
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sources import ManualClock
from uns.ports.store import Plan
print(GroupCommit(MemoryStore(ManualClock())).call(Plan(lambda tx: "done")))
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert (0, "done\n", "") == (ended.returncode, ended.stdout, ended.stderr)
