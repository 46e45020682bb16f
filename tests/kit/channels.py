"""
Channels that do as they are told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uns.ports.channel import ChannelMessage, ChannelResult

Script = Callable[[ChannelMessage], ChannelResult]


class ScriptedChannel:
    """
    Answers each call with the next of ``results``, then the last one for ever; an exception is raised.
    """

    def __init__(self, *results: ChannelResult | BaseException | bool) -> None:
        self.calls: list[ChannelMessage] = []
        self._results = list(results) or [True]

    async def send(self, message: ChannelMessage) -> ChannelResult:
        self.calls.append(message)
        result = self._results.pop(0) if len(self._results) > 1 else self._results[0]
        if isinstance(result, BaseException):
            raise result
        return ChannelResult(result, message_id=f"m{len(self.calls)}") if isinstance(result, bool) else result


class SlowChannel:
    """
    Answers after ``seconds`` of the event loop's time.

    Args:
        stubborn: goes on, and answers, although its call was cancelled.
    """

    def __init__(
        self, seconds: float, result: ChannelResult | bool = True, *, stubborn: bool = False
    ) -> None:
        self.calls: list[ChannelMessage] = []
        self.now = 0
        self.most = 0
        self._seconds = seconds
        self._result = result
        self._stubborn = stubborn

    async def send(self, message: ChannelMessage) -> ChannelResult:
        self.calls.append(message)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self._wait()
        finally:
            self.now -= 1
        return ChannelResult(self._result) if isinstance(self._result, bool) else self._result

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        while (left := end - loop.time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise
