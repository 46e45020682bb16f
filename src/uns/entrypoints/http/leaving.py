"""
Leaving in time, under a server that tells an application to stop only after its last answer.

That is too late for answers that wait and for work that takes a while: so it listens for the signal.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def told_to_leave(leave: Callable[[], None]) -> Iterator[None]:
    """
    Call ``leave``, in the event loop, as soon as the process is told to end.

    Whoever listens already, the server for one, is told as before. Nothing is done about a signal
    that nobody listens for, nor in a thread that hears none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    heard = {number: before for number in _SIGNALS if callable(before := signal.getsignal(number))}

    def listen(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(leave)
        heard[signal.Signals(number)](number, frame)

    for number in heard:
        signal.signal(number, listen)
    try:
        yield
    finally:
        for number, before in heard.items():
            if signal.getsignal(number) is listen:
                signal.signal(number, before)
