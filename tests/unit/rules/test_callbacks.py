"""
Callbacks, as ``docs/rules.md`` tells them: 30 s lease, three attempts, ``2^attempts`` seconds between;
after the third the event stays with its error, and an operator can re-arm it.
"""

import pytest

from kit.builders import NOW
from uns.core.rules.callbacks import UNREPORTED, claim, claimable, exhausted, rearm, settle
from uns.ports.decision import Change, Signal, SignalKind
from uns.ports.rows import Event
from uns.ports.vocabulary import EventKind


def an_event(**fields):
    plain = {"callback_pending": True, "callback_until": NOW}
    return Event(id="e1", notification_id="n1", kind=EventKind.ACKED, at=NOW, **(plain | fields))


def leased(attempts=1, **fields):
    plain = {
        "callback_attempts": attempts,
        "callback_until": NOW + 30,
        "callback_token": "t",
        "callback_error": UNREPORTED,
    }
    return an_event(**(plain | fields))


@pytest.mark.parametrize(("offset", "due"), [(-0.001, False), (0.0, True), (0.001, True)])
@pytest.mark.parametrize(
    ("fields", "ever"),
    [
        ({}, True),
        ({"callback_attempts": 2}, True),
        ({"callback_attempts": 3}, False),
        ({"callback_pending": False}, False),
        ({"callback_token": "dead", "callback_attempts": 1}, True),
    ],
)
def test_what_is_due_is_claimable(fields, ever, offset, due):
    """
    A pending event with attempts left is due at ``callback_until``, which is also where a lease ends.
    """
    row = an_event(**fields)

    assert (ever and due) is claimable(row, NOW + offset)
    assert (ever and due) is (claim(row, token="t", now=NOW + offset).reply is not None)


def test_a_claim_leases_and_counts():
    """
    30 s, the attempt counted at the claim, so that a callback that kills its caller ends too.
    """
    row = an_event(callback_attempts=1)
    decision = claim(row, token="t", now=NOW + 5)
    after = decision.reply

    assert (Change(row, after),) == decision.changes
    assert ("t", NOW + 35, 2) == (
        after.callback_token,
        after.callback_until,
        after.callback_attempts,
    )
    assert "attempt did not report back" == after.callback_error


def test_a_claim_made_twice_is_one_claim():
    """
    The token that holds the event gets it again, uncounted.
    """
    decision = claim(leased(), token="t", now=NOW)

    assert (leased(), ()) == (decision.reply, decision.changes)


def test_what_succeeded_is_done():
    """
    A callback that returned leaves the outbox, without an error.
    """
    (change,) = settle(leased(), token="t", error=None, now=NOW + 1).changes

    assert (False, None, None) == (
        change.after.callback_pending,
        change.after.callback_token,
        change.after.callback_error,
    )


@pytest.mark.parametrize(("attempts", "wait"), [(1, 2.0), (2, 4.0)])
def test_a_failure_waits_for_its_next_attempt(attempts, wait):
    """
    ``2^attempts`` seconds lie between two calls.
    """
    (change,) = settle(leased(attempts), token="t", error="boom", now=NOW + 1).changes
    after = change.after

    assert (True, None, NOW + 1 + wait, "boom") == (
        after.callback_pending,
        after.callback_token,
        after.callback_until,
        after.callback_error,
    )
    assert not claimable(after, NOW + 1 + wait - 0.001)
    assert claimable(after, NOW + 1 + wait)


def test_the_third_failure_stays_with_its_error():
    """
    After the third the event is exhausted at once: nobody claims it any more, and it is listed.
    """
    (change,) = settle(leased(3), token="t", error="boom", now=NOW + 1).changes
    after = change.after

    assert (True, 3, "boom") == (
        after.callback_pending,
        after.callback_attempts,
        after.callback_error,
    )
    assert exhausted(after, NOW + 1)
    assert not claimable(after, NOW + 3600)


@pytest.mark.parametrize("error", [None, "boom"])
def test_a_lease_that_passed_on_records_nothing(error):
    """
    Losing changes nothing.
    """
    decision = settle(leased(callback_token="other"), token="t", error=error, now=NOW)

    assert (False, ()) == (decision.reply, decision.changes)


@pytest.mark.parametrize(
    ("error", "stored"), [("x" * 2000, "x" * 2000), ("x" * 2001, "x" * 2000), ("", "callback failed")]
)
def test_an_error_is_told_within_its_column(error, stored):
    """
    2,000 characters at most, and something even if the callback said nothing.
    """
    (change,) = settle(leased(), token="t", error=error, now=NOW).changes

    assert stored == change.after.callback_error
    assert change.after.callback_pending


@pytest.mark.parametrize(("offset", "expected"), [(-0.001, False), (0.0, True), (0.001, True)])
def test_a_last_call_is_exhausted_when_its_lease_ends(offset, expected):
    """
    Given that the third caller died, then the event is exhausted once its lease has ended.
    """
    assert expected is exhausted(leased(3), NOW + 30 + offset)


@pytest.mark.parametrize("row", [leased(2), an_event(callback_attempts=2), leased(3, callback_pending=False)])
def test_what_has_attempts_left_or_is_done_is_not_exhausted(row):
    """
    Three calls have to have failed.
    """
    assert not exhausted(row, NOW + 3600)


def test_rearming_gives_three_fresh_attempts():
    """
    An exhausted callback is due at once, and a courier is woken.
    """
    row = an_event(callback_attempts=3, callback_error="boom", callback_until=NOW - 5)
    decision = rearm(row, now=NOW)
    (change,) = decision.changes

    assert decision.reply is True
    assert an_event(callback_until=NOW) == change.after
    assert (Signal(SignalKind.CALLBACK, "e1"),) == decision.signals
    assert claimable(change.after, NOW)


@pytest.mark.parametrize(
    ("row", "reply"),
    [
        (leased(1), False),
        (leased(3), False),
        (an_event(callback_pending=False), False),
        (an_event(callback_attempts=2), False),
        (an_event(), True),
    ],
    ids=["being called", "in its last call", "done", "one attempt left", "all attempts left"],
)
def test_rearming_anything_else_changes_nothing(row, reply):
    """
    What is on its way or done stays as it is; what has all three attempts needed no re-arming.
    """
    decision = rearm(row, now=NOW)

    assert (reply, ()) == (decision.reply, decision.changes)
