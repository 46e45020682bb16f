"""
The callback outbox as transactions, as ``docs/rules.md`` tells it.

- claimed in (``callback_until``, ``at``, id) order, 30 s lease: ``test_claimed_in_order``, ``test_a_lease_*``
- never more than can be called: one per token, ``test_one_for_each_token``
- three attempts, then the operator: ``test_three_attempts_and_no_more``, ``test_rearming_*``
- run twice (R6): ``test_claiming_again_*``
"""

import pytest

from kit.builders import NOW
from kit.ledger import Ledger
from uns.core.plans import callbacks
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import NotFound
from uns.ports.rows import Event
from uns.ports.vocabulary import EventKind


@pytest.fixture
def ledger():
    return Ledger()


def an_event(id, **fields):
    plain = {"at": NOW, "callback_pending": True, "callback_until": NOW}
    return Event(id=id, notification_id="n1", kind=EventKind.ACKED, **(plain | fields))


def contents(ledger):
    return dict(ledger.table(Event))


def claimed(ledger, *tokens):
    return [event.id for event in ledger.run(callbacks.claim(tokens))]


def test_claimed_in_order(ledger):
    """
    What has been due for longest first, then the older event, then the id.
    """
    ledger.put(
        an_event("d", callback_until=NOW),
        an_event("c", callback_until=NOW - 1, at=NOW - 5),
        an_event("b", callback_until=NOW - 1, at=NOW - 6),
        an_event("a", callback_until=NOW - 1, at=NOW - 5),
        an_event("later", callback_until=NOW + 0.001),
        an_event("done", callback_pending=False),
        an_event("spent", callback_attempts=3),
    )

    assert ["b", "a", "c", "d"] == claimed(ledger, *"123456")


def test_one_for_each_token(ledger):
    """
    Never more than can be called at once, each under a token of its own.
    """
    ledger.put(*(an_event(id) for id in "abc"))
    events = ledger.run(callbacks.claim(["t1", "t2"]))

    assert [("a", "t1"), ("b", "t2")] == [(event.id, event.callback_token) for event in events]
    assert list(events) == [contents(ledger)[id] for id in "ab"]


@pytest.mark.parametrize(("after", "again"), [(29.999, []), (30.0, ["a"]), (30.001, ["a"])])
def test_a_lease_keeps_others_out_for_30_s(ledger, after, again):
    """
    A courier that died is followed by another once its lease has ended.
    """
    ledger.put(an_event("a"))
    claimed(ledger, "t1")
    ledger.clock.advance(after)

    assert again == claimed(ledger, "t2")


@pytest.mark.parametrize("error", [None, "boom"])
def test_settling(ledger, error):
    """
    What the call came to is recorded for the token that holds the event, once.
    """
    ledger.put(an_event("a"))
    claimed(ledger, "t1")
    replies = [ledger.run(callbacks.settle("a", token="t1", error=error)) for _ in range(2)]

    assert [True, False] == replies
    assert (error is not None, error) == (
        contents(ledger)["a"].callback_pending,
        contents(ledger)["a"].callback_error,
    )


def test_settling_after_the_lease_passed_on(ledger):
    """
    The second courier's attempt is its own.
    """
    ledger.put(an_event("a"))
    claimed(ledger, "t1")
    ledger.clock.advance(30)
    claimed(ledger, "t2")
    before = contents(ledger)

    assert ledger.run(callbacks.settle("a", token="t1", error=None)) is False
    assert ledger.run(callbacks.settle("unknown", token="t1", error=None)) is False
    assert before == contents(ledger)


def test_three_attempts_and_no_more(ledger):
    """
    2 s after the first failure, 4 s after the second, never after the third.
    """
    ledger.put(an_event("a"))
    called = []
    for _ in range(30):
        for event in ledger.run(callbacks.claim([f"t{ledger.clock.now()}"])):
            called.append(ledger.clock.now() - NOW)
            ledger.run(callbacks.settle("a", token=event.callback_token, error="boom"))
        ledger.clock.advance(0.5)

    assert [0.0, 2.0, 6.0] == called
    assert ["a"] == [event.id for event in ledger.read(callbacks.exhausted(10))]
    assert "boom" == contents(ledger)["a"].callback_error


def test_couriers_that_die_use_up_attempts(ledger):
    """
    Attempts are counted at the claim, so a callback that kills its callers ends too, and is listed
    once the last lease has ended.
    """
    ledger.put(an_event("a"))
    for token in ("t1", "t2", "t3"):
        assert ["a"] == claimed(ledger, token)
        assert [] == ledger.read(callbacks.exhausted(10))
        ledger.clock.advance(30)

    assert [] == claimed(ledger, "t4")
    assert ["attempt did not report back"] == [
        event.callback_error for event in ledger.read(callbacks.exhausted(10))
    ]


def test_claiming_again_returns_the_claims(ledger):
    """
    Given that the answer to the commit was lost, when the plan runs again, then the same events come
    back under the same tokens, uncounted.
    """
    ledger.put(*(an_event(id) for id in "abc"))
    plan = callbacks.claim(["t1", "t2"])
    first, before = ledger.run(plan), contents(ledger)

    assert first == ledger.run(plan)
    assert before == contents(ledger)


def test_claiming_again_in_a_crowd_uses_no_token_twice(ledger):
    """
    Given more due events than tokens, when the plan runs again, then it still knows what it leased
    and leases nothing else.
    """
    ledger.put(*(an_event(f"e{n:02}") for n in range(20)))
    plan = callbacks.claim(["t1", "t2"])
    first, before = ledger.run(plan), contents(ledger)

    assert first == ledger.run(plan)
    assert before == contents(ledger)


@pytest.mark.parametrize(("after", "held"), [(29.999, True), (30.0, False), (30.001, False)])
def test_claiming_again_when_the_lease_has_ended(ledger, after, held):
    """
    Given that the answer came no sooner than the lease ended, when the plan runs again, then the
    event is left to others: one of them may be calling.
    """
    ledger.put(an_event("a"))
    plan = callbacks.claim(["t1"])
    ledger.run(plan)
    ledger.clock.advance(after)

    assert held is bool(ledger.run(plan))


def test_claiming_again_fills_the_tokens_that_are_free(ledger):
    """
    What became due since goes to the tokens that have leased nothing.
    """
    ledger.put(an_event("a"))
    plan = callbacks.claim(["t1", "t2"])
    ledger.run(plan)
    ledger.put(an_event("b"))

    assert [("a", "t1"), ("b", "t2")] == [(e.id, e.callback_token) for e in ledger.run(plan)]


def test_rearming_gives_three_fresh_attempts(ledger):
    """
    An exhausted callback is due at once, couriers are woken, and repeating it changes nothing.
    """
    ledger.put(an_event("a", callback_attempts=3, callback_error="boom"))
    ledger.signals.clear()

    assert [True, True] == [ledger.run(callbacks.rearm("a")) for _ in range(2)]
    assert [Signal(SignalKind.CALLBACK, "a")] == ledger.signals
    assert [] == ledger.read(callbacks.exhausted(10))
    assert ["a"] == claimed(ledger, "t1")


def test_rearming_what_is_on_its_way_or_unknown(ledger):
    """
    False for an event that is being called; NotFound where there is none.
    """
    ledger.put(an_event("a"))
    claimed(ledger, "t1")

    assert ledger.run(callbacks.rearm("a")) is False
    with pytest.raises(NotFound, match="Callback event"):
        ledger.run(callbacks.rearm("unknown"))


def test_the_exhausted_are_listed_oldest_first(ledger):
    """
    Up to the limit, by the events' own time.
    """
    ledger.put(*(an_event(f"e{n}", at=NOW - n, callback_attempts=3) for n in range(4)))

    assert ["e3", "e2"] == [event.id for event in ledger.read(callbacks.exhausted(2))]
