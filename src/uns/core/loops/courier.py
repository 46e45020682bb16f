"""
Callback delivery: claim terminal events, call, record.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uns.core.loops.caller import storable_text
from uns.core.plans import callbacks as plans
from uns.core.rules.callbacks import CALLBACK_LEASE_SECONDS
from uns.ports.callback import Callback
from uns.ports.commits import Commits
from uns.ports.rows import Event
from uns.ports.sources import NewId

CALLBACK_SECONDS = 10.0
RESERVE_SECONDS = 5.0
"""What is left of a lease for settling."""

BATCH = 20


class Courier:
    """
    Calls the callback for due events, never more at once than there are slots.
    """

    def __init__(self, commits: Commits, callback: Callback, new_id: NewId) -> None:
        self._commits = commits
        self._callback = callback
        self._new_id = new_id
        self._overdue: set[asyncio.Future[str | None]] = set()  # the event loop holds no task for us

    async def deliver(self, limit: int = BATCH) -> int:
        """
        Deliver one batch of due callbacks; how many were tried.

        Calls that overran their limit take up slots until they return.
        """
        tokens = [self._new_id() for _ in range(limit - len(self._overdue))]
        if not tokens:
            return 0
        loop = asyncio.get_running_loop()
        ends = loop.time() + CALLBACK_LEASE_SECONDS - RESERVE_SECONDS
        claimed = await self._commits.run(plans.claim(tokens))
        left = ends - loop.time()
        if left <= 0:
            return 0  # the claim took as long as its leases last: they lapse, and another one calls
        calls = (self._one(event, min(left, CALLBACK_SECONDS)) for event in claimed)
        # Every outcome is recorded, whatever became of the others.
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        return len(claimed)

    async def _one(self, event: Event, seconds: float) -> None:
        error = await self._bounded(event, seconds)
        await self._commits.run(plans.settle(event.id, token=event.callback_token or "", error=error))

    async def _bounded(self, event: Event, seconds: float) -> str | None:
        """
        What went wrong, if anything did.

        A callback that overruns is abandoned, not awaited: it may refuse to be cancelled.
        """
        call = asyncio.ensure_future(self._called(event))
        try:
            done, _ = await asyncio.wait({call}, timeout=seconds)
        except asyncio.CancelledError:
            call.cancel()
            raise
        if done:
            return call.result()
        self._overdue.add(call)
        call.add_done_callback(self._overdue.discard)
        call.cancel()
        return f"no answer within {seconds:g} s"

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
