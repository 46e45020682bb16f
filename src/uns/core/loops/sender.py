"""
Taking requests in, and sending at once what can be sent at once.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec import Struct

from uns.core.loops.dispatcher import Dispatcher, Sources
from uns.core.plans import intake as plans
from uns.core.plans.intake import Taken
from uns.core.rules.accept import Acceptance
from uns.core.rules.digest import content_dedup_key, fingerprint, idempotency_digest
from uns.core.rules.intake_checks import check_producer
from uns.core.rules.lease import Claim
from uns.core.rules.policy import Resolver
from uns.ports.checks import name
from uns.ports.commits import Commits
from uns.ports.errors import StoreUnavailable
from uns.ports.requests import SendNotificationRequest
from uns.ports.rows import Notification
from uns.ports.sources import Ids
from uns.ports.store import Plan

_principal = name(255)
_log = logging.getLogger(__name__)


class Sent(Struct, frozen=True):
    """
    The stored row as acceptance or the first attempt left it.
    """

    row: Notification
    replayed: bool


class Intake:
    """
    Makes requests ready for the ledger. No IO: sync and async doors share it.

    Args:
        wants_callback: whether rows accepted here want their response called back.
    """

    def __init__(self, resolver: Resolver, sources: Sources, *, wants_callback: bool) -> None:
        self.resolver = resolver
        self._sources = sources
        self._wants_callback = wants_callback

    def ready(self, request: SendNotificationRequest, principal: str) -> Acceptance:
        """
        Check, identify and digest a producer's request.

        Raises:
            Rejected: no principal, a reserved type or a protected metadata key.
        """
        _principal(principal, "principal")
        check_producer(request)
        id = self._sources.new_id()
        # Without an idempotency key the fresh id stands in: such a request is never a replay.
        key = request.idempotency_key if request.idempotency_key is not None else id
        return Acceptance(
            id=id,
            ids=Ids(id),
            request=request,
            principal=principal,
            key=idempotency_digest(principal, request.source, key),
            fingerprint=fingerprint(request),
            dedup_key=request.dedup_key or content_dedup_key(request),
            wants_callback=self._wants_callback,
        )

    def accept(self, request: SendNotificationRequest, principal: str) -> Plan[Taken]:
        """
        The plan that accepts a request and leaves dispatch to a worker.
        """
        return plans.accept(self.ready(request, principal), self.resolver)


class Sender:
    """
    Accepts and dispatches in two transactions: acceptance with claim and start, then the outcome.
    """

    def __init__(self, intake: Intake, commits: Commits, dispatcher: Dispatcher) -> None:
        self._intake = intake
        self._commits = commits
        self._dispatcher = dispatcher

    async def send(self, request: SendNotificationRequest, principal: str) -> Sent:
        """
        Accept, and attempt delivery once unless the request was known or is coalesced.
        """
        acceptance = self._intake.ready(request, principal)
        bearer = self._dispatcher.bearer(starts=True)
        leased_at = asyncio.get_running_loop().time()
        taken = await self._commits.run(
            plans.accept(acceptance, self._intake.resolver, bearer=bearer, channels=self._dispatcher.channels)
        )
        row = taken.accepted.row
        if taken.claim is not None:
            row = await self._carried(taken.claim, leased_at) or row
        return Sent(row, taken.accepted.replayed)

    async def _carried(self, claim: Claim, leased_at: float) -> Notification | None:
        # It is accepted, whatever becomes of this attempt: the caller must hear its id, and a
        # worker goes on once the lease has lapsed.
        try:
            return await self._dispatcher.carry(claim, leased_at)
        except StoreUnavailable:
            _log.exception("the first attempt of %s was not settled; its lease will lapse", claim.id)
            return None
