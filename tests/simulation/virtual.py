"""
An event loop whose time is a number: nothing is waited for, and every run is the same run.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from itertools import count
from typing import Any


class Halted(Exception):
    """
    Nothing is left that could ever happen.
    """


class Turn:
    """
    One callback to come; what asyncio knows as a (timer) handle.
    """

    __slots__ = ("_at", "_cancelled", "args", "callback", "context")

    def __init__(
        self, at: float, callback: Callable[..., Any], args: tuple[Any, ...], context: Context
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self._at = at
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._at


class VirtualLoop(asyncio.AbstractEventLoop):
    """
    Runs callbacks in the order of their instants, ties in the order they were made.

    Args:
        gate: until when what belongs to a context must wait. It is asked before each callback, so
            that a process can stand still while time goes on.
        adopt: told of each new task and the context it runs in.
    """

    def __init__(
        self, gate: Callable[[Context], float], adopt: Callable[[asyncio.Task[Any], Context], None]
    ) -> None:
        self.error: BaseException | None = None
        self._gate = gate
        self._adopt = adopt
        self._now = 0.0
        self._order = count()
        self._ready: deque[Turn] = deque()
        self._timers: list[tuple[float, int, Turn]] = []
        self._running = False

    def time(self) -> float:
        return self._now

    def run_until(self, enough: Callable[[], bool]) -> None:
        """
        Let things happen until ``stop``, an error, or ``enough``, which is asked before time moves on.

        Raises:
            Halted: everybody waits for ever.
        """
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while self._running and (self._ready or not enough()):
                self._step()
        finally:
            asyncio._set_running_loop(None)

    def stop(self) -> None:
        self._running = False

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        turn = Turn(self._now, callback, args, copy_context() if context is None else context)
        self._ready.append(turn)
        return turn

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        turn = Turn(when, callback, args, copy_context() if context is None else context)
        heapq.heappush(self._timers, (when, next(self._order), turn))
        return turn

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, context: Context | None = None, **options: Any) -> asyncio.Task[Any]:
        context = copy_context() if context is None else context
        task = asyncio.Task(coro, loop=self, context=context, **options)
        self._adopt(task, context)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """
        What Python finds when it collects garbage is no part of the run: it has no instant.
        """

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def _step(self) -> None:
        turn = self._next()
        if turn is None or turn.cancelled():
            return
        if (until := self._gate(turn.context)) > self._now:
            heapq.heappush(self._timers, (until, next(self._order), turn))
            return
        try:
            turn.context.run(turn.callback, *turn.args)
        except Exception as error:
            self.error = self.error or error
            self._running = False

    def _next(self) -> Turn | None:
        if self._ready:
            return self._ready.popleft()
        if not self._timers:
            raise Halted
        when, _, turn = heapq.heappop(self._timers)
        if turn.cancelled():
            return None  # time does not move for what will not happen
        self._now = max(self._now, when)
        return turn
