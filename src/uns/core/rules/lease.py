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

    ``interrupted`` is for EXHAUSTED: the lease of the last attempt lapsed, so what it came to is unknown.
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
    Who claims: a fresh token, the budget rules of its process, and the ids for one claim.

    ``starts`` begins the primaries in the claiming transaction, for a caller with a free slot.
    """

    token: str
    ids: Ids
    retry: Retry = Retry()
    starts: bool = False


def claim(row: Notification, copies: Sequence[Copy], bearer: Bearer, now: float) -> Decision[Claim]:
    """
    Lease a claimable ``row`` to ``bearer`` for 60 seconds.

    Where the successes on record suffice, or the budget of the cycle is used up (its last worker
    died, or the budget was lowered), no attempt is counted and nothing is started: the bearer is to
    settle.
    """
    token, stamp = bearer.token, Stamp(bearer.ids, now)
    tally = Tally(row.effective.channels, frozenset(copy.channel for copy in copies))
    leased = replace(row, lease_token=token, lease_until=now + LEASE_SECONDS)
    if tally.satisfied:
        settling = Claim(leased, token, Purpose.SATISFIED)
        return Decision(settling, (Change(row, leased),), (), (_recovery(row, Purpose.SATISFIED, stamp),))
    if row.cycle_attempts >= bearer.retry.budget(row):
        settling = Claim(leased, token, Purpose.EXHAUSTED, interrupted=row.lease_token is not None)
        return Decision(settling, (Change(row, leased),), (), (_recovery(row, Purpose.EXHAUSTED, stamp),))
    counted = replace(leased, attempts=row.attempts + 1, cycle_attempts=row.cycle_attempts + 1)
    begun = stamp.event(
        EventKind.ATTEMPT_STARTED,
        row.id,
        0,
        attempt=counted.attempts,
        cycle=counted.cycle,
        cycle_attempt=counted.cycle_attempts,
        recovery_may_repeat_provider_effect=row.lease_token is not None,
    )
    sent = Claim(counted, token, Purpose.SEND, tally.to_call() if bearer.starts else ())
    return Decision(sent, (Change(row, counted),), (), (begun, *starts(sent, sent.calls, stamp)))


def resume(row: Notification, copies: Sequence[Copy], bearer: Bearer, begun: Event | None = None) -> Claim:
    """
    The claim that ``bearer`` already holds: its first COMMIT's answer was lost.

    Args:
        begun: the event that the claim wrote; None for an attempt's.
    """
    tally = Tally(row.effective.channels, frozenset(copy.channel for copy in copies))
    if tally.satisfied:
        return Claim(row, bearer.token, Purpose.SATISFIED)
    if begun is None or begun.kind is not EventKind.RECOVERY_STARTED:
        return Claim(row, bearer.token, Purpose.SEND, tally.to_call() if bearer.starts else ())
    expired = bool(begun.details["lease_expired"])
    return Claim(row, bearer.token, Purpose.EXHAUSTED, interrupted=expired)


def _recovery(row: Notification, purpose: Purpose, stamp: Stamp) -> Event:
    # It explains a lease without an attempt, and tells the claim again when its plan runs twice.
    return stamp.event(
        EventKind.RECOVERY_STARTED,
        row.id,
        0,
        purpose=purpose,
        attempt=row.attempts,
        cycle=row.cycle,
        cycle_attempt=row.cycle_attempts,
        lease_expired=row.lease_token is not None,
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


def give_back(row: Notification, *, token: str, stamp: Stamp, counted: bool = True) -> Decision[bool]:
    """
    Return a lease before anything was started: its attempt does not count.

    The reply is False, and nothing changes, when the lease is gone already.

    Args:
        counted: whether the claim had counted an attempt; one that was only to settle had not.
    """
    if not holds(row, token, stamp.now):
        return Decision(False)
    if not counted:
        return Decision(True, (Change(row, replace(row, lease_token=None, lease_until=0.0)),))
    freed = replace(
        row,
        lease_token=None,
        lease_until=0.0,
        attempts=row.attempts - 1,
        cycle_attempts=row.cycle_attempts - 1,
    )
    returned = stamp.event(EventKind.ATTEMPT_RETURNED, row.id, 0, lease_token=token, attempt=row.attempts)
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
