"""
Settling: what one attempt, an answer or an operator makes of a leader decides for its followers too.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from uns.core.rules import lease
from uns.core.rules.events import Stamp
from uns.core.rules.followers import Group, failed_with, relinked, satisfied_by
from uns.core.rules.lease import Claim, Purpose, holds
from uns.core.rules.outcome import Tally
from uns.core.rules.retry import MAX_DELAY_SECONDS, PACED_SECONDS, SHORTEST_PACED_SECONDS, Retry
from uns.ports.decision import Change, Decision, Signal, SignalKind, Sweep
from uns.ports.rows import DedupWindow, DeliveryAudit, Event, Notification, Outcome
from uns.ports.vocabulary import Ack, EventKind, Status

HAND_ON_LIMIT = 3
LEASE_EXPIRED = "lease expired on the final attempt"

RESULT_ID, AUDIT_ID, LOST_ID, HANDED_ID, PROMOTED_ID, ENDED_ID = range(6)


class Settled(StrEnum):
    """
    What became of an attempt's outcome.
    """

    DELIVERED = "DELIVERED"
    BACKED_OFF = "BACKED_OFF"
    FAILED = "FAILED"
    LOST = "LOST"


class SettledBy(StrEnum):
    """
    Who settled a delivery: the worker that sent it, or a human whose answer proves it.
    """

    WORKER = "worker"
    ANSWER = "answer"


def settle(group: Group, claim: Claim, tally: Tally, retry: Retry, stamp: Stamp) -> Decision[Settled]:
    """
    Commit the outcome of the attempt made under ``claim``.

    Args:
        tally: the channels, the successes on record (this attempt's included) and its calls.
        stamp: slot 0 of its ids is the attempt's DELIVERY_RESULT.

    Returns:
        LOST, with one LEASE_LOST event and no change, when the lease is gone.
    """
    row = group.leader
    if not holds(row, claim.token, stamp.now):
        return Decision(Settled.LOST, (), (), (lease.lost(claim, LOST_ID, stamp),))
    if tally.satisfied:
        return satisfy(group, delivered(row, tally.outcome(), stamp.now), stamp)
    spent = _spent(row, tally, stamp.now)
    if row.guaranteed and not tally.hopeless and (spent.gave_back or spent.attempts < retry.budget(row)):
        wait = retry.delay(row.cycle_attempts, retry_after=tally.retry_after or _patience(spent, stamp.now))
        return _back_off(row, spent, tally, stamp.now + wait, stamp)
    if claim.purpose is Purpose.EXHAUSTED:
        error = LEASE_EXPIRED if claim.interrupted else None
        return fail(group, tally.on_top_of(row.outcome, error), stamp)
    return fail(group, tally.outcome(), stamp, paced=tally.paced)


def delivered(row: Notification, outcome: Outcome, now: float) -> Notification:
    """
    ``row`` as it is once delivered: its answer, if one is required, is due from now.
    """
    asks = row.effective.require_ack
    return replace(
        _freed(row),
        status=Status.DELIVERED,
        outcome=outcome,
        delivered_at=now,
        ack_status=Ack.PENDING if asks else None,
        deadline=now + row.effective.ack_seconds if asks else None,
    )


def satisfy(
    group: Group, after: Notification, stamp: Stamp, by: SettledBy = SettledBy.WORKER
) -> Decision[Settled]:
    """
    The leader is delivered, as ``after``: its window is renewed, everyone behind it is satisfied.
    """
    row, window = group.leader, group.window
    changes: list[Change] = [Change(row, after), _audited(after, stamp)]
    sweeps: tuple[Sweep, ...] = ()
    if window is not None and window.owner_id == row.id:
        until = stamp.now + row.effective.dedup_window_seconds
        changes.append(Change(window, replace(window, until=until, followers=0)))
        if window.followers:
            sweeps = (satisfied_by(row, stamp),)
    signals = (Signal(SignalKind.SETTLED, row.id),)
    return Decision(Settled.DELIVERED, tuple(changes), sweeps, (_result(after, stamp, by=by),), signals)


def fail(group: Group, outcome: Outcome, stamp: Stamp, *, paced: bool = False) -> Decision[Settled]:
    """
    The leader failed for good: the first follower inherits, or all of them end with it.

    A generation is handed on at most three times, so that a storm against a dead provider stays
    linear.

    Args:
        paced: whether every call of the last attempt was paced by its provider.
    """
    row, window = group.leader, group.window
    after = replace(_freed(row), status=Status.FAILED, outcome=outcome, dead_letter=row.guaranteed)
    if group.heir is not None and window is not None and window.handed_on < HAND_ON_LIMIT:
        failed = _handed_on(group, window, group.heir, after, stamp)
    else:
        failed = end(group, after, stamp)
    return replace(failed, events=(_result(after, stamp, rate_limited=paced), *failed.events))


def end(group: Group, after: Notification, stamp: Stamp) -> Decision[Settled]:
    """
    End ``group.leader`` as ``after`` and, in one set-based move, every pending row behind it.

    They keep their owner link, are no dead letters, and are counted in one event on the owner.
    """
    changes = (Change(group.leader, after), _audited(after, stamp))
    signals = (Signal(SignalKind.SETTLED, after.id),)
    if not group.waiting:
        return Decision(Settled.FAILED, changes, (), (), signals)
    counted = stamp.event(
        EventKind.DEDUP_FAILED_WITH_OWNER,
        after.id,
        ENDED_ID,
        owner_id=after.id,
        generation=after.dedup_generation,
        count=group.waiting,
    )
    return Decision(Settled.FAILED, changes, (failed_with(after),), (counted,), signals)


def _handed_on(
    group: Group, window: DedupWindow, heir: Notification, after: Notification, stamp: Stamp
) -> Decision[Settled]:
    after = replace(after, dedup_successor_id=heir.id)
    promoted = replace(heir, dedup_owner_id=None, next_attempt=stamp.now)
    moved = replace(window, owner_id=heir.id, handed_on=window.handed_on + 1, followers=group.waiting - 1)
    link = {"previous_owner_id": after.id, "owner_id": heir.id, "generation": after.dedup_generation}
    events = (
        stamp.event(
            EventKind.OBLIGATION_HANDED_OFF,
            after.id,
            HANDED_ID,
            successor_id=heir.id,
            generation=after.dedup_generation,
        ),
        stamp.event(EventKind.DEDUP_OWNER_PROMOTED, heir.id, PROMOTED_ID, **link),
    )
    sweeps = (relinked(link, stamp),) if group.waiting > 1 else ()
    changes = (
        Change(group.leader, after),
        Change(heir, promoted),
        Change(window, moved),
        _audited(after, stamp),
    )
    signals = (Signal(SignalKind.SETTLED, after.id), Signal(SignalKind.DUE, heir.id))
    return Decision(Settled.FAILED, changes, sweeps, events, signals)


class _Spent(Struct, frozen=True, gc=False):
    attempts: int
    paced_since: float | None
    gave_back: bool


def _spent(row: Notification, tally: Tally, now: float) -> _Spent:
    # An attempt that every provider paced costs nothing, for 900 s from the cycle's first pacing;
    # else a provider could hold a row in the outbox for ever.
    if not tally.paced:
        return _Spent(row.cycle_attempts, row.paced_since, False)
    since = now if row.paced_since is None else row.paced_since
    if not row.guaranteed or now - since >= PACED_SECONDS:
        return _Spent(row.cycle_attempts, since, False)
    return _Spent(row.cycle_attempts - 1, since, True)


def _patience(spent: _Spent, now: float) -> float | None:
    # A provider that paces and does not say for how long: its attempts are given back, so their
    # number cannot make the waits grow. As long again as it has lasted does.
    if not spent.gave_back or spent.paced_since is None:
        return None
    return min(max(now - spent.paced_since, SHORTEST_PACED_SECONDS), MAX_DELAY_SECONDS)


def _back_off(row: Notification, spent: _Spent, tally: Tally, due: float, stamp: Stamp) -> Decision[Settled]:
    after = replace(
        _freed(row),
        outcome=tally.outcome(),
        next_attempt=due,
        cycle_attempts=spent.attempts,
        paced_since=spent.paced_since,
    )
    result = _result(after, stamp, cycle_attempt=row.cycle_attempts, rate_limited=tally.paced)
    changes = (Change(row, after), _audited(after, stamp))
    return Decision(Settled.BACKED_OFF, changes, (), (result,), (Signal(SignalKind.SETTLED, row.id),))


def _freed(row: Notification) -> Notification:
    return replace(row, lease_token=None, lease_until=0.0)


def _result(
    after: Notification,
    stamp: Stamp,
    *,
    cycle_attempt: int | None = None,
    rate_limited: bool = False,
    by: SettledBy = SettledBy.WORKER,
) -> Event:
    return stamp.event(
        EventKind.DELIVERY_RESULT,
        after.id,
        RESULT_ID,
        status=after.status,
        attempt=after.attempts,
        cycle=after.cycle,
        cycle_attempt=after.cycle_attempts if cycle_attempt is None else cycle_attempt,
        dead_letter=after.dead_letter,
        outcome=after.outcome,
        rate_limited=rate_limited,
        settled_by=by,
    )


def _audited(after: Notification, stamp: Stamp) -> Change:
    outcome = after.outcome
    return Change(
        None,
        DeliveryAudit(
            id=stamp.ids.nth(AUDIT_ID),
            notification_id=after.id,
            notification_type=after.notification_type,
            status=after.status,
            channels_attempted=outcome.channels_attempted,
            channels_succeeded=outcome.channels_succeeded,
            channels_failed=outcome.channels_failed,
            error_message=outcome.error_message,
            intent=after.intent,
            delivery_mode=after.delivery_mode,
            autonomy_mode=after.autonomy_mode,
            agent_id=after.agent_id,
            policy_config_id=after.policy_id,
            policy_config_hash=after.policy_hash,
            delivered_at=after.delivered_at,
            created_at=stamp.now,
        ),
    )
