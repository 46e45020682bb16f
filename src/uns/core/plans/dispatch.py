"""
Claim, start, record and settle: the transactions around the channel calls of an attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from uns.core.plans.groups import group_of, window_of
from uns.core.rules import attempt, lease, settle
from uns.core.rules.attempt import Go, Started
from uns.core.rules.events import Stamp
from uns.core.rules.lease import Bearer, Claim
from uns.core.rules.outcome import Call, Tally
from uns.core.rules.retry import Retry
from uns.core.rules.room import Room, fitting
from uns.core.rules.settle import Settled
from uns.ports.queries import CopiesOf, Due, EventsWithIds
from uns.ports.rows import Copy, Event, Notification
from uns.ports.sources import Ids
from uns.ports.store import STARTING, Plan, Tx, Wants
from uns.ports.vocabulary import Status


class Concluded(msgspec.Struct, frozen=True):
    """
    What became of an attempt, and the row afterwards (None: there is no such row).
    """

    settled: Settled
    row: Notification | None


def claim(id: str, bearer: Bearer, channels: frozenset[str]) -> Plan[Claim | None]:
    """
    Lease one notification, if it is claimable and this process has its ``channels``.
    """

    def run(tx: Tx) -> Claim | None:
        row = tx.get(Notification, id)
        return None if row is None else _claim(tx, row, bearer, channels, _past(tx, row))

    return Plan(run, Wants(rows=(id,), copies=(id,)), STARTING)


def claim_due(
    bearers: Sequence[Bearer], channels: frozenset[str], room: Room | None = None
) -> Plan[tuple[Claim, ...]]:
    """
    Lease up to one due notification for each bearer, most urgent first.

    Args:
        room: what there is to be started; rows that do not fit are passed over.
    """

    def run(tx: Tx) -> tuple[Claim, ...]:
        begun = tx.find(EventsWithIds(tuple(bearer.ids.nth(lease.BEGUN_ID) for bearer in bearers)))
        used = {event.id for event in begun}
        fresh = [bearer for bearer in bearers if bearer.ids.nth(lease.BEGUN_ID) not in used]
        full = room.full if room is not None else ()
        proposed = tx.find(Due(tuple(sorted(channels)), len(fresh), full))
        in_order: Iterable[Notification] = lease.in_order(proposed, tx.now)
        chosen = in_order if room is None else fitting(in_order, room)
        pairs = _held(tx, bearers, begun) + list(zip(chosen, fresh, strict=False))
        read = [(row, bearer, _past(tx, row)) for row, bearer in pairs]  # all, before the first is leased
        claims = [_claim(tx, row, bearer, channels, past) for row, bearer, past in read]
        return tuple(claim for claim in claims if claim is not None)

    return Plan(run, lane=STARTING)


def start(claim: Claim, ids: Ids) -> Plan[Started]:
    """
    Start the primaries of a claim that came without calls.
    """

    def run(tx: Tx) -> Started:
        row = tx.get(Notification, claim.id)
        if row is None:
            return Started(Go.LOST)
        copies = tx.find(CopiesOf(claim.id))
        return tx.apply(attempt.start(row, claim, copies, (), Stamp(ids, tx.now)))

    return Plan(run, Wants(rows=(claim.id,), copies=(claim.id,)))


def renew(claim: Claim, ids: Ids) -> Plan[bool]:
    """
    Renew the lease before calls that waited too long for their turn.
    """

    def run(tx: Tx) -> bool:
        row = tx.get(Notification, claim.id)
        return row is not None and tx.apply(attempt.renew(row, claim, Stamp(ids, tx.now)))

    return Plan(run, Wants(rows=(claim.id,)))


def fall_back(claim: Claim, calls: Sequence[Call], *, result_ids: Ids, ids: Ids) -> Plan[Started]:
    """
    Record what the primaries said, and start the fallbacks.
    """

    def run(tx: Tx) -> Started:
        row = tx.get(Notification, claim.id)
        copies = tx.find(CopiesOf(claim.id))
        on_record = tx.apply(attempt.record(claim, calls, copies, Stamp(result_ids, tx.now)))
        if row is None:
            return Started(Go.LOST)
        return tx.apply(attempt.start(row, claim, on_record, calls, Stamp(ids, tx.now)))

    return Plan(run, Wants(rows=(claim.id,), copies=(claim.id,)))


def conclude(
    claim: Claim,
    calls: Sequence[Call],
    *,
    earlier: Sequence[Call] = (),
    retry: Retry,
    ids: Ids,
) -> Plan[Concluded]:
    """
    Record what the last calls said and settle the attempt.

    Args:
        calls: results not recorded yet.
        earlier: results of this attempt that are on record already.
    """

    def run(tx: Tx) -> Concluded:
        window = window_of(tx, claim.row.dedup_key)
        row = tx.get(Notification, claim.id)
        group = group_of(tx, row, window) if row is not None else None
        copies = tx.find(CopiesOf(claim.id))
        lost = row is None or not lease.holds(row, claim.token, tx.now)
        if lost and (ours := tx.get(Event, ids.nth(settle.RESULT_ID))) is not None:
            return Concluded(_as_recorded(ours), row)
        on_record = tx.apply(attempt.record(claim, calls, copies, Stamp(ids, tx.now)))
        if group is None:
            return Concluded(Settled.LOST, None)
        tally = Tally(group.leader.effective.channels, _channels(on_record), (*earlier, *calls))
        settled = tx.apply(settle.settle(group, claim, tally, retry, Stamp(ids, tx.now)))
        return Concluded(settled, tx.get(Notification, claim.id))

    key = claim.row.dedup_key
    windows = (key,) if key is not None else ()
    return Plan(run, Wants(windows=windows, rows=(claim.id,), copies=(claim.id,)))


def give_back(claim: Claim, ids: Ids) -> Plan[bool]:
    """
    Return a lease under which nothing was started.
    """

    def run(tx: Tx) -> bool:
        row = tx.get(Notification, claim.id)
        if row is not None and tx.get(Event, ids.nth(lease.RETURNED_ID)) is not None:
            return True  # this very plan, committed before: what it counted back is not counted twice
        return row is not None and tx.apply(lease.give_back(row, claim, Stamp(ids, tx.now)))

    return Plan(run, Wants(rows=(claim.id,)))


class _Past(msgspec.Struct, frozen=True):
    """
    The successes on record, and what the claim wrote whose token is on the row.
    """

    copies: Sequence[Copy]
    claimed: Event | None


def _past(tx: Tx, row: Notification) -> _Past:
    claimed = tx.get(Event, Ids(row.lease_token).nth(lease.BEGUN_ID)) if row.lease_token is not None else None
    return _Past(tx.find(CopiesOf(row.id)), claimed)


def _claim(tx: Tx, row: Notification, bearer: Bearer, channels: frozenset[str], past: _Past) -> Claim | None:
    if row.lease_token == bearer.token and lease.holds(row, bearer.token, tx.now):
        return lease.resume(row, past.copies, bearer, past.claimed)
    if not lease.claimable(row, tx.now) or not lease.servable(row, channels):
        return None
    return tx.apply(lease.claim(row, past.copies, bearer, tx.now, past.claimed))


def _held(tx: Tx, bearers: Sequence[Bearer], begun: Sequence[Event]) -> list[tuple[Notification, Bearer]]:
    # Only when this plan runs a second time: what its first run leased and still holds.
    mine = {bearer.token: bearer for bearer in bearers}
    rows = [row for event in begun if (row := tx.get(Notification, event.notification_id)) is not None]
    held = ((row, mine.get(row.lease_token or "")) for row in rows)
    return [(row, b) for row, b in held if b is not None and lease.holds(row, b.token, tx.now)]


def _channels(copies: Sequence[Copy]) -> frozenset[str]:
    return frozenset(copy.channel for copy in copies)


class _Recorded(msgspec.Struct):
    status: Status


def _as_recorded(ours: Event) -> Settled:
    status = msgspec.json.decode(ours.payload, type=_Recorded).status
    return {Status.DELIVERED: Settled.DELIVERED, Status.PENDING: Settled.BACKED_OFF}.get(
        status, Settled.FAILED
    )
