"""
What waits in the queue: groups and their size, lanes and water marks, callers who leave, faults.
"""

import asyncio

import pytest
from msgspec.structs import replace

from kit.commits import Crash
from kit.plans import applied, got, put
from kit.rows import a_window
from uns.ports.decision import Decision
from uns.ports.errors import Busy, StoreUnavailable
from uns.ports.rows import DedupWindow
from uns.ports.store import FINISHING, STARTING


def starting(reply=None):
    return replace(applied(Decision(reply)), lane=STARTING)


def finishing(reply=None):
    return replace(applied(Decision(reply)), lane=FINISHING)


async def queued(queue, *plans):
    """
    Tasks that wait for these plans, each of which is in the queue.
    """
    tasks = [asyncio.create_task(queue.run(plan)) for plan in plans]
    await asyncio.sleep(0)
    return tasks


async def arrived(gate):
    """
    Wait until the committer has taken another group; how many plans it has.
    """
    return await asyncio.to_thread(gate.arrived)


async def passing(gate):
    """
    Let the group at the gate pass, and wait for the next one.
    """
    gate.let()
    return await arrived(gate)


async def test_a_lone_plan_does_not_wait_for_others(queue_over, gate):
    """
    When a single plan comes to an idle queue, then it is committed alone and at once.
    """
    (task,) = await queued(queue_over(), finishing("reply"))

    assert await arrived(gate) == 1
    gate.let()
    assert await task == "reply"


async def test_while_one_group_commits_the_next_one_fills(queue_over, gate):
    """
    Given a group that commits, when others come, then they share the next commit.
    """
    queue = queue_over()
    await queued(queue, finishing())
    first = await arrived(gate)
    await queued(queue, *(finishing() for _ in range(7)))

    assert (1, 7) == (first, await passing(gate))


@pytest.mark.parametrize("max_group", [1, 3])
async def test_a_group_is_no_larger_than_it_may_be(queue_over, gate, max_group):
    """
    Given seven plans behind a commit, then they go in groups of at most ``max_group``, in order.
    """
    queue = queue_over(max_group=max_group)
    await queued(queue, finishing())
    await arrived(gate)
    plans = [finishing(n) for n in range(7)]
    tasks = await queued(queue, *plans)
    gate.let(1000)
    replies = await asyncio.gather(*tasks)
    sizes = [len(group) for group in gate.groups[1:]]

    assert {1: [1] * 7, 3: [3, 3, 1]}[max_group] == sizes
    assert plans == [plan for group in gate.groups[1:] for plan in group]
    assert list(range(7)) == replies


async def test_plans_that_finish_work_go_first(queue_over, gate):
    """
    Given plans of both kinds behind a commit, then those that finish work pass those that start it,
    and each kind keeps its order.
    """
    queue = queue_over(max_group=3)
    await queued(queue, finishing())
    await arrived(gate)
    starts, ends = [starting(n) for n in range(3)], [finishing(n) for n in range(2)]
    await queued(queue, starts[0], ends[0], starts[1], starts[2], ends[1])
    await passing(gate)
    await passing(gate)

    assert [[*ends, starts[0]], starts[1:]] == gate.groups[1:]


async def test_work_is_refused_at_the_high_water_mark_until_half_is_gone(queue_over, gate):
    """
    Given as many starting plans as may wait, when more come, then they are refused, and go on being
    refused until half of the queue is gone; nothing of a refused plan is begun.
    """
    queue = queue_over(max_group=1, high_water=4)
    await queued(queue, finishing())
    await arrived(gate)
    await queued(queue, *(starting(n) for n in range(4)))
    for waiting in (4, 3):
        with pytest.raises(Busy):
            await queue.run(starting("refused"))
        assert len(gate.groups) - 1 == 4 - waiting
        await passing(gate)

    (admitted,) = await queued(queue, starting("admitted"))
    gate.let(1000)

    assert await admitted == "admitted"
    assert len(gate.groups) == 6


@pytest.mark.parametrize(("waiting", "refused"), [(3, False), (4, True)])
async def test_the_high_water_mark_is_how_many_may_wait(queue_over, gate, waiting, refused):
    """
    Given one fewer than may wait, then one more is taken; given as many, then it is refused.
    """
    queue = queue_over(high_water=4)
    await queued(queue, finishing())
    await arrived(gate)
    await queued(queue, *(starting() for _ in range(waiting)))
    (task,) = await queued(queue, starting())
    await asyncio.sleep(0)

    assert refused is (task.done() and isinstance(task.exception(), Busy))


async def test_finishing_work_is_never_refused(queue_over, gate):
    """
    Given a queue that refuses to start work, when plans come that finish some, then they are taken,
    do not count as waiting to start, and go first.
    """
    queue = queue_over(high_water=2)
    await queued(queue, finishing())
    await arrived(gate)
    starts = [starting(), starting()]
    await queued(queue, *starts)
    with pytest.raises(Busy):
        await queue.run(starting())
    ends = [finishing(n) for n in range(5)]
    tasks = await queued(queue, *ends)
    gate.let(1000)

    assert list(range(5)) == await asyncio.gather(*tasks)
    assert [*ends, *starts] == gate.groups[1]


async def test_a_sync_caller_is_refused_alike(queue_over, gate):
    """
    Given a full queue, when a caller without an event loop comes, then it is refused at once.
    """
    queue = queue_over(high_water=1)
    await queued(queue, finishing())
    await arrived(gate)
    await queued(queue, starting())

    with pytest.raises(Busy):
        queue.call(starting())


async def test_a_cancelled_caller_does_not_withdraw_its_plan(queue_over, gate):
    """
    Given a group that has begun, when one of its callers is cancelled, then its plan is committed
    all the same and the others get their replies.
    """
    queue = queue_over()
    await queued(queue, finishing())
    await arrived(gate)
    leaving, staying = await queued(queue, put(a_window("w")), finishing("reply"))
    await passing(gate)
    leaving.cancel()
    gate.let(1000)

    assert await staying == "reply"
    assert leaving.cancelled()
    assert a_window("w") == await queue.read(got(DedupWindow, "w"))


async def test_callers_who_leave_before_their_group_do_no_harm(queue_over, gate):
    """
    Given plans in the queue, when their callers are cancelled, then those beside them are answered.
    """
    queue = queue_over()
    await queued(queue, finishing())
    await arrived(gate)
    *leaving, staying = await queued(queue, *(finishing(n) for n in range(4)))
    for task in leaving:
        task.cancel()
    gate.let(1000)

    assert await staying == 3


def test_a_loop_that_was_closed_does_no_harm(queue_over, gate):
    """
    Given a caller whose event loop is gone when its answer comes, then the queue serves the next.
    """
    queue = queue_over()

    async def leave():
        await queued(queue, put(a_window("w")))
        await arrived(gate)

    asyncio.run(leave())
    gate.let(1000)

    assert queue.call(got(DedupWindow, "w")) == a_window("w")


@pytest.mark.parametrize(
    "fault",
    [StoreUnavailable("gone"), RuntimeError("a bug"), Crash()],
    ids=lambda f: type(f).__name__,
)
async def test_everybody_is_answered_when_the_store_raises(queue_over, gate, fault):
    """
    Given a store that raises instead of answering, then every caller of the group gets that, sync
    and async ones alike, and the queue serves those who come next.
    """
    queue = queue_over()
    await queued(queue, finishing())
    await arrived(gate)
    gate.fault = fault
    tasks = await queued(queue, *(finishing() for _ in range(3)))
    tasks.append(asyncio.create_task(asyncio.to_thread(queue.call, finishing())))
    gate.let(1000)
    told = await asyncio.gather(*tasks, return_exceptions=True)
    gate.fault = None

    assert [fault] * 4 == told
    assert await queue.run(finishing("next")) == "next"


async def test_reading_does_not_queue(queue_over, gate):
    """
    Given a group that commits and others behind it, when somebody reads, then it does not wait.
    """
    queue = queue_over()
    await queued(queue, finishing())
    await arrived(gate)

    assert await asyncio.wait_for(queue.read(got(DedupWindow, "w")), 20) is None
