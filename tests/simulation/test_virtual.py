"""
The event loop of the simulation keeps its promises too.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context

import pytest

from simulation.virtual import Halted, VirtualLoop

STILL = ContextVar("still", default=0.0)


@pytest.fixture
def loop():
    return VirtualLoop(lambda context: context.get(STILL, 0.0), lambda task, context: None)


def test_time_is_what_is_slept(loop):
    """
    When tasks sleep for hours, then they wake in order, at their instants, and nobody waits.
    """
    woken = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        woken.append((seconds, loop.time()))

    tasks = [loop.create_task(sleeper(seconds)) for seconds in (7200.0, 60.0, 3600.0)]
    loop.run_until(lambda: all(task.done() for task in tasks))

    assert [(60.0, 60.0), (3600.0, 3600.0), (7200.0, 7200.0)] == woken


def test_what_stands_still_goes_on_afterwards(loop):
    """
    Given a context that stands still until 10 s, when its timer rings at 3 s, then it is heard at 10 s.
    """
    heard = []
    still = copy_context()
    still.run(STILL.set, 10.0)
    for name, context in (("still", still), ("moving", copy_context())):
        loop.call_later(3.0, lambda name=name: heard.append((name, loop.time())), context=context)
    loop.run_until(lambda: len(heard) == 2)

    assert [("moving", 3.0), ("still", 10.0)] == heard


def test_a_timer_that_was_cancelled_moves_no_time(loop):
    """
    Given a timer that was cancelled, when the loop runs on, then its instant never comes.
    """
    loop.call_later(50.0, lambda: None).cancel()
    loop.call_later(1.0, loop.stop)
    loop.run_until(lambda: False)

    assert 1.0 == loop.time()


def test_everybody_waiting_for_ever_is_an_error(loop):
    """
    Given a task that nothing will wake, when nothing else is left to happen, then the loop says so.
    """
    task = loop.create_task(_never())
    with pytest.raises(Halted):
        loop.run_until(task.done)
    task.cancel()
    loop.run_until(task.done)

    assert task.cancelled()


def test_an_error_in_a_callback_ends_the_run(loop):
    """
    When a callback raises, then the loop stops there and keeps the error.
    """
    error = ValueError("no")
    loop.call_soon(_raising, error)
    loop.call_later(1.0, lambda: None)
    loop.run_until(lambda: False)

    assert error is loop.error
    assert 0.0 == loop.time()


async def _never():
    await asyncio.get_running_loop().create_future()


def _raising(error):
    raise error
