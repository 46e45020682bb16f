"""
Waiting for what others bring about: a worker, a thread, another process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

WHILE = 5.0
"""The longest, in seconds, that a test waits for what should happen at once."""


async def until(condition: Callable[[], object], seconds: float = WHILE) -> None:
    """
    Wait for what others, a worker or another process, should bring about soon.
    """
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"it did not happen within {seconds:g} s"
        await asyncio.sleep(0.005)


def soon(condition: Callable[[], object], seconds: float = WHILE) -> None:
    """
    The same, for tests without an event loop.
    """
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"it did not happen within {seconds:g} s"
        time.sleep(0.002)
