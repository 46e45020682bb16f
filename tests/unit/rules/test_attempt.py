"""
The calls of an attempt, as ``docs/rules.md`` tells them under Dispatching.

- started by one plan, the lease verified and renewed to a full 60 s: ``test_start_*``
- the successes on record are read first (R5) and never called again (R3): ``test_start_*``
- fallbacks only when no primary succeeded: ``test_start_after_the_primaries``
- a result is appended whether or not the lease stands; each success is put on record: ``test_record_*``
"""

import pytest

from kit.builders import NOW, an_effective
from kit.phases import TOKEN, a_row_in
from uns.core.rules.attempt import Go, record, renew, start
from uns.core.rules.events import Stamp
from uns.core.rules.lease import Claim, Purpose
from uns.core.rules.lifecycle import Phase
from uns.core.rules.outcome import Call
from uns.ports.channel import ChannelResult
from uns.ports.decision import Change
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Copy
from uns.ports.sources import Ids
from uns.ports.vocabulary import EventKind, Require

K = EventKind
IDS = Ids("0000002a-0000-7000-8000-000000000000")
PLAN = ChannelPlan(primary=("SLACK", "EMAIL"), fallback=("PAGERDUTY",), require=Require.ALL)
ROW = a_row_in(Phase.LEASED, effective=an_effective(channels=PLAN))
CLAIM = Claim(ROW, TOKEN, Purpose.SEND)
ENDED = ROW.lease_until


def at(now):
    return Stamp(IDS, now)


def a_copy(channel="SLACK"):
    return Copy(notification_id="n1", channel=channel, ref=None, routing=None, state="SENT", at=NOW)


def a_call(channel="SLACK", success=False, **fields):
    return Call(channel, ChannelResult(success, **fields), NOW - 1)


def test_start_renews_the_lease_and_tells_each_call():
    """
    Starting leaves a full 60 s from now, and one CHANNEL_ATTEMPT_STARTED for each primary.
    """
    decision = start(ROW, CLAIM, (), (), at(NOW + 20))
    (change,) = decision.changes

    assert (Go.CALL, ("SLACK", "EMAIL")) == (decision.reply.go, decision.reply.calls)
    assert (NOW + 80, TOKEN) == (change.after.lease_until, change.after.lease_token)
    assert [K.CHANNEL_ATTEMPT_STARTED] * 2 == [event.kind for event in decision.events]
    assert ["SLACK", "EMAIL"] == [event.details["channel"] for event in decision.events]


@pytest.mark.parametrize(
    ("now", "go"), [(ENDED - 0.001, Go.CALL), (ENDED, Go.LOST), (ENDED + 0.001, Go.LOST)]
)
def test_start_needs_the_lease(now, go):
    """
    A lease that has ended starts nothing: one LEASE_LOST and no change.
    """
    decision = start(ROW, CLAIM, (), (), at(now))

    assert go is decision.reply.go
    if go is Go.LOST:
        assert ((), [K.LEASE_LOST]) == (decision.changes, [event.kind for event in decision.events])


def test_start_under_anothers_lease():
    """
    The token decides, whatever time is left.
    """
    decision = start(ROW, Claim(ROW, "stale", Purpose.SEND), (), (), at(NOW))

    assert (Go.LOST, ()) == (decision.reply.go, decision.changes)


def test_start_skips_who_has_it():
    """
    Under ``all`` a primary with a success on record is not started again.
    """
    decision = start(ROW, CLAIM, (a_copy("SLACK"),), (), at(NOW))

    assert ("EMAIL",) == decision.reply.calls
    assert ["EMAIL"] == [event.details["channel"] for event in decision.events]


@pytest.mark.parametrize("on_record", [("SLACK", "EMAIL"), ("PAGERDUTY",)])
def test_start_settles_on_what_is_on_record(on_record):
    """
    Given that the successes on record came to suffice since the claim, then nothing is started.
    """
    decision = start(ROW, CLAIM, tuple(map(a_copy, on_record)), (), at(NOW))

    assert (Go.SETTLE, (), ()) == (decision.reply.go, decision.changes, decision.events)


@pytest.mark.parametrize(
    ("copies", "done", "go", "calls"),
    [
        ((), (a_call("SLACK"), a_call("EMAIL")), Go.CALL, ("PAGERDUTY",)),
        (("EMAIL",), (a_call("SLACK"), a_call("EMAIL", success=True)), Go.SETTLE, ()),
        (("SLACK",), (a_call("EMAIL"),), Go.SETTLE, ()),
        (("SLACK", "EMAIL"), (a_call("SLACK"), a_call("EMAIL")), Go.SETTLE, ()),
    ],
)
def test_start_after_the_primaries(copies, done, go, calls):
    """
    After the primaries come the fallbacks, unless a primary has it by now.
    """
    reply = start(ROW, CLAIM, tuple(map(a_copy, copies)), done, at(NOW)).reply

    assert (go, calls) == (reply.go, reply.calls)


def test_a_row_without_channels_is_settled():
    """
    Where no channel can be called, the attempt goes to its settlement at once.
    """
    row = a_row_in(Phase.LEASED, effective=an_effective(channels=ChannelPlan(primary=())))

    assert Go.SETTLE is start(row, Claim(row, TOKEN, Purpose.SEND), (), (), at(NOW)).reply.go


@pytest.mark.parametrize(("now", "held"), [(ENDED - 0.001, True), (ENDED, False), (ENDED + 0.001, False)])
def test_renewing_needs_the_lease(now, held):
    """
    A lease is renewed to a full 60 s while it stands; one that has ended is lost.
    """
    decision = renew(ROW, CLAIM, at(now))

    assert held is decision.reply
    assert ([now + 60] if held else []) == [change.after.lease_until for change in decision.changes]
    assert ([] if held else [K.LEASE_LOST]) == [event.kind for event in decision.events]


def test_record_tells_what_the_provider_said():
    """
    CHANNEL_ATTEMPT_RESULT keeps the observation, attributed to the lease it was made under.
    """
    call = Call("SLACK", ChannelResult(True, message_id="m7", metadata={"ts": "1"}), NOW - 1)
    (event,) = record(CLAIM, (call,), (), at(NOW)).events

    assert K.CHANNEL_ATTEMPT_RESULT is event.kind
    assert {
        "lease_token": TOKEN,
        "attempt": 1,
        "cycle": 1,
        "cycle_attempt": 1,
        "channel": "SLACK",
        "success": True,
        "message_id": "m7",
        "error": None,
        "metadata": {"ts": "1"},
        "provider_observed_at": NOW - 1,
    } == event.details


def test_record_puts_each_new_success_on_record():
    """
    A success is put on record once; the reply is everything on record afterwards.
    """
    calls = (
        a_call("SLACK", success=True),
        a_call("EMAIL", success=True, message_id="m"),
        a_call("PAGERDUTY"),
    )
    decision = record(CLAIM, calls, (a_copy("SLACK"),), at(NOW))
    fresh = Copy(notification_id="n1", channel="EMAIL", ref="m", routing=None, state="SENT", at=NOW)

    assert (Change(None, fresh),) == decision.changes
    assert (a_copy("SLACK"), fresh) == decision.reply
    assert ["SLACK", "EMAIL", "PAGERDUTY"] == [event.details["channel"] for event in decision.events]
    assert 3 == len({event.id for event in decision.events})


def test_record_asks_for_no_lease():
    """
    What a provider did has happened, whoever holds the row now.
    """
    stale = Claim(ROW, "stale", Purpose.SEND)
    decision = record(stale, (a_call("SLACK", success=True),), (), at(ENDED + 3600))

    assert ["SLACK"] == [copy.channel for copy in decision.reply]
    assert [K.CHANNEL_ATTEMPT_RESULT] == [event.kind for event in decision.events]
