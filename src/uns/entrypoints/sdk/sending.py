"""
Sending: accept, dispatch, work, call back.
"""

from __future__ import annotations

import asyncio

from uns.core.loops.worker import Worker
from uns.core.plans import intake, response
from uns.core.rules.lineage import onward
from uns.entrypoints import views
from uns.entrypoints.sdk.face import Id, id_of
from uns.entrypoints.sdk.responding import Responding
from uns.ports.replies import SendNotificationResponse, SimulationResponse
from uns.ports.requests import SendNotificationRequest

RUN_ONCE = 100


class Sending(Responding):
    """
    What producers and workers do.
    """

    def accept(self, request: SendNotificationRequest, *, principal: str) -> SendNotificationResponse:
        """
        Accept a request durably and leave its dispatch to a worker.

        Raises:
            ValueError: no principal, no policy, a forbidden override or protected metadata.
            Conflict: the idempotency key was used for another request.
        """
        taken = self._call(self._ledger.intake.accept(request, principal)).accepted
        return self._sent(taken.row, replayed=taken.replayed)

    async def send(self, request: SendNotificationRequest, *, principal: str) -> SendNotificationResponse:
        """
        Accept a request and attempt its delivery once.

        Returns after that attempt has settled; a follower, a duplicate or an idempotent replay
        returns at once. What failed is tried again by a worker.
        """
        done = await self._ledger.sender.send(request, principal)
        if onward(done.row) is None:
            return views.sent(done.row, None, replayed=done.replayed)
        return await asyncio.to_thread(self._sent, done.row, replayed=done.replayed)

    def simulate(self, request: SendNotificationRequest, *, principal: str) -> SimulationResponse:
        """
        What a request would resolve to. No side effects.
        """
        acceptance = self._ledger.intake.ready(request, principal)
        resolved = self._read(intake.simulate(request, self._ledger.resolver))
        return views.simulated(acceptance, resolved)

    async def dispatch(self, notification_id: Id) -> bool:
        """
        Attempt one notification now.

        False when it is unknown, not claimable, or its lease was lost; True once an outcome was
        committed, whatever it is.
        """
        id = id_of(notification_id)
        return id is not None and await self._ledger.dispatcher.dispatch(id)

    async def run_once(self) -> int:
        """
        Attempt up to a hundred due notifications, and time out every overdue response.

        Callbacks are not awaited (see ``deliver_callbacks``). Returns how many were attempted.
        """
        dispatcher = self._ledger.dispatcher
        leased_at = asyncio.get_running_loop().time()
        claims = await dispatcher.claim_due(RUN_ONCE)
        carried = (dispatcher.carry(claim, leased_at) for claim in claims)
        done = await asyncio.gather(*carried, return_exceptions=True)
        while await self._ledger.sweeper.sweep() == response.SWEEP_LIMIT:
            pass
        for outcome in done:
            if isinstance(outcome, BaseException):  # told last: one row must not keep the rest waiting
                raise outcome
        return len(claims)

    async def worker(self, stop: asyncio.Event | None = None) -> None:
        """
        Dispatch, time out and call back until cancelled, or until ``stop`` is set.
        """
        await self.new_worker().run(stop if stop is not None else asyncio.Event())

    def new_worker(self) -> Worker:
        """
        The three loops, not yet running; ``beats`` and ``healthy`` tell how they fare.
        """
        ledger = self._ledger
        return Worker(ledger.dispatcher, ledger.sweeper, ledger.courier, ledger.pubsub)

    async def deliver_callbacks(self) -> None:
        """
        Deliver up to a hundred due callbacks, each within ten seconds.
        """
        if self._ledger.courier is not None:
            await self._ledger.courier.deliver(RUN_ONCE)
