"""
Time, identity and chance for a process.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import uuid_utils


class SystemClock:
    """
    The host's wall clock.
    """

    now = staticmethod(time.time)


class FunctionClock:
    """
    A clock from a plain function, such as ``time.time`` or a test's.
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def now(self) -> float:
        return self._read()


class ManualClock:
    """
    A clock that moves when told: for tests, simulations and demonstrations.
    """

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._lock = threading.Lock()

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """
        Move by ``seconds``; negative steps model a clock that was set back.
        """
        with self._lock:
            self._now += seconds

    def set(self, instant: float) -> None:
        with self._lock:
            self._now = instant


def new_id() -> str:
    """
    A fresh UUIDv7: ids sort by creation, so that indexes grow at their end.
    """
    return str(uuid_utils.uuid7())


class SystemChance:
    """
    Jitter from the process's own generator. Nothing here is a secret.
    """

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - jitter, not a secret

    def fraction(self) -> float:
        return self._random.random()
