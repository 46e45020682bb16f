"""
What must hold after every single commit.

Each function looks at one step of the ledger and yields what it finds broken. The labels are those
of the exhaustive model of the rules where it has the same property.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from simulation.lines import Rows, component, components, failed, leading, line_end, lineage_error, live
from uns.core.rules.lifecycle import MOVES, Phase, phase
from uns.core.rules.outcome import suffices
from uns.core.rules.settle import HAND_ON_LIMIT
from uns.ports.rows import Copy, DedupWindow, Event, Notification
from uns.ports.vocabulary import Ack, EventKind, Status

Copies = Mapping[str, Mapping[str, Copy]]


class Memory(Struct):
    """
    What is remembered from step to step.

    Tokens of claims: ``counted`` as an attempt, ``settled``, ``lost``, ``refused`` for good by some
    provider. ``handed_on`` counts by dedup key, from a new leader or a replay on.
    """

    counted: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    handed_on: Counter[str] = field(default_factory=Counter)


class Step(Struct):
    """
    The ledger around one commit: rows before and after, and what the commit wrote.
    """

    old: Rows
    new: Rows
    old_windows: Mapping[str, DedupWindow]
    windows: Mapping[str, DedupWindow]
    old_copies: Copies
    copies: Copies
    changes: list[tuple[Notification | None, Notification]]
    events: list[Event]

    def events_of(self, *kinds: EventKind) -> Iterator[Event]:
        return (event for event in self.events if event.kind in kinds)


def structure(step: Step) -> Iterator[str]:
    """
    One pending leader per key, nobody behind an owner that ended, every line resolves.
    """
    leaders: dict[str, str] = {}
    for row in step.new.values():
        if (error := lineage_error(step.new, row.id)) is not None:
            yield f"P1 the lineage of a row does not resolve: {error}"
        if row.dedup_key is not None and leading(row):
            if row.dedup_key in leaders:
                yield "P3 two pending leaders of one key"
            leaders[row.dedup_key] = row.id
        if row.dedup_owner_id is not None:
            yield from _behind(row, step.new[row.dedup_owner_id])
    group_of = {}
    for group in components(step.new):
        group_of.update({row.id: group for row in group})
        if len(live(group)) > 1:
            yield "P3b two live obligations in one lineage"
        if sum(row.ack_status not in _UNANSWERED for row in group) > 1:
            yield "P12 two terminal answers in one lineage"
    for before, after in step.changes:
        for target in (before.dedup_owner_id, before.dedup_successor_id) if before is not None else ():
            if target is not None and group_of[target] is not group_of[after.id]:
                yield "a lineage fell apart"


def dead_letters(step: Step) -> Iterator[str]:
    """
    All that can be replayed of one key is one line, and it ends at the window's owner.
    """
    for row in step.new.values():
        if not row.dead_letter or row.dedup_key is None:
            continue
        end = line_end(step.new, row.id)
        if end.dead_letter and step.windows[row.dedup_key].owner_id != end.id:
            yield "a dead letter can be replayed beside its window's owner"
        if not end.dead_letter and failed(end) and not end.withdrawn:
            yield "the end of a line was resolved, and not the whole of it"


def windows(step: Step) -> Iterator[str]:
    """
    A window is owned by nobody's follower, and knows how many wait.
    """
    for window in step.windows.values():
        owner = step.new.get(window.owner_id)
        if owner is None or owner.status is Status.DEDUPLICATED or owner.dedup_owner_id is not None:
            yield "P8 the owner of a window is a follower, or missing"
        elif failed(owner) and owner.dedup_successor_id is not None:
            yield "P8b the owner of a window has failed and has a successor"
        behind = sum(
            row.dedup_owner_id == window.owner_id and row.status is not Status.DEDUPLICATED
            for row in step.new.values()
        )
        if behind != window.followers:
            yield f"a window counts {window.followers} followers where {behind} wait"


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
        if before is not None and before.ack_status not in _UNANSWERED and _answer(before) != _answer(after):
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
        if after.ack_status is was or after.ack_status in _UNANSWERED:
            continue
        told = [e for e in step.events_of(_EVENT_OF[after.ack_status]) if e.notification_id == after.id]
        if len(told) != 1:
            yield "an answer without exactly one event"
        if after.deadline is None or after.responded_at is None:
            yield "an answer without its times"
        elif (after.ack_status is Ack.TIMED_OUT) is not (after.deadline <= after.responded_at):
            yield "B20 the deadline did not decide between an answer and a time-out"


EVERY_CHANGE = (structure, windows, dead_letters)
EVERY_STEP = (acceptances, replays, moves, leases, calls_started, settlements, endings, hand_offs, answers)

_UNANSWERED = (None, Ack.PENDING)
_LIVE = (Status.PENDING, Status.DELIVERED)
_LEGAL = {(before, after) for (before, _), afters in MOVES.items() for after in afters}
_LEGAL.add((None, Phase.LEASED))  # accepted and claimed in one transaction
_EVENT_OF = {
    Ack.ACKED: EventKind.ACKED,
    Ack.DISMISSED: EventKind.DISMISSED,
    Ack.TIMED_OUT: EventKind.TIMED_OUT,
}


def _behind(row: Notification, owner: Notification) -> Iterator[str]:
    if row.status is Status.PENDING and not leading(owner):
        yield "P4 a follower waits behind an owner that ended"
    if row.status is Status.FAILED and owner.status is Status.DELIVERED:
        yield "C1 a follower says FAILED although its owner was delivered"
    if row.status is Status.DEDUPLICATED and owner.status is not Status.DELIVERED:
        yield "a duplicate is satisfied by an owner that was not delivered"


def _answer(row: Notification) -> tuple[object, ...]:
    return row.ack_status, row.actor, row.responded_at, row.response_metadata


def _budget_left(row: Notification) -> bool:
    return row.cycle_attempts < (row.effective.max_attempts or 2)
