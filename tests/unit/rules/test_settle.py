"""
Settling, as ``docs/rules.md`` tells it under Dispatching and Followers.

- conditional on token and ``lease_until > now``: ``test_a_lost_lease_*``, ``test_a_stale_token_*``
- one transaction: row, result, audit, window, followers: ``test_delivery_*``, ``test_those_behind_*``
- a failed attempt: ``test_a_failed_attempt_backs_off``, ``test_the_budget_*``, BEST_EFFORT ends at once
- failed for good ends before the budget: ``test_a_refusal_ends_at_once``
- paced, 900 s at the boundary: ``test_a_paced_attempt_is_given_back_for_900_s``
- the last worker died: ``test_an_exhausted_claim_ends``; a success on record meanwhile delivers (R5)
- handed on at most three times: ``test_the_first_follower_inherits``, ``test_the_fourth_ends_with_all``
- nobody is left behind: ``test_no_follower_is_left_behind_a_leader_that_ended``
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.builders import NOW, a_notification, an_effective
from kit.ledger import paced, refused
from kit.phases import TOKEN, a_row_in
from uns.core.rules.events import Stamp
from uns.core.rules.followers import Group
from uns.core.rules.lease import Claim, Purpose
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.outcome import Call, Tally
from uns.core.rules.retry import Retry
from uns.core.rules.settle import LEASE_EXPIRED, Settled, settle
from uns.ports.channel import ChannelResult
from uns.ports.decision import Signal, SignalKind
from uns.ports.policy import ChannelPlan
from uns.ports.rows import DedupWindow, DeliveryAudit, Notification, Outcome
from uns.ports.sources import Ids
from uns.ports.vocabulary import Ack, DeliveryMode, EventKind, Require, Status

P, K = Phase, EventKind
IDS = Ids("0000002a-0000-7000-8000-000000000000")
ENDED = NOW + 60
OK, FAIL = ChannelResult(True), ChannelResult(False, error="no")
BEST_EFFORT = an_effective(delivery_mode=DeliveryMode.BEST_EFFORT)
ASKING = an_effective(require_ack=True, ack_timeout_minutes=15)


def a_window(**fields):
    plain = {"key": "d" * 64, "until": NOW - 1, "owner_id": "n1", "generation": 1}
    return DedupWindow(**(plain | fields))


def a_group(row=None, waiting=0, **fields):
    leader = row if row is not None else a_row_in(P.LEASED)
    heir = a_notification("f1", dedup_owner_id=leader.id) if waiting else None
    return Group(leader, a_window(followers=waiting, **fields), heir, waiting)


def settled(group, result=OK, *, now=NOW, on_record=(), purpose=Purpose.SEND, token=TOKEN, interrupted=False):
    row = group.leader
    calls = () if result is None else (Call("SLACK", result, now),)
    tally = Tally(row.effective.channels, frozenset(on_record), calls)
    return settle(group, Claim(row, token, purpose, interrupted=interrupted), tally, Retry(), Stamp(IDS, now))


def changed(decision, kind=Notification):
    return {c.after.id: c.after for c in decision.changes if isinstance(c.after, kind)}


def after(decision, id="n1"):
    return changed(decision)[id]


def window_after(decision):
    (window,) = [c.after for c in decision.changes if isinstance(c.after, DedupWindow)]
    return window


def kinds(decision):
    return [event.kind for event in decision.events]


@pytest.mark.parametrize(("offset", "lost"), [(-0.001, False), (0.0, True), (0.001, True)])
@pytest.mark.parametrize("result", [OK, FAIL])
def test_a_lost_lease_settles_nothing(offset, lost, result):
    """
    Given a lease that ends exactly now, when its worker settles, then no row moves and one
    LEASE_LOST says so.
    """
    decision = settled(a_group(waiting=2), result, now=ENDED + offset)

    assert lost is (decision.reply is Settled.LOST)
    if lost:
        assert ((), (), [K.LEASE_LOST]) == (decision.changes, decision.sweeps, kinds(decision))


@pytest.mark.parametrize("at", Phase)
def test_a_stale_token_settles_nothing(at):
    """
    Whatever became of the row, only the token that holds it settles.
    """
    decision = settled(a_group(a_row_in(at)), token="stale")

    assert (Settled.LOST, (), ()) == (decision.reply, decision.changes, decision.sweeps)


def test_delivery_ends_the_attempt():
    """
    The row is DELIVERED now, its lease is cleared, its outcome stored, and no answer is due.
    """
    decision = settled(a_group())
    row = after(decision)

    assert Settled.DELIVERED is decision.reply
    assert (Status.DELIVERED, NOW, None, 0.0) == (
        row.status,
        row.delivered_at,
        row.lease_token,
        row.lease_until,
    )
    assert (None, None) == (row.ack_status, row.deadline)
    assert (("SLACK",), ("SLACK",), ()) == (
        row.outcome.channels_attempted,
        row.outcome.channels_succeeded,
        row.outcome.channels_failed,
    )
    assert (Signal(SignalKind.SETTLED, "n1"),) == decision.signals


def test_delivery_asks_for_the_answer():
    """
    With ``require_ack`` the answer is due from delivery: ``deadline = delivered_at + minutes``.
    """
    row = after(settled(a_group(a_row_in(P.LEASED, effective=ASKING)), now=NOW + 7))

    assert (Ack.PENDING, NOW + 7 + 900) == (row.ack_status, row.deadline)


def test_delivery_renews_the_window():
    """
    The window counts from delivery, whether it had run out or not, and nobody waits any more.
    """
    window = window_after(settled(a_group(waiting=3), now=NOW + 7))

    assert (NOW + 307, 0, "n1", 1) == (window.until, window.followers, window.owner_id, window.generation)


@pytest.mark.parametrize("waiting", [0, 1, 5])
def test_those_behind_are_satisfied_with_it(waiting):
    """
    One set-based move: each follower, and each that had failed with it, becomes DEDUPLICATED.
    """
    sweeps = settled(a_group(waiting=waiting)).sweeps

    assert bool(waiting) is bool(sweeps)
    for sweep in sweeps:
        assert ("n1", {Status.PENDING, Status.FAILED}) == (sweep.owner_id, set(sweep.statuses))
        assert (Status.DEDUPLICATED, None, K.DEDUP_SATISFIED) == (
            sweep.to_status,
            sweep.new_owner_id,
            sweep.event,
        )
        assert '{"previous_owner_id":"n1","owner_id":"n1","generation":1}' == sweep.payload


def test_another_owners_window_is_left_alone():
    """
    A row that no longer owns its window settles for itself alone.
    """
    decision = settled(a_group(owner_id="other"))

    assert {"n1"} == set(changed(decision))
    assert [] == [c for c in decision.changes if isinstance(c.after, DedupWindow)]


def test_a_row_without_a_window_settles():
    """
    A row whose policy opted out of coalescing has no window to keep.
    """
    row = a_row_in(P.LEASED, dedup_key=None, dedup_generation=None)

    assert Status.DELIVERED is after(settled(Group(row))).status
    assert P.DEAD_LETTER is phase(after(settled(Group(row), refused())))


def test_the_result_is_told():
    """
    DELIVERY_RESULT has status, attempt, cycle and outcome; its id is the plan's own.
    """
    (event,) = settled(a_group(a_row_in(P.LEASED, attempts=7, cycle=2, cycle_attempts=3))).events

    assert (K.DELIVERY_RESULT, IDS.nth(0)) == (event.kind, event.id)
    assert {
        "status": "DELIVERED",
        "attempt": 7,
        "cycle": 2,
        "cycle_attempt": 3,
        "dead_letter": False,
        "outcome": {
            "channels_attempted": ["SLACK"],
            "channels_succeeded": ["SLACK"],
            "channels_failed": [],
            "error_message": None,
        },
        "rate_limited": False,
        "settled_by": "worker",
    } == event.details


@pytest.mark.parametrize(
    ("result", "status"), [(OK, Status.DELIVERED), (FAIL, Status.PENDING), (refused(), Status.FAILED)]
)
def test_each_settlement_is_audited(result, status):
    """
    Every committed attempt leaves one compliance record of what the row came to.
    """
    decision = settled(a_group(), result, now=NOW + 1)
    (audit,) = changed(decision, DeliveryAudit).values()
    row = after(decision)

    assert ("n1", status, NOW + 1) == (audit.notification_id, audit.status, audit.created_at)
    assert (row.outcome.channels_failed, row.delivered_at) == (audit.channels_failed, audit.delivered_at)
    assert (row.policy_id, row.policy_hash) == (audit.policy_config_id, audit.policy_config_hash)


@pytest.mark.parametrize(("cycle_attempts", "wait"), [(1, 1.0), (2, 2.0)])
def test_a_failed_attempt_backs_off(cycle_attempts, wait):
    """
    GUARANTEED returns to PENDING, due after ``retry_seconds * 2^(cycle_attempts-1)``, unleased.
    """
    row = a_row_in(P.LEASED, attempts=5, cycle_attempts=cycle_attempts)
    decision = settled(a_group(row, waiting=2), FAIL)
    back = after(decision)

    assert (Settled.BACKED_OFF, P.LEADING) == (decision.reply, phase(back))
    assert (NOW + wait, 5, cycle_attempts) == (back.next_attempt, back.attempts, back.cycle_attempts)
    assert ((), [K.DELIVERY_RESULT]) == (decision.sweeps, kinds(decision))
    assert ("PENDING", cycle_attempts) == (
        decision.events[0].details["status"],
        decision.events[0].details["cycle_attempt"],
    )


@pytest.mark.parametrize(
    ("cycle_attempts", "expected"), [(2, Settled.BACKED_OFF), (3, Settled.FAILED), (4, Settled.FAILED)]
)
def test_the_budget_is_spent_at_its_last_attempt(cycle_attempts, expected):
    """
    A failed attempt is the last one when the cycle has no other left.
    """
    decision = settled(a_group(a_row_in(P.LEASED, cycle_attempts=cycle_attempts)), FAIL)

    assert expected is decision.reply


def test_an_exhausted_row_is_a_dead_letter():
    """
    GUARANTEED ends FAILED and dead-lettered, with what the channels said.
    """
    decision = settled(a_group(a_row_in(P.LEASED, cycle_attempts=3)), FAIL)
    row = after(decision)

    assert (P.DEAD_LETTER, "SLACK: no", None) == (phase(row), row.outcome.error_message, row.lease_token)
    assert decision.events[0].details["dead_letter"] is True


def test_best_effort_ends_without_a_dead_letter():
    """
    BEST_EFFORT has one attempt, and its failure is terminal but no dead letter.
    """
    row = after(settled(a_group(a_row_in(P.LEASED, effective=BEST_EFFORT)), FAIL))

    assert (P.FAILED, False) == (phase(row), row.dead_letter)


def test_a_refusal_ends_at_once():
    """
    What cannot succeed ends before the budget is spent.
    """
    decision = settled(a_group(a_row_in(P.LEASED, cycle_attempts=1)), refused())

    assert (Settled.FAILED, P.DEAD_LETTER) == (decision.reply, phase(after(decision)))


@pytest.mark.parametrize(
    ("since", "spent"), [(None, 0), (NOW - 899.999, 0), (NOW - 900.0, 1), (NOW - 900.001, 1)]
)
def test_a_paced_attempt_is_given_back_for_900_s(since, spent):
    """
    An attempt whose every call was paced costs nothing within 900 s of the cycle's first pacing.
    """
    row = a_row_in(P.LEASED, attempts=6, cycle_attempts=1, paced_since=since)
    decision = settled(a_group(row), paced(seconds=7.0))
    back = after(decision)

    assert Settled.BACKED_OFF is decision.reply
    assert (6, spent, NOW if since is None else since) == (
        back.attempts,
        back.cycle_attempts,
        back.paced_since,
    )
    assert NOW + 7 == back.next_attempt
    assert decision.events[0].details["rate_limited"] is True


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (NOW - 899.999, Settled.BACKED_OFF),
        (NOW - 900.0, Settled.FAILED),
        (NOW - 900.001, Settled.FAILED),
    ],
)
def test_after_900_s_a_paced_attempt_can_be_the_last(since, expected):
    """
    No provider holds a row in the outbox for ever.
    """
    row = a_row_in(P.LEASED, cycle_attempts=3, paced_since=since)

    assert expected is settled(a_group(row), paced()).reply


@pytest.mark.parametrize(
    ("paced_for", "wait"),
    [
        (None, 1),
        (0, 1),
        (0.999, 1),
        (1, 1),
        (1.5, 1.5),
        (30, 30),
        (299, 299),
        (300, 300),
        (301, 300),
        (899, 300),
    ],
)
def test_pacing_without_an_end_is_left_alone_for_as_long_again(paced_for, wait):
    """
    Where the provider does not say how long to wait, the waits grow with how long it has been pacing.
    """
    since = None if paced_for is None else NOW - paced_for
    row = a_row_in(P.LEASED, cycle_attempts=1, paced_since=since)

    assert NOW + wait == after(settled(a_group(row), paced(0.0))).next_attempt
    assert NOW + 7 == after(settled(a_group(row), paced(7.0))).next_attempt


def test_best_effort_is_spent_when_paced():
    """
    For BEST_EFFORT a paced attempt is a spent one.
    """
    decision = settled(a_group(a_row_in(P.LEASED, effective=BEST_EFFORT)), paced())

    assert (Settled.FAILED, P.FAILED) == (decision.reply, phase(after(decision)))


@pytest.mark.parametrize(
    ("row", "waiting"),
    [
        (a_row_in(P.LEASED, effective=BEST_EFFORT), 0),
        (a_row_in(P.LEASED, cycle_attempts=3, paced_since=NOW - 900), 0),
        (a_row_in(P.LEASED, cycle_attempts=3, paced_since=NOW - 900), 2),
    ],
    ids=["best effort", "patience is over", "handed on"],
)
def test_a_paced_attempt_that_ends_says_so(row, waiting):
    """
    Given that no attempt can be given back, when the last one was paced, then its result says
    ``rate_limited`` as well.
    """
    decision = settled(a_group(row, waiting), paced(7.0))

    assert Settled.FAILED is decision.reply
    assert decision.events[0].details["rate_limited"] is True
    assert settled(a_group(row, waiting), FAIL).events[0].details["rate_limited"] is False


@pytest.mark.parametrize(("asked", "due"), [(0.0, 1.0), (3599.0, 3599.0), (3600.0, 3600.0), (3601.0, 3600.0)])
def test_retry_after_is_honoured_up_to_an_hour(asked, due):
    """
    A provider's Retry-After moves the next attempt, by an hour at most.
    """
    assert NOW + due == after(settled(a_group(), paced(asked))).next_attempt


def test_an_attempt_is_paced_only_if_every_call_was():
    """
    One ordinary failure among the calls makes it an ordinary attempt, still with Retry-After.
    """
    row = a_row_in(P.LEASED, effective=an_effective(channels=ChannelPlan(primary=("SLACK", "EMAIL"))))
    calls = (Call("SLACK", paced(30.0), NOW), Call("EMAIL", FAIL, NOW))
    tally = Tally(row.effective.channels, frozenset(), calls)
    decision = settle(a_group(row), Claim(row, TOKEN, Purpose.SEND), tally, Retry(), Stamp(IDS, NOW))
    back = after(decision)

    assert (1, None, NOW + 30) == (back.cycle_attempts, back.paced_since, back.next_attempt)
    assert decision.events[0].details["rate_limited"] is False


@pytest.mark.parametrize(
    ("effective", "spent", "expected"), [(an_effective(), 3, P.DEAD_LETTER), (BEST_EFFORT, 1, P.FAILED)]
)
def test_an_exhausted_claim_ends(effective, spent, expected):
    """
    Given that the last worker died, when its row is claimed again, then it ends and says why.
    """
    row = a_row_in(P.LEASED, effective=effective, cycle_attempts=spent)
    end = after(settled(a_group(row), None, purpose=Purpose.EXHAUSTED, interrupted=True))

    assert (expected, LEASE_EXPIRED) == (phase(end), end.outcome.error_message)
    assert "lease expired on the final attempt" == LEASE_EXPIRED


@pytest.mark.parametrize(("interrupted", "error"), [(True, LEASE_EXPIRED), (False, "EMAIL: 503")])
def test_an_exhausted_claim_keeps_what_is_known(interrupted, error):
    """
    What earlier attempts came to stays, in the row and in the audit; their error too, unless the last
    attempt's end is unknown.
    """
    plan = ChannelPlan(primary=("SLACK", "EMAIL", "SMS"), require=Require.ALL)
    before = Outcome(
        channels_attempted=("SLACK", "EMAIL"), channels_failed=("SLACK", "EMAIL"), error_message="EMAIL: 503"
    )
    row = a_row_in(P.LEASED, effective=an_effective(channels=plan), cycle_attempts=3, outcome=before)
    decision = settled(
        a_group(row), None, purpose=Purpose.EXHAUSTED, interrupted=interrupted, on_record=("SLACK",)
    )
    kept = Outcome(
        channels_attempted=("SLACK", "EMAIL"),
        channels_succeeded=("SLACK",),
        channels_failed=("EMAIL",),
        error_message=error,
    )
    (audit,) = [c.after for c in decision.changes if isinstance(c.after, DeliveryAudit)]

    assert kept == after(decision).outcome
    assert (kept.channels_attempted, kept.channels_failed, error) == (
        audit.channels_attempted,
        audit.channels_failed,
        audit.error_message,
    )


@pytest.mark.parametrize("purpose", Purpose)
def test_a_success_on_record_delivers_without_a_call(purpose):
    """
    A success that was put on record, before the claim or after it, settles DELIVERED (R5).
    """
    row = a_row_in(P.LEASED, cycle_attempts=3)
    end = after(settled(a_group(row), None, purpose=purpose, on_record=("SLACK",)))

    assert (Status.DELIVERED, ("SLACK",)) == (end.status, end.outcome.channels_succeeded)


def test_a_success_on_record_outlives_a_failed_call():
    """
    A row never ends FAILED while a success of it is on record.
    """
    row = a_row_in(P.LEASED, cycle_attempts=3)

    assert Status.DELIVERED is after(settled(a_group(row), FAIL, on_record=("SLACK",))).status


def test_under_all_one_success_is_not_enough():
    """
    ``all``: what succeeded stays on record, what did not is tried again.
    """
    plan = ChannelPlan(primary=("SLACK", "EMAIL"), require=Require.ALL)
    row = a_row_in(P.LEASED, effective=an_effective(channels=plan))
    back = after(settled(a_group(row), OK))

    assert (P.LEADING, ("SLACK",)) == (phase(back), back.outcome.channels_succeeded)


@pytest.mark.parametrize("handed_on", [0, 1, 2])
def test_the_first_follower_inherits(handed_on):
    """
    Leader failed for good: its first follower leads the same generation, due at once, and owns the
    window; the failed one names its successor; the rest are relinked by one set-based move.
    """
    decision = settled(a_group(waiting=3, handed_on=handed_on), refused(), now=NOW + 5)
    failed, heir, window = after(decision), after(decision, "f1"), window_after(decision)
    (sweep,) = decision.sweeps

    assert (P.DEAD_LETTER, "f1") == (phase(failed), failed.dedup_successor_id)
    assert (P.LEADING, 1, NOW + 5) == (phase(heir), heir.dedup_generation, heir.next_attempt)
    assert ("f1", handed_on + 1, 2) == (window.owner_id, window.handed_on, window.followers)
    assert ("n1", (Status.PENDING,), Status.PENDING, "f1", K.DEDUP_RELINKED) == (
        sweep.owner_id,
        sweep.statuses,
        sweep.to_status,
        sweep.new_owner_id,
        sweep.event,
    )
    assert {Signal(SignalKind.SETTLED, "n1"), Signal(SignalKind.DUE, "f1")} == set(decision.signals)


def test_the_hand_off_is_told():
    """
    The result, the hand-off on the failed leader, the promotion on its heir: each names both.
    """
    result, handed, promoted = settled(a_group(waiting=1), refused()).events
    link = {"previous_owner_id": "n1", "owner_id": "f1", "generation": 1}

    assert (K.DELIVERY_RESULT, "n1") == (result.kind, result.notification_id)
    assert (K.OBLIGATION_HANDED_OFF, "n1") == (handed.kind, handed.notification_id)
    assert {"successor_id": "f1", "generation": 1} == handed.details
    assert (K.DEDUP_OWNER_PROMOTED, "f1", link) == (
        promoted.kind,
        promoted.notification_id,
        promoted.details,
    )


def test_an_only_follower_leaves_nobody_to_relink():
    """
    With one follower there is no set-based move.
    """
    assert () == settled(a_group(waiting=1), refused()).sweeps


def test_best_effort_hands_on_too():
    """
    Also an obligation that is no dead letter goes on to its first follower.
    """
    failed = after(settled(a_group(a_row_in(P.LEASED, effective=BEST_EFFORT), waiting=1), FAIL))

    assert (P.FAILED, "f1") == (phase(failed), failed.dedup_successor_id)


def test_the_fourth_ends_with_all():
    """
    Given a generation handed on three times, when its third heir fails for good, then the remaining
    followers end with it in one move, and one event counts them.
    """
    decision = settled(a_group(waiting=4, handed_on=3), refused())
    (sweep,) = decision.sweeps
    counted = decision.events[-1]

    assert {"n1"} == set(changed(decision))
    assert (P.DEAD_LETTER, None) == (phase(after(decision)), after(decision).dedup_successor_id)
    assert ((Status.PENDING,), Status.FAILED, None, None) == (
        sweep.statuses,
        sweep.to_status,
        sweep.new_owner_id,
        sweep.event,
    )
    assert [K.DELIVERY_RESULT, K.DEDUP_FAILED_WITH_OWNER] == kinds(decision)
    assert {"owner_id": "n1", "generation": 1, "count": 4} == counted.details


def test_without_followers_nobody_is_counted():
    """
    The cap alone writes no event.
    """
    assert [K.DELIVERY_RESULT] == kinds(settled(a_group(handed_on=3), refused()))


@st.composite
def groups(draw):
    waiting = draw(st.integers(0, 4))
    row = a_row_in(
        P.LEASED,
        cycle_attempts=draw(st.integers(1, 4)),
        effective=draw(st.sampled_from([an_effective(), BEST_EFFORT, ASKING])),
        paced_since=draw(st.sampled_from([None, NOW - 1000])),
    )
    return a_group(row, waiting, handed_on=draw(st.integers(0, 4)))


@given(
    groups(),
    st.sampled_from([OK, FAIL, refused(), paced(), None]),
    st.sampled_from([(), ("SLACK",)]),
    st.sampled_from([NOW, ENDED]),
)
def test_no_follower_is_left_behind_a_leader_that_ended(group, result, on_record, now):
    """
    Once the leader is terminal, nobody PENDING still points at it: all behind it are promoted or in
    a set-based move; and while it is not, nobody behind it moves.
    """
    decision = settled(group, result, on_record=on_record, now=now)
    leader = changed(decision).get("n1", group.leader)
    behind = group.waiting - ("f1" in changed(decision))
    swept = any(s.owner_id == "n1" and Status.PENDING in s.statuses for s in decision.sweeps)

    if leader.status is Status.PENDING:
        assert not swept
        assert behind == group.waiting
    else:
        assert swept or not behind
