"""
One writer queue for a process: many waiting plans, one transaction.

While one group commits the next one fills. There is no timer and no linger: an idle service pays
nothing, a busy one shares more. A dedicated thread serves the queue, so that sync callers, and
async callers on any event loop, hand in plans alike.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from uns.ports.errors import Busy, Closed
from uns.ports.store import Plan, Store

T = TypeVar("T")

MAX_GROUP = 128
HIGH_WATER = 4096


class GroupCommit:
    """
    Commits over any store. ``max_group=1`` gives every plan a transaction of its own.

    Plans that finish work go before plans that start it; only the second kind is refused (``Busy``)
    when ``high_water`` of them wait, until half of them are gone.
    """

    def __init__(self, store: Store, *, max_group: int = MAX_GROUP, high_water: int = HIGH_WATER) -> None:
        self._store = store
        self._lanes = _Lanes(max_group, high_water)
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    async def run(self, plan: Plan[T]) -> T:
        loop = asyncio.get_running_loop()
        waiting = _AsyncWaiting(plan, loop)
        self._submit(waiting)
        return await waiting.future

    def call(self, plan: Plan[T]) -> T:
        """
        ``run`` for callers without an event loop.
        """
        waiting = _SyncWaiting(plan)
        self._submit(waiting)
        return waiting.future.result()

    async def read(self, plan: Plan[T]) -> T:
        return await asyncio.to_thread(self._store.read, plan)

    def close(self) -> None:
        """
        Refuse new plans, serve those that wait, and end the thread. Idempotent.
        """
        self._lanes.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _submit(self, waiting: _Waiting[Any]) -> None:
        if self._thread is None:
            self._start()
        self._lanes.put(waiting)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                # A daemon: a runtime that nobody closed must not keep the interpreter from ending.
                thread = threading.Thread(target=self._serve, name="uns-committer", daemon=True)
                thread.start()
                self._thread = thread

    def _serve(self) -> None:
        owed = _Owed()
        while group := self._lanes.take(owed.pay):
            try:
                answers = self._store.transact_many([waiting.plan for waiting in group], owed.pay)
            except BaseException as error:
                answers = [error] * len(group)
            owed.pay()
            owed.keep(group, answers)


class _Waiting(Generic[T]):
    """
    A plan in the queue, and where its answer goes.
    """

    __slots__ = ("plan",)

    def __init__(self, plan: Plan[T]) -> None:
        self.plan = plan


class _SyncWaiting(_Waiting[T]):
    __slots__ = ("future",)

    def __init__(self, plan: Plan[T]) -> None:
        super().__init__(plan)
        self.future: Future[T] = Future()


class _AsyncWaiting(_Waiting[T]):
    __slots__ = ("future", "loop")

    def __init__(self, plan: Plan[T], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(plan)
        self.loop = loop
        self.future: asyncio.Future[T] = loop.create_future()


class _Lanes:
    """
    Two queues and their water marks.
    """

    def __init__(self, max_group: int, high_water: int) -> None:
        self._max_group = max_group
        self._high_water = high_water
        self._finishing: deque[_Waiting[Any]] = deque()
        self._starting: deque[_Waiting[Any]] = deque()
        self._changed = threading.Condition()
        self._choked = False
        self._closed = False

    def put(self, waiting: _Waiting[Any]) -> None:
        with self._changed:
            if self._closed:
                raise Closed
            if waiting.plan.lane.finishing:
                self._finishing.append(waiting)
            else:
                self._admit(waiting)
            self._changed.notify()

    def take(self, meanwhile: Callable[[], None]) -> list[_Waiting[Any]]:
        """
        The next group, waiting for one; empty once closed and drained. ``meanwhile`` comes before a wait.
        """
        if not (self._finishing or self._starting):
            meanwhile()
        with self._changed:
            while not (self._finishing or self._starting or self._closed):
                self._changed.wait()
            group: list[_Waiting[Any]] = []
            for lane in (self._finishing, self._starting):
                while lane and len(group) < self._max_group:
                    group.append(lane.popleft())
            if self._choked and len(self._starting) <= self._high_water // 2:
                self._choked = False
            return group

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _admit(self, waiting: _Waiting[Any]) -> None:
        self._choked = self._choked or len(self._starting) >= self._high_water
        if self._choked:
            raise Busy
        self._starting.append(waiting)


class _Owed:
    """
    The answers of the last group, kept until the next one goes to the disk.

    Whom they wake needs the interpreter, and would take it from the committer while it runs plans;
    during a commit it is free. Where nobody waits behind a group, its answers are not kept at all.
    """

    def __init__(self) -> None:
        self._group: list[_Waiting[Any]] = []
        self._answers: list[Any] = []

    def keep(self, group: list[_Waiting[Any]], answers: list[Any]) -> None:
        self._group, self._answers = group, answers

    def pay(self) -> None:
        """
        Hand out what is owed, if anything still is.
        """
        group, self._group = self._group, []
        if group:
            _reply(group, self._answers)


def _reply(group: list[_Waiting[Any]], answers: list[Any]) -> None:
    # One wake-up per event loop and group: waking a loop is a system call.
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for waiting, answer in zip(group, answers, strict=True):
        if isinstance(waiting, _AsyncWaiting):
            by_loop.setdefault(waiting.loop, []).append((waiting.future, answer))
        elif isinstance(waiting, _SyncWaiting):
            _settle(waiting.future, answer)
    for loop, replies in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed: nobody listens any more
            loop.call_soon_threadsafe(_settle_all, replies)


def _settle_all(replies: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in replies:
        if not future.done():  # a caller that was cancelled no longer listens
            _settle(future, answer)


def _settle(future: Any, answer: Any) -> None:
    if isinstance(answer, StopIteration):
        # No coroutine may raise it (PEP 479), and no future takes it: its caller would wait for ever.
        stopped = RuntimeError("a plan raised StopIteration")
        stopped.__cause__ = answer
        answer = stopped
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
