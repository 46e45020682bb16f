"""
Callback delivery: claim terminal events, call, record.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uns.core.loops.caller import storable_text
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
        self._overdue: set[asyncio.Future[str | None]] = set()  # the event loop holds no task for us

    async def deliver(self, limit: int = BATCH) -> int:
        """
        Deliver one batch of due callbacks; how many were tried.
        """
        tokens = [self._new_id() for _ in range(limit)]
        claimed = await self._commits.run(plans.claim(tokens))
        await asyncio.gather(*(self._one(event) for event in claimed))
        return len(claimed)

    async def _one(self, event: Event) -> None:
        error = await self._bounded(event)
        await self._commits.run(plans.settle(event.id, token=event.callback_token or "", error=error))

    async def _bounded(self, event: Event) -> str | None:
        """
        What went wrong, if anything did.

        A callback that overruns is abandoned, not awaited: it may refuse to be cancelled.
        """
        call = asyncio.ensure_future(self._called(event))
        try:
            done, _ = await asyncio.wait({call}, timeout=CALLBACK_SECONDS)
        except asyncio.CancelledError:
            call.cancel()
            raise
        if done:
            return call.result()
        self._overdue.add(call)
        call.add_done_callback(self._overdue.discard)
        call.cancel()
        return f"no answer within {CALLBACK_SECONDS:g} s"

    async def _called(self, event: Event) -> str | None:
        try:
            await self._callback(told(event))
        except asyncio.CancelledError:
            return "the call was cancelled"
        except Exception as fault:
            return f"{type(fault).__name__}: {storable_text(fault)}"
        return None


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
