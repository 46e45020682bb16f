"""
Calling channel adapters: concurrently, within their time limits, and never trusting them.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from uns.core.loops.destinations import Destinations
from uns.core.rules.lease import LEASE_SECONDS, Claim
from uns.core.rules.outcome import Call
from uns.ports.channel import ChannelMessage, ChannelRegistry, ChannelResult, Content
from uns.ports.sources import Clock

CALL_SECONDS = 10.0
RESERVE_SECONDS = 15.0
"""What a call leaves of the lease, so that its outcome is committed before the lease ends."""

TEXT_LENGTH = 2000

_content = msgspec.json.Decoder(Content).decode


class Caller:
    """
    Calls the channels of a claim and reports what each came to.
    """

    def __init__(self, channels: ChannelRegistry, clock: Clock) -> None:
        self.destinations = Destinations(channels)
        self._channels = channels
        self._clock = clock
        self._overdue: dict[asyncio.Future[Any], str | None] = {}

    @property
    def overdue(self) -> int:
        """
        Calls that overran their limit and have not returned. They still take up room.
        """
        return len(self._overdue)

    def overdue_to(self) -> Counter[str]:
        """
        The same by destination.
        """
        return Counter(filter(None, self._overdue.values()))

    def limit(self, channels: Sequence[str]) -> float:
        """
        The longest time limit, in seconds, among ``channels``.
        """
        return max(map(self._limit, channels))

    async def call(self, claim: Claim, channels: Sequence[str], left: float = math.inf) -> tuple[Call, ...]:
        """
        Call ``channels`` at once, each with its own limit or, if that is less, ``left`` seconds.

        A stored notification that cannot be read fails for good on every channel.
        """
        try:
            content = _content(claim.row.body)
        except msgspec.MsgspecError as error:
            unreadable = ChannelResult(False, error=f"unreadable notification: {error}", retryable=False)
            return tuple(Call(name, unreadable, self._clock.now()) for name in channels)
        if len(channels) == 1:  # the common case needs no task around the task
            return (await self._one(claim, content, channels[0], left),)
        return tuple(await asyncio.gather(*(self._one(claim, content, name, left) for name in channels)))

    async def _one(self, claim: Claim, content: Content, name: str, left: float) -> Call:
        row = claim.row
        message = ChannelMessage(
            notification=content,
            target=row.effective.targets.get(name, {}),
            idempotency_token=f"{row.id}:{row.cycle}:{name}",
            attempt=row.cycle_attempts,
            deadline=min(self._limit(name), left),
        )
        result = await self._bounded(name, message)
        return Call(name, _storable(result), self._clock.now())

    async def _bounded(self, name: str, message: ChannelMessage) -> ChannelResult:
        adapter = self._channels.get(name)
        if adapter is None:
            return ChannelResult(False, error="no such channel in this process")
        task = asyncio.ensure_future(_sent(adapter, message))
        try:
            await _done_or_late(task, message.deadline)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            self._abandon(task, self.destinations.of(name, message.target))
            return ChannelResult(False, error=f"no answer within {message.deadline:g} s")
        return task.result()

    def _abandon(self, task: asyncio.Future[Any], destination: str | None) -> None:
        self._overdue[task] = destination
        task.add_done_callback(self._overdue.pop)
        task.cancel()

    def _limit(self, name: str) -> float:
        seconds = _seconds(getattr(self._channels.get(name), "timeout_seconds", None))
        return min(seconds or CALL_SECONDS, LEASE_SECONDS - RESERVE_SECONDS)


async def _done_or_late(task: asyncio.Future[Any], seconds: float) -> None:
    # ``asyncio.wait`` for one task, at a third of its price: this is once per call of a channel.
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(seconds, wake)
    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        timer.cancel()


async def _sent(adapter: Any, message: ChannelMessage) -> ChannelResult:
    try:
        result = await adapter.send(message)
    except asyncio.CancelledError:
        return ChannelResult(False, error="the call was cancelled")
    except Exception as error:
        return ChannelResult(False, error=f"{type(error).__name__}: {storable_text(error)}")
    if not isinstance(result, ChannelResult):
        return ChannelResult(False, error=f"the adapter returned {type(result).__name__}, not ChannelResult")
    return result


def _storable(result: ChannelResult) -> ChannelResult:
    return replace(
        result,
        success=result.success is True,
        message_id=storable_text(result.message_id),
        error=storable_text(result.error),
        metadata=_metadata(result.metadata),
        retryable=result.retryable is not False,
        retry_after=_seconds(result.retry_after),
    )


def storable_text(value: Any) -> str | None:
    """
    What a stranger said, as text that every database takes.
    """
    if value is None:
        return None
    try:
        text = str(value)
    except Exception:
        text = f"unreadable {type(value).__name__}"
    return text.replace("\0", "")[:TEXT_LENGTH].encode(errors="replace").decode()


def _metadata(value: Any) -> dict[str, Any]:
    try:
        msgspec.json.encode(value)
        storable = isinstance(value, dict)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        storable = False
    return value if storable else {"unreadable": type(value).__name__}


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:  # an integer beyond all floats
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
