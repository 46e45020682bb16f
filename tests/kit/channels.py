"""
Channels that do as they are told.
"""

from __future__ import annotations

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
