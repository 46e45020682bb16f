"""
LOG: the notification as one line in the process's log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from uns.ports.channel import ChannelMessage, ChannelResult

_log = logging.getLogger("uns.notifications")


class LogChannel:
    """
    Writes title, type and id at INFO; the full text stays in the database.
    """

    def destination(self, target: Mapping[str, Any]) -> None:
        """
        Nothing outside that could hang.
        """

    async def send(self, message: ChannelMessage) -> ChannelResult:
        content = message.notification
        _log.info("%s [%s] from %s: %s", content.id, content.notification_type, content.source, content.title)
        return ChannelResult(True, message_id=f"log:{message.idempotency_token}")
