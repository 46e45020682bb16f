"""
The dispatch of one notification: claim, call the channels outside any transaction, settle.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from uns.core.loops.caller import RESERVE_SECONDS, Caller
from uns.core.loops.destinations import Destinations
from uns.core.plans import dispatch as plans
from uns.core.rules.attempt import Go
from uns.core.rules.lease import LEASE_SECONDS, Bearer, Claim, Purpose
from uns.core.rules.outcome import Call
from uns.core.rules.retry import Retry
from uns.core.rules.room import Room
from uns.core.rules.settle import Settled
from uns.ports.channel import ChannelRegistry
from uns.ports.commits import Commits
from uns.ports.rows import Notification
from uns.ports.sources import Chance, Clock, Ids, NewId


class Sources(Struct, frozen=True):
    """
    Where a process takes time, identity and chance from.
    """

    clock: Clock
    new_id: NewId
    chance: Chance

    def ids(self) -> Ids:
        """
        A fresh block of ids.
        """
        return Ids(self.new_id())


class Dispatcher:
    """
    Carries claims to their end. Decides nothing: rules do.
    """

    def __init__(self, commits: Commits, channels: ChannelRegistry, sources: Sources, retry: Retry) -> None:
        self._commits = commits
        self._channels = channels
        self._sources = sources
        self._retry = retry
        self._caller = Caller(channels, sources.clock)

    @property
    def overdue(self) -> int:
        """
        Channel calls that were given up and still take up room.
        """
        return self._caller.overdue

    def overdue_to(self) -> Counter[str]:
        """
        The same by destination.
        """
        return self._caller.overdue_to()

    @property
    def destinations(self) -> Destinations:
        """
        Where rows go.
        """
        return self._caller.destinations

    @property
    def channels(self) -> frozenset[str]:
        """
        The channels this process can call.
        """
        return frozenset(self._channels.names())

    def bearer(self, *, starts: bool) -> Bearer:
        """
        A fresh token for one claim.
        """
        return Bearer(self._sources.new_id(), self._retry, starts)

    async def dispatch(self, id: str) -> bool:
        """
        Attempt one notification now. False when it is not claimable or the lease was lost.
        """
        leased_at = asyncio.get_running_loop().time()
        claim = await self._commits.run(plans.claim(id, self.bearer(starts=True), self.channels))
        return claim is not None and await self.carry(claim, leased_at) is not None

    async def claim_due(self, limit: int, room: Room | None = None) -> Sequence[Claim]:
        """
        Lease up to ``limit`` due notifications that there is ``room`` for. Nothing is started yet.
        """
        bearers = [self.bearer(starts=False) for _ in range(limit)]
        return await self._commits.run(plans.claim_due(bearers, self.channels, room))

    async def give_back(self, claim: Claim) -> None:
        """
        Return a lease under which nothing was started.
        """
        await self._commits.run(plans.give_back(claim, self._sources.ids()))

    async def carry(self, claim: Claim, leased_at: float) -> Notification | None:
        """
        Take a claim to its settlement; the settled row, or None when the lease was lost.

        Args:
            leased_at: the event loop's time before the claiming plan was queued; the lease ends
                no earlier than 60 s after it.
        """
        if claim.purpose is not Purpose.SEND:
            return await self._conclude(claim, ())
        channels = claim.calls
        if not channels:
            leased_at = asyncio.get_running_loop().time()
            started = await self._commits.run(plans.start(claim, self._sources.ids()))
            if started.go is not Go.CALL:
                return None if started.go is Go.LOST else await self._conclude(claim, ())
            channels = started.calls
        calls = await self._call(claim, channels, leased_at)
        if calls is None:
            return None
        if _may_fall_back(claim, calls):
            return await self._fall_back(claim, calls)
        return await self._conclude(claim, calls)

    async def _fall_back(self, claim: Claim, calls: tuple[Call, ...]) -> Notification | None:
        leased_at = asyncio.get_running_loop().time()
        plan = plans.fall_back(claim, calls, result_ids=self._sources.ids(), ids=self._sources.ids())
        started = await self._commits.run(plan)
        if started.go is Go.LOST:
            return None
        if started.go is Go.SETTLE:
            return await self._conclude(claim, (), calls)
        more = await self._call(claim, started.calls, leased_at)
        return None if more is None else await self._conclude(claim, more, calls)

    async def _call(self, claim: Claim, channels: Sequence[str], leased_at: float) -> tuple[Call, ...] | None:
        # Time spent in queues comes off the lease. Where too little is left for the slowest channel,
        # the lease is renewed; what the renewal itself took comes off the calls: none may outlast it.
        loop = asyncio.get_running_loop()
        left = leased_at + LEASE_SECONDS - RESERVE_SECONDS - loop.time()
        short = left < self._caller.limit(channels)
        while short:
            leased_at = loop.time()
            if not await self._commits.run(plans.renew(claim, self._sources.ids())):
                return None
            left = leased_at + LEASE_SECONDS - RESERVE_SECONDS - loop.time()
            short = left <= 0
        return await self._caller.call(claim, channels, left)

    async def _conclude(
        self, claim: Claim, calls: tuple[Call, ...], earlier: tuple[Call, ...] = ()
    ) -> Notification | None:
        retry = replace(self._retry, jitter=self._sources.chance.fraction())
        plan = plans.conclude(claim, calls, earlier=earlier, retry=retry, ids=self._sources.ids())
        concluded = await self._commits.run(plan)
        return None if concluded.settled is Settled.LOST else concluded.row


def _may_fall_back(claim: Claim, calls: Sequence[Call]) -> bool:
    return bool(claim.row.effective.channels.fallback) and not any(call.result.success for call in calls)
