"""
RECORDING: keeps the last messages in memory, for rehearsals and tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from uns.ports.channel import ChannelMessage, ChannelResult

KEPT = 1000


class RecordingChannel:
    """
    ``messages`` holds the last thousand, oldest first.
    """

    def __init__(self) -> None:
        self.messages: deque[ChannelMessage] = deque(maxlen=KEPT)

    def destination(self, target: Mapping[str, Any]) -> None:
        """
        Nothing outside that could hang.
        """

    async def send(self, message: ChannelMessage) -> ChannelResult:
        self.messages.append(message)
        return ChannelResult(True, message_id=f"recording:{message.idempotency_token}")
