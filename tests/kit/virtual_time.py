"""
An event loop whose time is virtual: when every task waits, time jumps to the next timer.

An hour of backoff costs no time at all, and what is due together happens in a fixed order. Threads
and sockets take real time, which passes unseen here: keep them out of what is tested this way.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

STUCK_SECONDS = 5.0


class Advancing(Protocol):
    """
    A clock that can be moved, such as ``ManualClock``.
    """

    def advance(self, seconds: float) -> None: ...


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """
    An event loop that starts at 0.0 and never sleeps.

    Args:
        clock: a wall clock that moves along with the loop's time.
    """

    def __init__(self, clock: Advancing | None = None) -> None:
        self._elapsed = 0.0
        self._clock = clock
        super().__init__(_Jumping(self.advance))

    def time(self) -> float:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """
        Let ``seconds`` pass at once, as if the whole process had been stopped for so long.
        """
        self._elapsed += seconds
        if self._clock is not None:
            self._clock.advance(seconds)


class _Jumping(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """
    Reports the files that are ready; instead of waiting for others it lets time pass.
    """

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:  # no timer: only another thread could wake the loop
            ready = super().select(STUCK_SECONDS)
            if not ready:
                raise RuntimeError("every task waits, and nothing is due")
            return ready
        ready = super().select(0)
        if not ready and timeout > 0:
            self._advance(timeout)
        return ready


def run(story: Coroutine[Any, Any, Any], clock: Advancing | None = None) -> Any:
    """
    ``asyncio.run`` in virtual time; ``clock`` moves along.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(clock)) as runner:
        return runner.run(story)


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """
    Make an async test a sync one that runs in virtual time.

    A clock among the test's arguments, or the ``clock`` of one of them, moves along with the loop.
    """

    @functools.wraps(test)
    def runs(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs), _clock_among(kwargs.values()))

    return runs


def _clock_among(arguments: Iterable[Any]) -> Advancing | None:
    for argument in arguments:
        for candidate in (argument, getattr(argument, "clock", None)):
            if hasattr(candidate, "advance"):
                clock: Advancing = candidate
                return clock
    return None


async def until(happened: Callable[[], bool], seconds: float = 600.0) -> None:
    """
    Let the others work until ``happened``, without letting time pass as long as they have work.

    Raises:
        TimeoutError: it has not happened after ``seconds`` of virtual time.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not happened():
        if loop.time() >= end:
            raise TimeoutError
        await asyncio.sleep(0.01)
