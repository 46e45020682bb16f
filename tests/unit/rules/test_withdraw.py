"""
Withdrawing, as ``docs/rules.md`` tells it under Responding.

- a PENDING owner ends FAILED, no dead letter, error ``withdrawn``: ``test_a_pending_owner_ends``
- its followers end with it, nothing is handed off: ``test_followers_end_with_it``
- one that awaits an answer is DISMISSED: ``test_what_awaits_an_answer_is_dismissed``
- a second withdrawing gives the first answer: ``test_withdrawing_twice``
"""

import pytest

from kit.builders import NOW, a_notification
from kit.phases import ACK_SECONDS, a_row_in
from uns.core.rules.events import Stamp
from uns.core.rules.followers import Group
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.withdraw import withdraw
from uns.ports.decision import Change, Signal, SignalKind
from uns.ports.errors import Conflict
from uns.ports.rows import AckAudit, DedupWindow, DeliveryAudit, Notification
from uns.ports.sources import Ids
from uns.ports.vocabulary import Ack, EventKind, Status

P, K = Phase, EventKind
IDS = Ids("0000002a-0000-7000-8000-000000000000")
DEADLINE = NOW + ACK_SECONDS


def withdrawn(row, waiting=0, *, now=NOW, callback=False, actor="agent-7", handed_on=0):
    window = DedupWindow(
        key="d" * 64, until=NOW, owner_id=row.id, generation=1, handed_on=handed_on, followers=waiting
    )
    heir = a_notification("f1", dedup_owner_id=row.id) if waiting else None
    group = Group(row, window, heir, waiting)
    return withdraw(group, actor=actor, callback=callback, stamp=Stamp(IDS, now))


def kinds(decision):
    return [event.kind for event in decision.events]


@pytest.mark.parametrize("at", [P.LEADING, P.LEASED])
def test_a_pending_owner_ends(at):
    """
    FAILED without a dead letter, its lease gone so that a worker's settlement finds nothing.
    """
    row = a_row_in(at)
    decision = withdrawn(row)
    after = decision.reply

    assert P.WITHDRAWN is phase(after)
    assert (False, None, 0.0, "withdrawn") == (
        after.dead_letter,
        after.lease_token,
        after.lease_until,
        after.outcome.error_message,
    )
    assert Change(row, after) == decision.changes[0]
    assert [DeliveryAudit] == [type(change.after) for change in decision.changes[1:]]
    assert (Signal(SignalKind.SETTLED, "n1"), Signal(SignalKind.ANSWERED, "n1")) == decision.signals


def test_what_was_tried_stays_in_the_outcome():
    """
    The channels of earlier attempts are history; only the error is the withdrawal's.
    """
    failed = a_row_in(P.DEAD_LETTER).outcome
    after = withdrawn(a_row_in(P.LEADING, outcome=failed)).reply

    assert (failed.channels_failed, "withdrawn") == (
        after.outcome.channels_failed,
        after.outcome.error_message,
    )


@pytest.mark.parametrize("handed_on", [0, 3])
def test_followers_end_with_it(handed_on):
    """
    Pending followers end FAILED with their owner link, in one set-based move; nobody inherits.
    """
    decision = withdrawn(a_row_in(P.LEASED), waiting=3, handed_on=handed_on)
    (sweep,) = decision.sweeps

    assert ["n1"] == [c.after.id for c in decision.changes if isinstance(c.after, Notification)]
    assert ("n1", (Status.PENDING,), Status.FAILED, None) == (
        sweep.owner_id,
        sweep.statuses,
        sweep.to_status,
        sweep.new_owner_id,
    )
    assert [K.DEDUP_FAILED_WITH_OWNER, K.WITHDRAWN] == kinds(decision)
    assert 3 == decision.events[0].details["count"]
    assert None is decision.reply.dedup_successor_id


def test_a_withdrawal_is_told():
    """
    WITHDRAWN names who withdrew, and what was withdrawn.
    """
    (event,) = withdrawn(a_row_in(P.LEADING)).events

    assert (K.WITHDRAWN, "n1") == (event.kind, event.notification_id)
    assert {"actor": "agent-7", "status": "PENDING"} == event.details


def test_what_awaits_an_answer_is_dismissed():
    """
    A delivered one becomes DISMISSED by who withdrew it, with metadata that says so, and is called
    back like any answer.
    """
    decision = withdrawn(a_row_in(P.AWAITING, wants_callback=True), now=NOW + 4)
    after = decision.reply
    told, event = decision.events

    assert (P.ANSWERED, Ack.DISMISSED, "agent-7", NOW + 4, '{"withdrawn":true}') == (
        phase(after),
        after.ack_status,
        after.actor,
        after.responded_at,
        after.response_metadata,
    )
    assert (Status.DELIVERED, True) == (after.status, after.withdrawn)
    assert (K.DISMISSED, {"withdrawn": True}, True) == (
        told.kind,
        told.details["metadata"],
        told.callback_pending,
    )
    assert K.WITHDRAWN is event.kind
    assert [Notification, AckAudit] == [type(change.after) for change in decision.changes]
    assert after is decision.changes[0].after


@pytest.mark.parametrize(("offset", "accepted"), [(-0.001, True), (0.0, False), (0.001, False)])
def test_after_the_deadline_there_is_nothing_to_dismiss(offset, accepted):
    """
    A dismissal is an answer: it must come before the deadline.
    """
    row = a_row_in(P.AWAITING)
    if accepted:
        assert withdrawn(row, now=DEADLINE + offset).reply.withdrawn
        return
    with pytest.raises(Conflict, match="deadline"):
        withdrawn(row, now=DEADLINE + offset)


@pytest.mark.parametrize(
    "first",
    [a_row_in(P.LEADING), a_row_in(P.LEASED), a_row_in(P.AWAITING)],
    ids=["leading", "leased", "awaiting"],
)
def test_withdrawing_twice(first):
    """
    The second time gives what the first has made, whoever asks and however late, and changes nothing.
    """
    once = withdrawn(first).reply
    again = withdrawn(once, now=DEADLINE + 9, actor="ops")

    assert (once, (), ()) == (again.reply, again.changes, again.events)


@pytest.mark.parametrize("at", [P.DELIVERED, P.ANSWERED, P.TIMED_OUT, P.DEAD_LETTER, P.FAILED])
def test_what_has_ended_cannot_be_withdrawn(at):
    """
    Delivered without a question, answered, timed out, failed: there is nothing to take back.
    """
    with pytest.raises(Conflict, match="nothing to withdraw"):
        withdrawn(a_row_in(at))
