"""
Who may dispatch, as ``docs/rules.md`` tells it under Dispatching.

- claimable, each instant at its boundary: ``test_only_what_is_due_and_free_is_claimable``
- the order and its ageing: ``test_the_order_of_dispatch``, ``test_waiting_raises_a_class``
- attempts are counted at the claim: ``test_a_claim_counts_its_attempt``
- successes on record first, on the last attempt too: ``test_a_success_on_record_settles_without_a_call``
- a budget used up: ``test_a_spent_budget_is_only_settled``; BEST_EFFORT has one, a lost one included
- only what has no success is called (R3): ``test_a_channel_that_has_it_is_not_called_again``
- a lease given back: ``test_a_lease_given_back_gives_its_attempt_back`` and the two after it
- a claim by the token that holds the row (R6): ``test_resume_*``
"""

import pytest

from kit.builders import NOW, a_notification, an_effective
from kit.phases import TOKEN, a_row_in
from uns.core.rules.events import Stamp
from uns.core.rules.lease import (
    Bearer,
    Claim,
    Purpose,
    claim,
    claimable,
    give_back,
    holds,
    in_order,
    lost,
    resume,
    servable,
)
from uns.core.rules.lifecycle import Phase
from uns.core.rules.retry import Retry
from uns.ports.decision import Change
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Copy, Event
from uns.ports.sources import Ids
from uns.ports.vocabulary import DeliveryMode, EventKind, Priority, Require

P, K = Phase, EventKind
IDS = Ids("0000002a-0000-7000-8000-000000000000")
STAMP = Stamp(IDS, NOW)
AGE = 600.0
TWO = ChannelPlan(primary=("SLACK", "EMAIL"), fallback=("PAGERDUTY",))
ALL = ChannelPlan(primary=("SLACK", "EMAIL"), fallback=("PAGERDUTY",), require=Require.ALL)
BEST_EFFORT = an_effective(delivery_mode=DeliveryMode.BEST_EFFORT)


def a_copy(channel="SLACK"):
    return Copy(notification_id="n1", channel=channel, ref=None, routing=None, state="SENT", at=NOW)


def a_bearer(token="fresh", *, starts=True, max_attempts=3):
    return Bearer(token, Retry(max_attempts), starts)


@pytest.mark.parametrize("at", Phase)
def test_only_a_free_leader_is_claimable(at):
    """
    Of all phases only a pending leader whose lease has ended is claimable.
    """
    row = a_row_in(at)

    assert (at is P.LEADING) is claimable(row, NOW)
    assert (at in (P.LEADING, P.LEASED)) is claimable(row, NOW + 3600)


@pytest.mark.parametrize(("offset", "expected"), [(-0.001, False), (0.0, True), (0.001, True)])
@pytest.mark.parametrize("field", ["next_attempt", "lease_until"])
def test_only_what_is_due_and_free_is_claimable(field, offset, expected):
    """
    A row is due at ``next_attempt`` and its lease has ended at ``lease_until``, not a moment before.
    """
    row = a_notification(**{field: NOW, "lease_token": TOKEN})

    assert expected is claimable(row, NOW + offset)


@pytest.mark.parametrize(("offset", "expected"), [(-0.001, True), (0.0, False), (0.001, False)])
def test_a_lease_holds_until_it_ends(offset, expected):
    """
    A token fences a row before ``lease_until`` and no longer at it.
    """
    row = a_row_in(P.LEASED)

    assert expected is holds(row, TOKEN, row.lease_until + offset)
    assert not holds(row, "another", NOW)


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        ({"SLACK", "EMAIL", "PAGERDUTY"}, True),
        ({"SLACK", "EMAIL", "PAGERDUTY", "LOG"}, True),
        ({"SLACK", "EMAIL"}, False),
        (set(), False),
    ],
)
def test_a_row_needs_all_its_adapters(channels, expected):
    """
    A process without the adapter of one channel, be it a fallback, leaves the row to others.
    """
    assert expected is servable(a_notification(effective=an_effective(channels=TWO)), frozenset(channels))


def test_the_order_of_dispatch():
    """
    Priority class first, then what has been due for longest, then the id.
    """
    rows = [
        a_notification("low", priority=Priority.LOW, next_attempt=NOW - 50),
        a_notification("b", next_attempt=NOW - 10),
        a_notification("a", next_attempt=NOW - 10),
        a_notification("older", next_attempt=NOW - 11),
        a_notification("high", priority=Priority.HIGH, next_attempt=NOW),
    ]

    assert ["high", "older", "a", "b", "low"] == [row.id for row in in_order(rows, NOW)]


@pytest.mark.parametrize(
    ("priority", "waited", "other", "goes_first"),
    [
        (Priority.LOW, AGE - 0.001, Priority.NORMAL, False),
        (Priority.LOW, AGE, Priority.NORMAL, True),
        (Priority.LOW, AGE + 0.001, Priority.NORMAL, True),
        (Priority.NORMAL, AGE - 0.001, Priority.HIGH, False),
        (Priority.NORMAL, AGE, Priority.HIGH, True),
        (Priority.LOW, 2 * AGE - 0.001, Priority.HIGH, False),
        (Priority.LOW, 2 * AGE, Priority.HIGH, True),
        (Priority.LOW, 9 * AGE, Priority.HIGH, True),
    ],
)
def test_waiting_raises_a_class(priority, waited, other, goes_first):
    """
    Every ten minutes of waiting raise a row by one class; in its new class the older goes first.
    """
    waiting = a_notification("waiting", priority=priority, next_attempt=NOW - waited)
    rival = a_notification("rival", priority=other, next_attempt=NOW)

    assert goes_first is (in_order([rival, waiting], NOW)[0] is waiting)


def test_no_wait_raises_above_high():
    """
    Two rows in HIGH, however old, go by age alone.
    """
    low = a_notification("low", priority=Priority.LOW, next_attempt=NOW - 5 * AGE)
    high = a_notification("high", priority=Priority.HIGH, next_attempt=NOW - 5 * AGE - 1)

    assert ["high", "low"] == [row.id for row in in_order([low, high], NOW)]


def test_a_row_that_is_not_due_yet_has_not_waited():
    """
    A clock that was set back makes no row older.
    """
    later = a_notification("later", priority=Priority.LOW, next_attempt=NOW + 5 * AGE)
    other = a_notification("other", priority=Priority.NORMAL)

    assert ["other", "later"] == [row.id for row in in_order([later, other], NOW)]


def test_a_claim_counts_its_attempt():
    """
    A claim leases for 60 s, counts the attempt, and starts the primaries for a caller with a slot.
    """
    row = a_notification(effective=an_effective(channels=TWO), attempts=4, cycle=2, cycle_attempts=1)
    decision = claim(row, (), a_bearer(), NOW)
    made = decision.reply
    begun, *started = decision.events

    assert (Change(row, made.row),) == decision.changes
    assert ("fresh", NOW + 60) == (made.row.lease_token, made.row.lease_until)
    assert (5, 2, 2) == (made.row.attempts, made.row.cycle, made.row.cycle_attempts)
    assert (Purpose.SEND, ("SLACK", "EMAIL")) == (made.purpose, made.calls)
    assert K.ATTEMPT_STARTED is begun.kind
    assert {
        "attempt": 5,
        "cycle": 2,
        "cycle_attempt": 2,
        "recovery_may_repeat_provider_effect": False,
    } == begun.details
    assert ["SLACK", "EMAIL"] == [event.details["channel"] for event in started]
    assert {
        "channel": "SLACK",
        "lease_token": "fresh",
        "attempt": 5,
        "cycle": 2,
        "cycle_attempt": 2,
        "provider_effect_may_have_occurred": True,
    } == started[0].details


def test_a_claim_without_a_slot_starts_nothing():
    """
    What waits for its turn is leased and counted, and no channel is said to be called.
    """
    decision = claim(a_notification(), (), a_bearer(starts=False), NOW)

    assert (Purpose.SEND, ()) == (decision.reply.purpose, decision.reply.calls)
    assert [K.ATTEMPT_STARTED] == [event.kind for event in decision.events]


def test_a_lapsed_lease_is_told():
    """
    After a worker that died, what its provider did may be repeated, and the timeline says so.
    """
    row = a_row_in(P.LEASED, lease_until=NOW)
    begun = claim(row, (), a_bearer(), NOW).events[0]

    assert begun.details["recovery_may_repeat_provider_effect"] is True


@pytest.mark.parametrize("cycle_attempts", [0, 2, 3])
def test_a_success_on_record_settles_without_a_call(cycle_attempts):
    """
    Where the successes on record suffice nothing is called or counted, on the last attempt too (R5).
    """
    row = a_notification(cycle_attempts=cycle_attempts, attempts=7)
    decision = claim(row, (a_copy(),), a_bearer(), NOW)

    assert (Purpose.SATISFIED, ()) == (decision.reply.purpose, decision.reply.calls)
    assert (7, cycle_attempts) == (decision.reply.row.attempts, decision.reply.row.cycle_attempts)
    assert ("fresh", NOW + 60) == (decision.reply.row.lease_token, decision.reply.row.lease_until)
    assert [K.RECOVERY_STARTED] == [event.kind for event in decision.events]


@pytest.mark.parametrize(
    ("on_record", "expected"),
    [((), ("SLACK", "EMAIL")), (("SLACK",), ("EMAIL",)), (("EMAIL",), ("SLACK",))],
)
def test_a_channel_that_has_it_is_not_called_again(on_record, expected):
    """
    Under ``all`` only the primaries without a success on record are called (R3).
    """
    row = a_notification(effective=an_effective(channels=ALL))
    decision = claim(row, tuple(map(a_copy, on_record)), a_bearer(), NOW)

    assert expected == decision.reply.calls
    assert [*expected] == [event.details["channel"] for event in decision.events[1:]]


@pytest.mark.parametrize(
    ("effective", "spent", "expected"),
    [
        (an_effective(), 2, Purpose.SEND),
        (an_effective(), 3, Purpose.EXHAUSTED),
        (an_effective(), 4, Purpose.EXHAUSTED),
        (an_effective(max_attempts=1), 0, Purpose.SEND),
        (an_effective(max_attempts=1), 1, Purpose.EXHAUSTED),
        (an_effective(max_attempts=5), 4, Purpose.SEND),
        (an_effective(max_attempts=5), 5, Purpose.EXHAUSTED),
        (BEST_EFFORT, 0, Purpose.SEND),
        (BEST_EFFORT, 1, Purpose.EXHAUSTED),
    ],
)
def test_a_spent_budget_is_only_settled(effective, spent, expected):
    """
    Once the cycle's budget is used up a claim only leases; one lost attempt is all of BEST_EFFORT's.
    """
    row = a_notification(effective=effective, attempts=9, cycle_attempts=spent)
    decision = claim(row, (), a_bearer(), NOW)
    counts = int(expected is Purpose.SEND)

    assert expected is decision.reply.purpose
    assert (9 + counts, spent + counts) == (decision.reply.row.attempts, decision.reply.row.cycle_attempts)
    assert [K.ATTEMPT_STARTED if counts else K.RECOVERY_STARTED] == [e.kind for e in decision.events[:1]]


@pytest.mark.parametrize("token", [None, TOKEN])
def test_whether_the_last_attempt_reported_back_is_told(token):
    """
    A budget is used up by a worker that died, or was lowered since: claim and timeline say which.
    """
    row = a_notification(cycle_attempts=3, attempts=7, lease_token=token, lease_until=NOW if token else 0.0)
    decision = claim(row, (), a_bearer(), NOW)
    (begun,) = decision.events
    expired = token is not None

    assert expired is decision.reply.interrupted
    assert begun.details == {
        "purpose": "EXHAUSTED",
        "attempt": 7,
        "cycle": 1,
        "cycle_attempt": 3,
        "lease_expired": expired,
    }


def test_resume_is_the_claim_itself():
    """
    Given a committed claim, when its plan runs again, then it replies with the same claim.
    """
    decision = claim(a_notification(), (), a_bearer(), NOW)
    made = decision.reply

    assert made == resume(made.row, (), a_bearer(), decision.events[0])
    assert made == resume(made.row, (), a_bearer())


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("copies", [(), (a_copy(),)], ids=["exhausted", "satisfied"])
def test_resume_of_a_claim_that_only_settles(copies, token):
    """
    Also a claim that counted nothing is recognised as it was.
    """
    row = a_notification(cycle_attempts=3, lease_token=token, lease_until=NOW if token else 0.0)
    decision = claim(row, copies, a_bearer(), NOW)
    made = decision.reply

    assert made == resume(made.row, copies, a_bearer(), decision.events[0])


@pytest.mark.parametrize(
    ("kind", "details", "interrupted"),
    [
        (None, "{}", True),
        (K.ATTEMPT_STARTED, "{}", True),
        (K.RECOVERY_STARTED, '{"lease_expired":true}', True),
        (K.RECOVERY_STARTED, '{"lease_expired":false}', False),
    ],
)
@pytest.mark.parametrize("spent", [0, 3])
def test_a_lease_that_only_settled_hands_on_what_it_knew(kind, details, interrupted, spent):
    """
    Given a lapsed lease, then whether the last attempt reported back is that lease's to say, if it
    made none itself; each later claim, settling or sending, says the same.
    """
    row = a_row_in(P.LEASED, lease_until=NOW, cycle_attempts=spent)
    lapsed = Event(id="e", notification_id="n1", kind=kind, at=NOW, payload=details) if kind else None
    decision = claim(row, (), a_bearer(), NOW, lapsed)
    told = "lease_expired" if spent else "recovery_may_repeat_provider_effect"

    assert interrupted is decision.reply.interrupted is decision.events[0].details[told]
    assert decision.reply == resume(decision.reply.row, (), a_bearer(), decision.events[0])


@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_lease_given_back_keeps_what_it_knew(purpose, interrupted):
    """
    Given an attempt that never reported back, when the lease after it is returned, then its token
    stays, over a lease that has ended: the row is claimable at once, and the next claim is told.
    """
    row = a_row_in(P.LEASED)
    (change,) = give_back(row, Claim(row, TOKEN, purpose, (), interrupted), STAMP).changes

    assert ((TOKEN, NOW) if interrupted else (None, 0.0)) == (
        change.after.lease_token,
        change.after.lease_until,
    )
    assert claimable(change.after, NOW)
    assert not holds(change.after, TOKEN, NOW)


def test_a_lease_given_back_gives_its_attempt_back():
    """
    Given that nothing was started, when a worker stops, then its attempt does not count.
    """
    row = a_row_in(P.LEASED, attempts=4, cycle_attempts=2)
    decision = give_back(row, Claim(row, TOKEN, Purpose.SEND), STAMP)
    (change,), (event,) = decision.changes, decision.events

    assert decision.reply is True
    assert (None, 0.0) == (change.after.lease_token, change.after.lease_until)
    assert (3, 1) == (change.after.attempts, change.after.cycle_attempts)
    assert K.ATTEMPT_RETURNED is event.kind


def test_a_lease_that_counted_nothing_gives_nothing_back():
    """
    A claim that was only to settle leaves the attempts that others spent: else a notification that
    kills its workers would never end.
    """
    row = a_row_in(P.LEASED, attempts=3, cycle_attempts=3)
    decision = give_back(row, Claim(row, TOKEN, Purpose.EXHAUSTED), STAMP)
    (change,) = decision.changes

    assert (None, 0.0) == (change.after.lease_token, change.after.lease_until)
    assert (3, 3) == (change.after.attempts, change.after.cycle_attempts)
    assert () == decision.events


@pytest.mark.parametrize(
    "row", [a_row_in(P.LEASED, lease_until=NOW), a_row_in(P.LEASED, lease_token="x"), a_row_in(P.DELIVERED)]
)
def test_a_lease_that_is_gone_cannot_be_given_back(row):
    """
    Losing changes nothing.
    """
    decision = give_back(row, Claim(row, TOKEN, Purpose.SEND), STAMP)

    assert (False, (), ()) == (decision.reply, decision.changes, decision.events)


def test_lease_lost_is_told():
    """
    LEASE_LOST names the token and the attempt whose outcome was not taken over.
    """
    event = lost(Claim(a_row_in(P.LEASED), TOKEN, Purpose.SEND), 2, STAMP)

    assert (K.LEASE_LOST, IDS.nth(2)) == (event.kind, event.id)
    assert {
        "lease_token": TOKEN,
        "attempt": 1,
        "provider_effect_may_have_occurred": True,
    } == event.details
