"""
What every single commit may do, and what it may not.

Each function looks at one step of the ledger and yields what it finds broken. The labels are those
of the exhaustive model of the rules where it has the same property.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation.lines import component, failed, line_end
from simulation.step import UNANSWERED, Memory, Step
from uns.core.rules.lifecycle import MOVES, Phase, phase
from uns.core.rules.outcome import suffices
from uns.core.rules.settle import HAND_ON_LIMIT
from uns.ports.rows import Notification
from uns.ports.vocabulary import Ack, EventKind, Status


def acceptances(step: Step, memory: Memory) -> Iterator[str]:
    """
    The window decides what a newcomer is: a leader, a follower, or satisfied already.
    """
    for event in step.events_of(EventKind.ACCEPTED):
        row = step.new[event.notification_id]
        window = step.old_windows.get(row.dedup_key or "")
        owner = step.old[window.owner_id].status if window is not None else None
        waits = owner is Status.PENDING
        satisfied = owner is Status.DELIVERED and window is not None and event.at < window.until
        if row.leads is (waits or satisfied):
            yield "a newcomer leads beside an owner that counts, or follows one that does not"
        if (row.status is Status.DEDUPLICATED) is not satisfied:
            yield "a newcomer is satisfied exactly by a delivery within the window"


def moves(step: Step, memory: Memory) -> Iterator[str]:
    """
    Rows move only as the table of moves says; an answer once given stays.
    """
    for before, after in step.changes:
        move = (None if before is None else phase(before), phase(after))
        if move not in _LEGAL:
            yield f"no move leads from {move[0]} to {move[1]}"
        if after.cycle_attempts < 0 or after.attempts < 0:
            yield "fewer attempts than none"
        if before is not None and before.ack_status not in UNANSWERED and _answer(before) != _answer(after):
            yield "an answer changed after it was given"


def calls_started(step: Step, memory: Memory) -> Iterator[str]:
    """
    A call is started under a valid lease, for nothing withdrawn, on no channel that has it already.
    """
    for event in step.events_of(EventKind.CHANNEL_ATTEMPT_STARTED):
        row, details = step.new[event.notification_id], event.details
        if row.lease_token != details["lease_token"] or row.lease_until <= event.at:
            yield "a call was started without a lease"
        if details["channel"] in step.old_copies.get(row.id, ()):
            yield "P7 a channel with a success on record is called again"
        if any(other.withdrawn for other in component(step.new, row.id)):
            yield "W1 something of a withdrawn obligation is sent"


def leases(step: Step, memory: Memory) -> Iterator[str]:
    """
    A lease is taken when there is none or it has ended, and only a counted attempt is given back.
    """
    for event in step.events_of(EventKind.ATTEMPT_STARTED):
        row, before = step.new[event.notification_id], step.old.get(event.notification_id)
        if row.lease_token in memory.counted:
            yield "one token for two attempts"
        memory.counted.add(str(row.lease_token))
        if before is not None and before.lease_token is not None and before.lease_until > event.at:
            yield "a lease was taken over while it was valid"
        if row.cycle_attempts > (row.effective.max_attempts or 2 if row.guaranteed else 1):
            yield "more attempts than the budget of the cycle"
    for event in step.events_of(EventKind.ATTEMPT_RETURNED):
        if event.details["lease_token"] not in memory.counted:
            yield "an attempt was given back that was never counted"


def settlements(step: Step, memory: Memory) -> Iterator[str]:
    """
    One settlement per lease; a loss is recorded of nothing that was settled.
    """
    for event in step.events_of(EventKind.DELIVERY_RESULT):
        before = step.old.get(event.notification_id)
        if event.details["settled_by"] == "answer":
            continue
        if before is None or before.lease_token is None:
            yield "a settlement without a lease"
        elif before.lease_token in memory.settled:
            yield "P4b two settlements of one attempt"
        elif before.lease_until <= event.at:
            yield "a settlement after the lease had ended"
        else:
            memory.settled.add(before.lease_token)
    for event in step.events_of(EventKind.LEASE_LOST):
        token = event.details["lease_token"]
        memory.lost.add(token)
        if token in memory.settled:
            yield "P10 LEASE_LOST recorded for a lease that was settled"


def endings(step: Step, memory: Memory) -> Iterator[str]:
    """
    Nothing fails that was delivered or could still be; nothing is delivered that nobody has.
    """
    for before, after in step.changes:
        if before is None or before.status is after.status or after.dedup_owner_id is not None:
            continue
        channels = frozenset(step.copies.get(after.id, ()))
        if failed(after) and not after.withdrawn:
            if suffices(after.effective.channels, channels):
                yield "P6 a row ends FAILED although its successes on record suffice"
            if after.dead_letter and _budget_left(after) and before.lease_token not in memory.refused:
                yield "a row is dead-lettered with attempts left, though no provider refused it"
            if after.dead_letter is not after.guaranteed:
                yield "dead letters are what was guaranteed, and nothing else"
        if after.status is Status.DELIVERED and not suffices(after.effective.channels, channels):
            proved = any(
                e.details["settled_by"] == "answer" for e in step.events_of(EventKind.DELIVERY_RESULT)
            )
            if not proved:
                yield "a row is DELIVERED although its successes on record do not suffice"


def replays(step: Step, memory: Memory) -> Iterator[str]:
    """
    What is replayed was dead, alone, and neither satisfied nor settled by hand.
    """
    for before, after in step.changes:
        if before is None or after.cycle == before.cycle:
            continue
        group = component(step.old, after.id)
        end = line_end(step.old, after.id)
        if not before.dead_letter:
            yield "a replay of what is no dead letter"
        if any(row.status is Status.DELIVERED for row in group):
            yield "P5 a replay while the lineage is satisfied"
        if not end.dead_letter:
            yield "P9 a replay of a line whose end was resolved or withdrawn"
        if (window := step.old_windows.get(after.dedup_key or "")) is not None:
            owner = step.old[window.owner_id]
            if owner not in group and owner.status in _LIVE:
                yield "P5b a replay while another owner of the key is alive"


def hand_offs(step: Step, memory: Memory) -> Iterator[str]:
    """
    A leader's followers inherit one after the other, three times at most.
    """
    for before, after in step.changes:
        begins = after.dedup_owner_id is None if before is None else after.cycle != before.cycle
        if begins:
            memory.handed_on[after.dedup_key or ""] = 0
    for event in step.events_of(EventKind.DEDUP_OWNER_PROMOTED):
        key = step.new[event.notification_id].dedup_key or ""
        memory.handed_on[key] += 1
        if memory.handed_on[key] > HAND_ON_LIMIT:
            yield "a generation was handed on too often"


def answers(step: Step, memory: Memory) -> Iterator[str]:
    """
    People answer before the deadline, the sweeper from it on; every answer has its one event.
    """
    for before, after in step.changes:
        was = None if before is None else before.ack_status
        if after.ack_status is was or after.ack_status in UNANSWERED:
            continue
        told = [e for e in step.events_of(_EVENT_OF[after.ack_status]) if e.notification_id == after.id]
        if len(told) != 1:
            yield "an answer without exactly one event"
        if after.deadline is None or after.responded_at is None:
            yield "an answer without its times"
        elif (after.ack_status is Ack.TIMED_OUT) is not (after.deadline <= after.responded_at):
            yield "B20 the deadline did not decide between an answer and a time-out"


EVERY_STEP = (acceptances, replays, moves, leases, calls_started, settlements, endings, hand_offs, answers)

_LIVE = (Status.PENDING, Status.DELIVERED)
_LEGAL = {(before, after) for (before, _), afters in MOVES.items() for after in afters}
_LEGAL.add((None, Phase.LEASED))  # accepted and claimed in one transaction
_EVENT_OF = {
    Ack.ACKED: EventKind.ACKED,
    Ack.DISMISSED: EventKind.DISMISSED,
    Ack.TIMED_OUT: EventKind.TIMED_OUT,
}


def _answer(row: Notification) -> tuple[object, ...]:
    return row.ack_status, row.actor, row.responded_at, row.response_metadata


def _budget_left(row: Notification) -> bool:
    return row.cycle_attempts < (row.effective.max_attempts or 2)
