"""
Taking requests in for workers to send, and telling the caller how the first attempt ended.

Unlike ``Sender`` this never calls a channel itself: a process with doors but no channel secrets can
serve requests, and whichever worker is free sends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from uns.core.loops.sender import Intake
from uns.core.plans import intake as plans
from uns.core.plans import reading
from uns.core.rules.accept import Accepted
from uns.core.rules.lifecycle import attempted
from uns.core.rules.lineage import onward
from uns.core.rules.projection import unread
from uns.ports.commits import Commits
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import StoreUnavailable
from uns.ports.pubsub import PubSub
from uns.ports.replies import Projection
from uns.ports.requests import SendNotificationRequest
from uns.ports.rows import Notification

POLL_SECONDS = 0.25


class Submitted(Struct, frozen=True):
    """
    A request's row as it stood when the wait was over.

    ``projection`` is None where the row is its own canonical owner. It resolves nothing where the
    store did not answer once the request was accepted: accepted it is, all the same.
    """

    row: Notification
    projection: Projection | None
    replayed: bool


class _Wait:
    """
    One caller's, in its event loop: to be woken by name, or because it had better look.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.woken = asyncio.Event()
        self.over = False

    def end(self) -> None:
        self.over = True
        self.look()

    def look(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.woken.set)


class Submitter:
    """
    Accepts requests, and waits a while for what a worker makes of them.
    """

    def __init__(self, intake: Intake, commits: Commits, pubsub: PubSub) -> None:
        self._intake = intake
        self._commits = commits
        self._settled: dict[str, _Wait] = {}
        self._hurried = False
        pubsub.subscribe(self._listen)

    async def submit(
        self, request: SendNotificationRequest, principal: str, *, wait_seconds: float
    ) -> Submitted:
        """
        Accept durably; then wait for the first settlement, for at most ``wait_seconds``.

        Followers, duplicates and replays have nothing to wait for.
        """
        acceptance = self._intake.ready(request, principal)
        plan = plans.accept(acceptance, self._intake.resolver)
        if wait_seconds <= 0:
            return await self._as_accepted((await self._commits.run(plan)).accepted)
        async with self._expecting(acceptance.id) as wait:
            accepted = (await self._commits.run(plan)).accepted
            if accepted.replayed or attempted(accepted.row):
                return await self._as_accepted(accepted)
            await self._first_settlement(acceptance.id, wait, wait_seconds)
        return await self._as_it_stands(accepted)

    def hurry(self) -> None:
        """
        End every wait, now and from now on: the process is about to leave.

        To be called in the event loop that submits.
        """
        self._hurried = True
        for wait in self._settled.values():
            wait.end()

    async def _as_accepted(self, accepted: Accepted) -> Submitted:
        if onward(accepted.row) is None:
            return Submitted(accepted.row, None, accepted.replayed)
        return await self._as_it_stands(accepted)

    async def _as_it_stands(self, accepted: Accepted) -> Submitted:
        row = accepted.row
        try:
            view = await self._commits.read(reading.view(row.id))
        except StoreUnavailable:
            return Submitted(row, None if onward(row) is None else unread(row), accepted.replayed)
        return Submitted(view.row, view.projection, accepted.replayed)

    async def _first_settlement(self, id: str, wait: _Wait, seconds: float) -> None:
        # A worker's signal ends it; one that does not come through is made up for by looking.
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not self._hurried and (left := until - loop.time()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(wait.woken.wait(), min(left, POLL_SECONDS))
                if wait.over:
                    return
            wait.woken.clear()
            with suppress(StoreUnavailable):
                if attempted((await self._commits.read(reading.view(id))).row):
                    return

    @asynccontextmanager
    async def _expecting(self, id: str) -> AsyncIterator[_Wait]:
        wait = self._settled[id] = _Wait()
        try:
            yield wait
        finally:
            del self._settled[id]

    def _listen(self, signals: Sequence[Signal]) -> None:
        for signal in signals:
            if signal.kind is not SignalKind.SETTLED:
                continue
            if wait := self._settled.get(signal.subject):
                wait.end()
            elif not signal.subject:  # any may have been settled
                for each in list(self._settled.values()):
                    each.look()
