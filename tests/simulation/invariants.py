"""
What must hold once the faults have ceased and everything has come to rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from simulation.truth import Truth
from simulation.watch import Watch
from simulation.world import World
from uns.adapters.memory.queries import CopiesBy
from uns.core.rules.callbacks import CALLBACK_ATTEMPTS
from uns.core.rules.lease import Purpose
from uns.core.rules.settle import LEASE_EXPIRED
from uns.ports.rows import AckAudit, DeliveryAudit, Event, Notification
from uns.ports.vocabulary import Ack, EventKind, Status


def at_rest(watch: Watch) -> bool:
    """
    Whether nothing is left to deliver, to time out or to call back.
    """
    return not any(
        row.status is Status.PENDING or row.ack_status is Ack.PENDING for row in watch.rows().values()
    ) and not any(
        event.callback_pending and event.callback_attempts < CALLBACK_ATTEMPTS
        for event in watch.events().values()
    )


def broken_promises(world: World, watch: Watch) -> Iterator[str]:
    """
    Every promise of a finished run that was not kept.
    """
    rows, events = watch.rows(), watch.events().values()
    by_row: dict[str, list[Event]] = {id: [] for id in rows}
    for event in events:
        by_row[event.notification_id].append(event)
    if len({row.key for row in rows.values()}) != len(rows):
        yield "two notifications for one idempotency key"
    for row in rows.values():
        yield from _ended(row, by_row[row.id])
        yield from _attempts(row, by_row[row.id])
        yield from _explained(by_row[row.id])
        yield from _answered(world, row, by_row[row.id])
        yield from _audited(world, row, by_row[row.id])
        yield from _recorded(world, row, by_row[row.id])
    yield from _told(world.truth, events)


def _ended(row: Notification, events: list[Event]) -> Iterator[str]:
    if row.status is Status.PENDING:
        yield "a notification neither ended nor was ended"
    if row.lease_token is not None or row.lease_until:
        yield "a lease outlived its notification's end"
    if events[0].kind is not EventKind.ACCEPTED:
        yield "a timeline does not begin with ACCEPTED"


def _attempts(row: Notification, events: list[Event]) -> Iterator[str]:
    kinds = Counter(event.kind for event in events)
    if row.attempts != kinds[EventKind.ATTEMPT_STARTED] - kinds[EventKind.ATTEMPT_RETURNED]:
        yield "attempts counted are not the attempts on record"
    if row.cycle != 1 + kinds[EventKind.REPLAY_REQUESTED]:
        yield "a cycle without a replay on record"


def _explained(events: list[Event]) -> Iterator[str]:
    # Whether the last attempt that was counted has reported back, when a claim without one ends the row.
    unreported, before, settling = False, False, False
    for event in events:
        if event.kind is EventKind.ATTEMPT_STARTED:
            before, unreported, settling = unreported, True, False
        elif event.kind is EventKind.ATTEMPT_RETURNED:
            unreported = before
        elif event.kind is EventKind.RECOVERY_STARTED:
            settling = event.details["purpose"] == Purpose.EXHAUSTED
            if event.details["lease_expired"] is not unreported:
                yield "a claim without an attempt is wrong about the last one"
        elif event.kind is EventKind.DELIVERY_RESULT:
            error = event.details["outcome"]["error_message"]
            ended = settling and event.details["status"] == Status.FAILED
            if ended and (error == LEASE_EXPIRED) is not unreported:
                yield "an end without an attempt gives another reason than there is"
            unreported = False


def _answered(world: World, row: Notification, events: list[Event]) -> Iterator[str]:
    audits = [a for a in world.store.tables.get(AckAudit, {}).values() if a.notification_id == row.id]
    answers = [event for event in events if event.kind in _ANSWERS]
    due = 0 if row.ack_status is None else 1
    if len(answers) != due or len(audits) != due:
        yield f"{len(answers)} events and {len(audits)} audit records of one answer"
    if (row.status is Status.DELIVERED) is not (row.ack_status is not None) and row.effective.require_ack:
        yield "an answer is due exactly for what was delivered"


def _audited(world: World, row: Notification, events: list[Event]) -> Iterator[str]:
    audits = [a for a in world.store.tables.get(DeliveryAudit, {}).values() if a.notification_id == row.id]
    settled = sum(event.kind is EventKind.DELIVERY_RESULT for event in events)
    ended = sum(e.kind is EventKind.WITHDRAWN and e.details["status"] == Status.PENDING for e in events)
    if len(audits) != settled + ended:
        yield "settlements without exactly one audit record each"


def _recorded(world: World, row: Notification, events: list[Event]) -> Iterator[str]:
    started = {_call(e) for e in events if e.kind is EventKind.CHANNEL_ATTEMPT_STARTED}
    results = [e for e in events if e.kind is EventKind.CHANNEL_ATTEMPT_RESULT]
    calls = [call for call in world.truth.calls if call.id == row.id]
    delivered = {(call.token, call.channel) for call in calls if call.delivered}
    if len({_call(e) for e in results}) != len(results):
        yield "two results of one call"
    if not started.issuperset(map(_call, results)) or not started.issuperset(
        (call.token, call.channel) for call in calls
    ):
        yield "a call that was never started on record"
    if not delivered.issuperset(_call(e) for e in results if e.details["success"]):
        yield "a success on record that never was"
    said = {e.details["channel"] for e in results if e.details["success"]}
    if said != set(world.store.tables.get(CopiesBy, {}).get(row.id, ())):
        yield "successes on record differ from the results on record"


def _told(truth: Truth, events: Iterable[Event]) -> Iterator[str]:
    well = {told.event_id for told in truth.told if told.went_well}
    for event in events:
        if event.callback_pending and event.callback_attempts < CALLBACK_ATTEMPTS:
            yield "a callback was forgotten"
        if event.kind in _ANSWERS and not event.callback_pending and event.id not in well:
            yield "a callback counts as delivered that nobody heard"


def _call(event: Event) -> tuple[str, str]:
    return event.details["lease_token"], event.details["channel"]


_ANSWERS = (EventKind.ACKED, EventKind.DISMISSED, EventKind.TIMED_OUT)
