"""
An application hears the signal to end as soon as the server does.
"""

import asyncio
import os
import signal
import threading

import pytest

from uns.entrypoints.http.leaving import told_to_leave


@pytest.fixture
def heard():
    """
    What the server has heard; its handlers are taken away in the end.
    """
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    heard = []
    for number in numbers:
        signal.signal(number, lambda number, frame: heard.append(number))
    yield heard
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_both_hear_of_it(heard, number):
    """
    Given a server that listens, when the signal comes, then the application is told, in the event
    loop, and so is the server.
    """
    told = asyncio.Event()
    with told_to_leave(told.set):
        os.kill(os.getpid(), number)
        await asyncio.wait_for(told.wait(), 5)

    assert [number] == heard


async def test_afterwards_the_server_is_alone_again(heard):
    """
    Its own handlers are back.
    """
    told = []
    before = signal.getsignal(signal.SIGTERM)
    with told_to_leave(lambda: told.append(1)):
        assert before is not signal.getsignal(signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0)

    assert ([], [signal.SIGTERM]) == (told, heard)
    assert before is signal.getsignal(signal.SIGTERM)


async def test_a_handler_that_somebody_else_set_stays(heard):
    """
    Given that a handler was replaced meanwhile, then it is not replaced again.
    """
    with told_to_leave(lambda: None):
        signal.signal(signal.SIGTERM, ours := lambda *_: None)

    assert ours is signal.getsignal(signal.SIGTERM)


async def test_a_signal_that_nobody_hears_does_what_it_did(heard):
    """
    Given that nobody listens for SIGTERM, then it still ends the process.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with told_to_leave(lambda: None):
        assert signal.SIG_DFL == signal.getsignal(signal.SIGTERM)


def test_a_thread_hears_no_signals(heard):
    """
    There the application runs without.
    """
    ran = []

    async def work():
        with told_to_leave(lambda: None):
            ran.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()

    assert [before] == ran
