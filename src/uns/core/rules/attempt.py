"""
The channel calls of one attempt: started under a lease, recorded whether or not it still stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from uns.core.rules import lease
from uns.core.rules.events import Stamp
from uns.core.rules.lease import LEASE_SECONDS, Claim, holds
from uns.core.rules.outcome import Call, Tally
from uns.ports.decision import Change, Decision
from uns.ports.rows import Copy, Notification
from uns.ports.vocabulary import EventKind

COPY_SENT = "SENT"
LOST_ID = 1


class Go(StrEnum):
    """
    What the bearer of a lease is to do after it asked to start calls.
    """

    CALL = "CALL"
    SETTLE = "SETTLE"
    LOST = "LOST"


class Started(Struct, frozen=True):
    """
    The calls that were started, and the successes on record at that moment.
    """

    go: Go
    calls: tuple[str, ...] = ()


def start(
    row: Notification, claim: Claim, copies: Sequence[Copy], done: Sequence[Call], stamp: Stamp
) -> Decision[Started]:
    """
    Start the channels that are next: the primaries, or after them (``done``) the fallbacks.

    Verifies the lease and renews it to a full 60 seconds. A channel with a success on record is
    not started again; when those on record suffice, nothing is.
    """
    if not holds(row, claim.token, stamp.now):
        return Decision(Started(Go.LOST), (), (), (lease.lost(claim, LOST_ID, stamp),))
    tally = Tally(row.effective.channels, frozenset(copy.channel for copy in copies), tuple(done))
    if tally.satisfied:
        return Decision(Started(Go.SETTLE))
    channels = tally.fallbacks() if done else tally.to_call()
    if not channels:
        return Decision(Started(Go.SETTLE))
    renewed = replace(row, lease_until=stamp.now + LEASE_SECONDS)
    started = lease.starts(claim, channels, stamp)
    return Decision(Started(Go.CALL, channels), (Change(row, renewed),), (), started)


def renew(row: Notification, claim: Claim, stamp: Stamp) -> Decision[bool]:
    """
    Extend the lease to a full 60 seconds before a call that had to wait for its turn.
    """
    if not holds(row, claim.token, stamp.now):
        return Decision(False, (), (), (lease.lost(claim, LOST_ID, stamp),))
    return Decision(True, (Change(row, replace(row, lease_until=stamp.now + LEASE_SECONDS)),))


def record(
    claim: Claim, calls: Sequence[Call], copies: Sequence[Copy], stamp: Stamp
) -> Decision[tuple[Copy, ...]]:
    """
    Append what the providers said, and put each new success on record.

    The reply is the successes on record afterwards.
    """
    known = {copy.channel for copy in copies}
    fresh = tuple(
        _copy(claim, call, stamp.now) for call in calls if call.result.success and call.channel not in known
    )
    results = tuple(
        stamp.event(
            EventKind.CHANNEL_ATTEMPT_RESULT,
            claim.id,
            lease.CALL_IDS + n,
            lease_token=claim.token,
            attempt=claim.row.attempts,
            cycle=claim.row.cycle,
            cycle_attempt=claim.row.cycle_attempts,
            channel=call.channel,
            success=call.result.success,
            message_id=call.result.message_id,
            error=call.result.error,
            metadata=call.result.metadata,
            provider_observed_at=call.observed_at,
        )
        for n, call in enumerate(calls)
    )
    return Decision((*copies, *fresh), tuple(Change(None, copy) for copy in fresh), (), results)


def _copy(claim: Claim, call: Call, now: float) -> Copy:
    return Copy(
        notification_id=claim.id,
        channel=call.channel,
        ref=call.result.message_id,
        routing=None,
        state=COPY_SENT,
        at=now,
    )
