"""
Lease fencing: who may dispatch a notification, until when, and in which order.

A lease ends *at* ``lease_until``. The token, not the time, decides who may settle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from uns.core.rules.events import Stamp
from uns.core.rules.outcome import Tally
from uns.core.rules.retry import Retry
from uns.ports.decision import Change, Decision
from uns.ports.rows import Copy, Event, Notification
from uns.ports.sources import Ids
from uns.ports.vocabulary import EventKind, Priority, Status

LEASE_SECONDS = 60.0
AGEING_SECONDS = 600.0
BEGUN_ID = 0
"""Of the event that a claim writes, in the block of its token."""

RETURNED_ID = 0
CALL_IDS = 0x10
_CLASS = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}


class Purpose(StrEnum):
    """
    What the bearer of a claim is to do.
    """

    SEND = "SEND"
    SATISFIED = "SATISFIED"
    EXHAUSTED = "EXHAUSTED"


class Claim(Struct, frozen=True, gc=False):
    """
    A leased row. ``calls`` are the channels started with it, in the same transaction.

    ``interrupted``: the attempt before this lease never reported back, so what it came to is unknown.
    """

    row: Notification
    token: str
    purpose: Purpose
    calls: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def id(self) -> str:
        return self.row.id


def claimable(row: Notification, now: float) -> bool:
    """
    Whether a worker may lease ``row`` at ``now``.
    """
    return row.status is Status.PENDING and row.leads and row.next_attempt <= now and row.lease_until <= now


def servable(row: Notification, channels: frozenset[str]) -> bool:
    """
    Whether a process with these adapters can dispatch ``row``.
    """
    return channels.issuperset(row.effective.all_channels)


def holds(row: Notification, token: str, now: float) -> bool:
    """
    Whether ``token`` still fences ``row``.
    """
    return row.lease_token == token and row.lease_until > now


def in_order(rows: Iterable[Notification], now: float) -> list[Notification]:
    """
    Dispatch order: priority class, then ``next_attempt``.

    Every ten minutes of waiting raise a row by one class, up to HIGH.
    """

    def rank(row: Notification) -> tuple[int, float, str]:
        raised = int(max(now - row.next_attempt, 0.0) // AGEING_SECONDS)
        return max(_CLASS[row.priority] - raised, 0), row.next_attempt, row.id

    return sorted(rows, key=rank)


class Bearer(Struct, frozen=True, gc=False):
    """
    Who claims: a fresh token, and the budget rules of its process.

    ``starts`` begins the primaries in the claiming transaction, for a caller with a free slot.
    """

    token: str
    retry: Retry = Retry()
    starts: bool = False

    @property
    def ids(self) -> Ids:
        """
        The block that the token reserves: whoever finds a token on a row finds what its claim wrote.
        """
        return Ids(self.token)


def claim(
    row: Notification, copies: Sequence[Copy], bearer: Bearer, now: float, lapsed: Event | None = None
) -> Decision[Claim]:
    """
    Lease a claimable ``row`` to ``bearer`` for 60 seconds.

    Where the successes on record suffice, or the budget of the cycle is used up (its last worker
    died, or the budget was lowered), no attempt is counted and nothing is started: the bearer is to
    settle.

    Args:
        lapsed: the event that the claim before wrote, where its token is still on the row.
    """
    token, stamp, interrupted = bearer.token, Stamp(bearer.ids, now), _interrupted(row, lapsed)
    tally = Tally(row.effective.channels, frozenset(copy.channel for copy in copies))
    leased = replace(row, lease_token=token, lease_until=now + LEASE_SECONDS)
    spent = row.cycle_attempts >= bearer.retry.budget(row)
    if tally.satisfied or spent:
        purpose = Purpose.SATISFIED if tally.satisfied else Purpose.EXHAUSTED
        settling = Claim(leased, token, purpose, interrupted=interrupted)
        return Decision(settling, (Change(row, leased),), (), (_recovery(settling, stamp),))
    counted = replace(leased, attempts=row.attempts + 1, cycle_attempts=row.cycle_attempts + 1)
    begun = stamp.event(
        EventKind.ATTEMPT_STARTED,
        row.id,
        BEGUN_ID,
        attempt=counted.attempts,
        cycle=counted.cycle,
        cycle_attempt=counted.cycle_attempts,
        recovery_may_repeat_provider_effect=interrupted,
    )
    calls = tally.to_call() if bearer.starts else ()
    sent = Claim(counted, token, Purpose.SEND, calls, interrupted)
    return Decision(sent, (Change(row, counted),), (), (begun, *starts(sent, sent.calls, stamp)))


def resume(row: Notification, copies: Sequence[Copy], bearer: Bearer, begun: Event | None = None) -> Claim:
    """
    The claim that ``bearer`` already holds: its first COMMIT's answer was lost.

    Args:
        begun: the event that the claim wrote; None for an attempt's.
    """
    tally = Tally(row.effective.channels, frozenset(copy.channel for copy in copies))
    settles = begun is not None and begun.kind is EventKind.RECOVERY_STARTED
    told = begun.details if begun is not None else {}
    interrupted = bool(told.get("lease_expired" if settles else "recovery_may_repeat_provider_effect"))
    if tally.satisfied:
        return Claim(row, bearer.token, Purpose.SATISFIED, interrupted=interrupted)
    if settles:
        return Claim(row, bearer.token, Purpose.EXHAUSTED, interrupted=interrupted)
    calls = tally.to_call() if bearer.starts else ()
    return Claim(row, bearer.token, Purpose.SEND, calls, interrupted)


def _interrupted(row: Notification, lapsed: Event | None) -> bool:
    # A lease that was only to settle made no attempt: what it found out about the last one stays true.
    if row.lease_token is None:
        return False
    if lapsed is None or lapsed.kind is not EventKind.RECOVERY_STARTED:
        return True
    return bool(lapsed.details["lease_expired"])


def _recovery(claim: Claim, stamp: Stamp) -> Event:
    # It explains a lease without an attempt, and tells the claim again when its plan runs twice.
    return stamp.event(
        EventKind.RECOVERY_STARTED,
        claim.id,
        BEGUN_ID,
        purpose=claim.purpose,
        attempt=claim.row.attempts,
        cycle=claim.row.cycle,
        cycle_attempt=claim.row.cycle_attempts,
        lease_expired=claim.interrupted,
    )


def starts(claim: Claim, channels: Sequence[str], stamp: Stamp) -> tuple[Event, ...]:
    """
    One CHANNEL_ATTEMPT_STARTED for each channel about to be called.
    """
    return tuple(
        stamp.event(
            EventKind.CHANNEL_ATTEMPT_STARTED,
            claim.id,
            CALL_IDS + n,
            channel=channel,
            lease_token=claim.token,
            attempt=claim.row.attempts,
            cycle=claim.row.cycle,
            cycle_attempt=claim.row.cycle_attempts,
            provider_effect_may_have_occurred=True,
        )
        for n, channel in enumerate(channels)
    )


def give_back(row: Notification, claim: Claim, stamp: Stamp) -> Decision[bool]:
    """
    Return a lease before anything was started: its attempt, if it had counted one, does not count.

    Where the attempt before it never reported back the token stays, over a lease that ends now: as
    after a lease that lapsed, the next claim is to know. The reply is False, and nothing changes,
    when the lease is gone already.
    """
    if not holds(row, claim.token, stamp.now):
        return Decision(False)
    if claim.interrupted:
        freed = replace(row, lease_until=stamp.now)
    else:
        freed = replace(row, lease_token=None, lease_until=0.0)
    if claim.purpose is not Purpose.SEND:
        return Decision(True, (Change(row, freed),))
    freed = replace(freed, attempts=row.attempts - 1, cycle_attempts=row.cycle_attempts - 1)
    returned = stamp.event(
        EventKind.ATTEMPT_RETURNED, row.id, RETURNED_ID, lease_token=claim.token, attempt=row.attempts
    )
    return Decision(True, (Change(row, freed),), (), (returned,))


def lost(claim: Claim, slot: int, stamp: Stamp) -> Event:
    """
    LEASE_LOST: the bearer's local outcome was not taken over.
    """
    return stamp.event(
        EventKind.LEASE_LOST,
        claim.id,
        slot,
        lease_token=claim.token,
        attempt=claim.row.attempts,
        provider_effect_may_have_occurred=True,
    )
