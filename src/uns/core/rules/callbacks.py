"""
The callback outbox: one terminal event, at most three calls, each under a 30-second lease.
"""

from __future__ import annotations

from msgspec.structs import replace

from uns.ports.decision import Change, Decision, Signal, SignalKind
from uns.ports.rows import Event

CALLBACK_LEASE_SECONDS = 30.0
CALLBACK_ATTEMPTS = 3
ERROR_LENGTH = 2000
UNREPORTED = "attempt did not report back"


def claimable(row: Event, now: float) -> bool:
    """
    Whether a courier may call for ``row`` at ``now``.
    """
    return row.callback_pending and row.callback_attempts < CALLBACK_ATTEMPTS and row.callback_until <= now


def claim(row: Event, *, token: str, now: float) -> Decision[Event | None]:
    """
    Lease a due callback. Its attempt is counted here, so that one that kills its caller ends too.
    """
    if row.callback_token == token:
        return Decision(row)
    if not claimable(row, now):
        return Decision(None)
    leased = replace(
        row,
        callback_token=token,
        callback_until=now + CALLBACK_LEASE_SECONDS,
        callback_attempts=row.callback_attempts + 1,
        callback_error=UNREPORTED,
    )
    return Decision(leased, (Change(row, leased),))


def settle(row: Event, *, token: str, error: str | None, now: float) -> Decision[bool]:
    """
    Record what a call came to. ``2 ** attempts`` seconds lie between two calls.

    After the third failure the event stays, with its error, for an operator to re-arm.
    The reply is False when the lease passed to somebody else.
    """
    if row.callback_token != token:
        return Decision(False)
    after = replace(row, callback_token=None, callback_pending=error is not None, callback_error=None)
    if error is not None:
        last = row.callback_attempts >= CALLBACK_ATTEMPTS
        after = replace(
            after,
            callback_until=now if last else now + 2.0**row.callback_attempts,
            callback_error=error[:ERROR_LENGTH] or "callback failed",
        )
    return Decision(True, (Change(row, after),))


def exhausted(row: Event, now: float) -> bool:
    """
    Whether ``row`` has used up its calls and nobody is calling for it.
    """
    return row.callback_pending and row.callback_attempts >= CALLBACK_ATTEMPTS and row.callback_until <= now


def rearm(row: Event, *, now: float) -> Decision[bool]:
    """
    Give an exhausted callback three fresh attempts, due at once.

    True as well when it has all three before it already; False when it is on its way or done.
    """
    if not exhausted(row, now):
        return Decision(row.callback_pending and row.callback_attempts == 0)
    after = replace(row, callback_attempts=0, callback_until=now, callback_token=None, callback_error=None)
    return Decision(True, (Change(row, after),), (), (), (Signal(SignalKind.CALLBACK, row.id),))
