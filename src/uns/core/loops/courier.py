"""
Callback delivery: claim terminal events, call, record.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uns.core.plans import callbacks as plans
from uns.ports.callback import Callback
from uns.ports.commits import Commits
from uns.ports.rows import Event
from uns.ports.sources import NewId

CALLBACK_SECONDS = 10.0
BATCH = 20


class Courier:
    """
    Calls the callback for due events, never more at once than it has claimed.
    """

    def __init__(self, commits: Commits, callback: Callback, new_id: NewId) -> None:
        self._commits = commits
        self._callback = callback
        self._new_id = new_id

    async def deliver(self, limit: int = BATCH) -> int:
        """
        Deliver one batch of due callbacks; how many were tried.
        """
        tokens = [self._new_id() for _ in range(limit)]
        claimed = await self._commits.run(plans.claim(tokens))
        await asyncio.gather(*(self._one(event) for event in claimed))
        return len(claimed)

    async def _one(self, event: Event) -> None:
        error: str | None = None
        try:
            await asyncio.wait_for(self._callback(told(event)), CALLBACK_SECONDS)
        except TimeoutError:
            error = f"no answer within {CALLBACK_SECONDS:g} s"
        except Exception as fault:
            error = f"{type(fault).__name__}: {fault}"
        await self._commits.run(plans.settle(event.id, token=event.callback_token or "", error=error))


def told(event: Event) -> dict[str, Any]:
    """
    What a callback is given: the event, its payload decoded.
    """
    return {
        "id": event.id,
        "notification_id": event.notification_id,
        "kind": str(event.kind),
        "at": event.at,
        "payload": event.details,
        "attempt": event.callback_attempts,
    }
