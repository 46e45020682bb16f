"""
Signals of this process to others, and theirs to the listeners here, over a wire that may break.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.pubsub.envelope import Message
from uns.adapters.pubsub.outbox import Outbox
from uns.adapters.pubsub.wire import CLOSE_SECONDS, Link, Pace, Timing, Wire, to_the_end
from uns.adapters.sources import new_id
from uns.ports.decision import Signal, SignalKind
from uns.ports.pubsub import Listener

LOOK_AGAIN = tuple(Signal(kind, "") for kind in SignalKind)
"""To listeners whose process was deaf for a while: anything may have happened."""

COMPLAINT_SECONDS = 60.0

_log = logging.getLogger(__name__)


class RelayPubSub:
    """
    Listeners here hear at once, in the publishing thread; other processes through the wire.

    One thread, with an event loop of its own, keeps the connection; it starts with the first who
    publishes or subscribes. While there is no connection listeners here hear each other, and what
    others should hear waits, in bounds. Whenever there is one again, they are told to look for
    themselves.
    """

    def __init__(self, wire: Wire, pace: Pace = Pace(), timing: Timing = Timing()) -> None:  # noqa: B008
        self._wire = wire
        self._pace = pace
        self._timing = timing
        self._origin = new_id()
        self._local = InProcessPubSub()
        self._outbox = Outbox()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._sending = False
        self._deaf = False
        self._failures = 0
        self._revision = ""
        self._complained = -inf
        self._ignored = 0

    def publish(self, signals: Sequence[Signal]) -> None:
        self._revision = _revision(signals) or self._revision
        self._local.publish(signals)
        if self._closed:
            return
        first = self._outbox.add(signals)
        self._start()
        if first and (loop := self._loop) is not None:
            with suppress(RuntimeError):  # closed in this moment
                loop.call_soon_threadsafe(self._stirred.set)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        unsubscribe = self._local.subscribe(listener)
        self._start()
        return unsubscribe

    def close(self) -> None:
        """
        Send what waits, within half a second, and leave. Listeners here go on hearing each other.
        """
        with self._starting:
            self._closed = True
            thread = self._thread
        if thread is None:
            return
        if (loop := self._loop) is not None:
            with suppress(RuntimeError):  # closed already
                loop.call_soon_threadsafe(self._leaving.set)
        if thread is not threading.current_thread():
            thread.join(self._pace.leave + 2 * CLOSE_SECONDS)

    def _start(self) -> None:
        if self._thread is None:
            self._start_once()

    def _start_once(self) -> None:
        with self._starting:
            if self._thread is not None or self._closed:
                return
            thread = threading.Thread(target=self._run, name="uns-signals", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads: the next call may have more luck
                _log.exception("%s cannot be listened to", self._wire.name)
            else:
                self._thread = thread

    def _run(self) -> None:
        # Not the host's loop: publishers may have none, and must not wait for one that is busy.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._stirred = asyncio.Event()
        self._leaving = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._closed:  # before there was a loop to tell
            self._leaving.set()
        work = asyncio.ensure_future(self._keep_connected())
        await self._leaving.wait()
        self._stirred.set()
        unsaid = (self._outbox or self._sending) and not self._deaf
        await asyncio.wait({work}, timeout=self._pace.leave if unsaid else 0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    async def _keep_connected(self) -> None:
        while not self._leaving.is_set() or self._outbox:
            try:
                async with asyncio.timeout(self._pace.connect):
                    link = await self._wire.connect()
                await self._serve(link)
            except Exception as error:  # whatever it is, the next link may do better
                self._lost(error)
                await self._timing.sleep(self._pause())

    async def _serve(self, link: Link) -> None:
        since = self._timing.clock()
        tasks = [asyncio.ensure_future(self._speak(link)), asyncio.ensure_future(self._hear(link))]
        try:
            self._found()
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await to_the_end(_wound_up(tasks, link))
            if self._timing.clock() - since >= self._pace.longest_pause:
                self._failures = 0  # one that breaks at once has not mended anything

    async def _speak(self, link: Link) -> None:
        self._stirred.set()
        while not self._leaving.is_set() or self._outbox:
            await self._stirred.wait()
            self._stirred.clear()
            if not (batch := self._outbox.take()):
                continue
            self._sending = True
            try:
                await link.send(self._wire.format.write(self._origin, batch))
            except BaseException:
                self._outbox.put_back(batch)
                raise
            finally:
                self._sending = False
            await self._timing.sleep(self._pace.send_every)

    async def _hear(self, link: Link) -> None:
        while True:
            for message in await link.hear():
                self._pass_on(message)

    def _pass_on(self, message: Message) -> None:
        try:
            told = self._wire.format.read(message)
        except ValueError as error:
            self._complain(message, error)
            return
        if told.origin == self._origin:
            return
        revision = _revision(told.signals)
        # A reload may be announced twice: by the transaction itself, and after it.
        if told.signals and not (revision and revision == self._revision):
            self._revision = revision or self._revision
            self._local.publish(told.signals)

    def _complain(self, message: Message, error: ValueError) -> None:
        self._ignored += 1
        now = self._timing.clock()
        if now - self._complained < COMPLAINT_SECONDS:
            return
        text = "%s: a message on %s was ignored: %s (%d in all so far)"
        _log.warning(text, self._wire.name, message.channel, error, self._ignored)
        self._complained = now

    def _found(self) -> None:
        if self._deaf:
            _log.info("%s: connected again", self._wire.name)
        self._deaf = False
        self._revision = ""
        self._local.publish(LOOK_AGAIN)

    def _lost(self, error: Exception) -> None:
        self._failures += 1
        if not self._deaf:
            told = " ".join(str(error).split()) or "no answer"
            _log.warning(
                "%s: not connected, trying again: %s: %s", self._wire.name, type(error).__name__, told
            )
        self._deaf = True

    def _pause(self) -> float:
        longest: float = min(
            self._pace.first_pause * 2 ** min(self._failures - 1, 16), self._pace.longest_pause
        )
        return longest * (1 + self._timing.chance.fraction()) / 2


def _revision(signals: Sequence[Signal]) -> str:
    """
    Of a policy reload among the signals; empty where there is none, or it names none.
    """
    return next((each.subject for each in signals if each.kind is SignalKind.POLICIES), "")


async def _wound_up(tasks: Sequence[asyncio.Future[None]], link: Link) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await link.close()
