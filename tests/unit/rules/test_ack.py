"""
Responding, as ``docs/rules.md`` tells it.

- conditional on PENDING and ``now < deadline``: ``test_an_answer_must_come_before_the_deadline``
- who may answer twice, and how: ``test_the_second_answer``; without require_ack: ``test_nobody_asked``
- an answer that proves delivery (R7): ``test_an_answer_proves_delivery`` and those after it
- timing out at the deadline, whether the sweeper has come or not: ``test_time_out_at_the_deadline``
- exactly one callback event: ``test_a_response_wants_its_callback_*``
"""

import pytest

from kit.builders import NOW, a_notification, an_effective
from kit.phases import ACK_SECONDS, OWNER, a_row_in
from uns.core.rules.ack import TIMEOUT_ACTOR, Answer, provable, prove, respond, time_out
from uns.core.rules.events import Stamp
from uns.core.rules.followers import Group
from uns.core.rules.lifecycle import Phase, phase
from uns.ports.decision import Change, Signal, SignalKind
from uns.ports.errors import Conflict
from uns.ports.policy import ChannelPlan
from uns.ports.rows import AckAudit, Copy, DedupWindow, DeliveryAudit, Notification
from uns.ports.sources import Ids
from uns.ports.vocabulary import Ack, EventKind, Require, Status

P, K = Phase, EventKind
IDS = Ids("0000002a-0000-7000-8000-000000000000")
ASKING = an_effective(require_ack=True, ack_timeout_minutes=15)
AWAITING = a_row_in(P.AWAITING)
DEADLINE = NOW + ACK_SECONDS
ACKED, DISMISSED = Ack.ACKED, Ack.DISMISSED


def at(now=NOW):
    return Stamp(IDS, now)


def an_answer(to=ACKED, actor="ann", **fields):
    return Answer(to=to, actor=actor, **fields)


def a_copy(id="n1", channel="SLACK"):
    return Copy(notification_id=id, channel=channel, ref=None, routing=None, state="SENT", at=NOW)


def changed(decision, kind):
    return [change.after for change in decision.changes if isinstance(change.after, kind)]


@pytest.mark.parametrize(("to", "kind"), [(ACKED, K.ACKED), (DISMISSED, K.DISMISSED)])
def test_an_answer_ends_the_wait(to, kind):
    """
    The row holds who answered what and when; the event tells it; the audit holds the transition.
    """
    decision = respond(AWAITING, an_answer(to, metadata='{"note":"on it"}'), at(NOW + 3))
    (row,), (audit,), (event,) = (
        changed(decision, Notification),
        changed(decision, AckAudit),
        decision.events,
    )

    assert (to, "ann", NOW + 3, '{"note":"on it"}') == (
        row.ack_status,
        row.actor,
        row.responded_at,
        row.response_metadata,
    )
    assert row is decision.reply
    assert Change(AWAITING, row) == decision.changes[0]
    assert (kind, {"actor": "ann", "metadata": {"note": "on it"}}) == (event.kind, event.details)
    assert (Ack.PENDING, to, "ann", NOW + 3, '{"note":"on it"}') == (
        audit.old_status,
        audit.new_status,
        audit.acked_by,
        audit.acked_at,
        audit.ack_metadata,
    )
    assert (Signal(SignalKind.ANSWERED, "n1"),) == decision.signals


@pytest.mark.parametrize(("offset", "accepted"), [(-0.001, True), (0.0, False), (0.001, False)])
@pytest.mark.parametrize("to", [ACKED, DISMISSED])
def test_an_answer_must_come_before_the_deadline(to, offset, accepted):
    """
    At the deadline it is too late, whether or not the sweeper has come by.
    """
    if accepted:
        assert to is respond(AWAITING, an_answer(to), at(DEADLINE + offset)).reply.ack_status
        return
    with pytest.raises(Conflict, match="deadline") as refused:
        respond(AWAITING, an_answer(to), at(DEADLINE + offset))

    assert "DEADLINE_PASSED" == refused.value.reason


@pytest.mark.parametrize("late", [NOW + 1, DEADLINE, DEADLINE + 3600])
@pytest.mark.parametrize(
    ("first", "second", "actor", "same"),
    [
        (ACKED, ACKED, "ann", True),
        (DISMISSED, DISMISSED, "ann", True),
        (ACKED, DISMISSED, "ann", False),
        (DISMISSED, ACKED, "ann", False),
        (ACKED, ACKED, "bob", False),
        (ACKED, DISMISSED, "bob", False),
        (Ack.TIMED_OUT, ACKED, "ann", False),
        (Ack.TIMED_OUT, ACKED, TIMEOUT_ACTOR, False),
    ],
)
def test_the_second_answer(first, second, actor, same, late):
    """
    One's own answer again is the first answer again, however late; anything else is a conflict.
    """
    by = TIMEOUT_ACTOR if first is Ack.TIMED_OUT else "ann"
    row = a_row_in(P.ANSWERED, ack_status=first, actor=by, response_metadata='{"first":1}')
    if same:
        decision = respond(row, an_answer(second, actor, metadata='{"second":2}'), at(late))

        assert (row, (), ()) == (decision.reply, decision.changes, decision.events)
        return
    with pytest.raises(Conflict) as refused:
        respond(row, an_answer(second, actor), at(late))

    assert first == refused.value.reason


@pytest.mark.parametrize(
    "row",
    [
        a_row_in(P.DELIVERED),
        a_row_in(P.LEADING),
        a_row_in(P.LEADING, effective=ASKING),
        a_row_in(P.DEAD_LETTER, effective=ASKING),
        a_row_in(P.WITHDRAWN, effective=ASKING),
    ],
)
def test_nobody_asked(row):
    """
    Without require_ack, or before delivery, there is nothing to answer.
    """
    with pytest.raises(Conflict, match=r"requires no response|awaits no response"):
        respond(row, an_answer(), at())


@pytest.mark.parametrize(
    ("stored", "here", "wanted"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_a_response_wants_its_callback_once(stored, here, wanted):
    """
    The outbox row is due at once if the row wanted a callback, or the settling process has one.
    """
    row = a_row_in(P.AWAITING, wants_callback=stored)
    decision = respond(row, an_answer(callback=here), at(NOW + 3))
    (event,) = decision.events

    assert (wanted, NOW + 3, 0) == (event.callback_pending, event.callback_until, event.callback_attempts)
    assert wanted is (Signal(SignalKind.CALLBACK, event.id) in decision.signals)


@pytest.mark.parametrize(("offset", "expired"), [(-0.001, False), (0.0, True), (0.001, True)])
def test_time_out_at_the_deadline(offset, expired):
    """
    At ``deadline`` the wait is over, not a moment before.
    """
    decision = time_out(AWAITING, callback=False, stamp=at(DEADLINE + offset))

    assert expired is decision.reply
    assert expired is bool(decision.changes)
    assert expired is bool(decision.events)


def test_time_out_is_the_services_answer():
    """
    TIMED_OUT by the timeout worker, with the metadata that asks for escalation.
    """
    decision = time_out(AWAITING, callback=True, stamp=at(DEADLINE + 2))
    (row,), (audit,), (event,) = (
        changed(decision, Notification),
        changed(decision, AckAudit),
        decision.events,
    )

    assert (P.TIMED_OUT, "uns-timeout-worker", DEADLINE + 2) == (phase(row), row.actor, row.responded_at)
    assert K.TIMED_OUT is event.kind
    assert {
        "actor": "uns-timeout-worker",
        "metadata": {"escalation_required": True},
    } == event.details
    assert event.callback_pending
    assert (Ack.PENDING, Ack.TIMED_OUT) == (audit.old_status, audit.new_status)


@pytest.mark.parametrize("at_", [p for p in Phase if p is not P.AWAITING])
def test_nothing_else_times_out(at_):
    """
    Only what awaits an answer can time out.
    """
    decision = time_out(a_row_in(at_), callback=True, stamp=at(DEADLINE + 3600))

    assert (False, ()) == (decision.reply, decision.changes)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("at_", Phase)
def test_what_an_answer_can_prove(at_, asks):
    """
    A pending leader that requires an answer, leased or not (R7).
    """
    row = a_row_in(at_, effective=an_effective(require_ack=asks))

    assert (asks and at_ in (P.LEADING, P.LEASED)) is provable(row)


@pytest.mark.parametrize("at_", [P.LEADING, P.LEASED])
def test_an_answer_proves_delivery(at_):
    """
    Given a pending owner with a success on record, when a human answers, then one decision settles
    it DELIVERED and answered, clears the lease, renews the window and satisfies those behind it.
    """
    row = a_row_in(at_, effective=ASKING)
    window = DedupWindow(key="d" * 64, until=NOW, owner_id="n1", generation=1, followers=2)
    heir = a_notification("f1", dedup_owner_id="n1")
    decision = prove(Group(row, window, heir, 2), (a_copy(),), an_answer(), at(NOW + 5))
    after = decision.reply
    (sweep,) = decision.sweeps

    assert P.ANSWERED is phase(after)
    assert (NOW + 5, NOW + 5 + ACK_SECONDS, NOW + 5) == (
        after.delivered_at,
        after.deadline,
        after.responded_at,
    )
    assert (None, 0.0, ("SLACK",)) == (
        after.lease_token,
        after.lease_until,
        after.outcome.channels_succeeded,
    )
    assert [after] == changed(decision, Notification)
    assert NOW + 305 == changed(decision, DedupWindow)[0].until
    assert (Status.DEDUPLICATED, K.DEDUP_SATISFIED) == (sweep.to_status, sweep.event)
    assert 1 == len(changed(decision, DeliveryAudit)) == len(changed(decision, AckAudit))


def test_a_proof_is_told_as_delivery_and_then_answer():
    """
    DELIVERY_RESULT says that an answer settled it; the response's own event follows.
    """
    row = a_row_in(P.LEASED, effective=ASKING, wants_callback=True)
    result, told = prove(Group(row), (a_copy(),), an_answer(DISMISSED), at()).events

    assert (K.DELIVERY_RESULT, "answer", "DELIVERED") == (
        result.kind,
        result.details["settled_by"],
        result.details["status"],
    )
    assert (K.DISMISSED, True) == (told.kind, told.callback_pending)
    assert result.id != told.id


def test_a_predecessors_success_proves_delivery_too():
    """
    Given that the success is on record for an earlier row of the line, then the obligation is
    settled, and the owner's own outcome claims no channel.
    """
    row = a_row_in(P.LEADING, effective=ASKING)
    after = prove(Group(row), (a_copy(OWNER),), an_answer(), at()).reply

    assert (P.ANSWERED, ()) == (phase(after), after.outcome.channels_succeeded)


def test_one_channel_proves_what_all_require():
    """
    Who answers has the message, whatever ``require`` says of the other channels.
    """
    plan = ChannelPlan(primary=("SLACK", "EMAIL"), require=Require.ALL)
    row = a_row_in(P.LEADING, effective=an_effective(require_ack=True, channels=plan))

    assert P.ANSWERED is phase(prove(Group(row), (a_copy(),), an_answer(), at()).reply)
