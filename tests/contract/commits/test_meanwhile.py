"""
When answers are handed out: while the next group is on its way to the disk, not while plans run.
"""

import asyncio

import pytest

from kit.builders import NOW, a_notification
from kit.plans import applied, got, put
from kit.stores import open_store
from uns.adapters.sources import ManualClock
from uns.ports.decision import Decision, Sweep
from uns.ports.errors import UnsError
from uns.ports.rows import Notification
from uns.ports.vocabulary import Status

TURNS = 3
SATISFIED = Sweep(owner_id="n1", statuses=(Status.PENDING,), to_status=Status.DEDUPLICATED)


async def queued(queue, reply):
    """
    A task that waits for this reply, its plan in the queue.
    """
    task = asyncio.create_task(queue.run(applied(Decision(reply))))
    await asyncio.sleep(0)
    return task


async def two_groups(queue, gate):
    """
    Two tasks: one whose group has come to the gate, and one that waits behind it.
    """
    first = await queued(queue, "first")
    await asyncio.to_thread(gate.arrived)
    return first, await queued(queue, "second")


async def turns():
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def test_answers_wait_until_the_next_group_goes_to_the_disk(queue_over, gate):
    """
    Given a group that others wait behind, when it is committed, then its answers go out once the next
    group waits itself, and before that one is committed.
    """
    first, second = await two_groups(queue_over(), gate)
    gate.let()
    await asyncio.to_thread(gate.arrived)
    await turns()

    assert not first.done()
    await asyncio.to_thread(gate.meanwhile)
    assert "first" == await first
    await turns()
    assert not second.done()
    gate.let()
    assert "second" == await second


async def test_answers_wait_for_nothing_else(queue_over, gate):
    """
    Given a store that never waits, then the answers of one group go out when the next one is
    committed, if nothing sooner.
    """
    first, second = await two_groups(queue_over(), gate)
    gate.let(2)

    assert ["first", "second"] == await asyncio.gather(first, second)


async def test_answers_are_handed_out_though_the_next_group_fails(queue_over, gate):
    """
    A fault of one group is no other's.
    """
    first, second = await two_groups(queue_over(), gate)
    gate.let()
    await asyncio.to_thread(gate.arrived)
    gate.fault = OSError("broken")
    gate.let()

    assert "first" == await first
    with pytest.raises(OSError, match="broken"):
        await second


@pytest.fixture
def file(tmp_path):
    with open_store("sqlite", ManualClock(NOW), tmp_path) as store:
        yield store


def test_a_store_calls_before_it_commits(file):
    """
    What is called sees nothing of the group yet.
    """
    seen = []
    file.transact_many([put(a_notification("n1"))], lambda: seen.append(file.read(got(Notification, "n1"))))

    assert [None] == seen
    assert "n1" == file.read(got(Notification, "n1")).id


def test_a_store_calls_before_it_moves_many_rows(file):
    """
    A sweep may take long: nobody else should wait for it.
    """
    calls = []
    file.transact_many([applied(Decision(None, sweeps=(SATISFIED,)))], lambda: calls.append(1))

    assert 2 == len(calls)


def test_a_store_calls_before_it_halves_a_group(file):
    """
    Finding the plan that the database refuses takes several transactions, each of which may wait.
    """
    calls = []
    poisoned, sound = put(a_notification("n1", source="\ud800")), put(a_notification("n2"))
    refused, done = file.transact_many([poisoned, sound], lambda: calls.append(1))

    assert isinstance(refused, UnsError)
    assert (None, 1) == (done, len(calls))
