"""
Many channels, one outcome, as ``docs/rules.md`` tells it under Dispatching.

- ``require``: ``test_require_*``; "failed for good": ``test_hopeless*``
- who is called, and when the fallbacks: ``test_only_who_lacks_it_is_called``, ``test_fallbacks_*``
- paced only if every call was: ``test_paced_*``; the longest wait counts: ``test_the_longest_wait_counts``
"""

from itertools import product

import pytest

from kit.builders import NOW
from uns.core.rules.outcome import NO_CHANNELS, Call, Tally, suffices
from uns.ports.channel import ChannelResult
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Outcome
from uns.ports.vocabulary import Require

ANY, ALL = Require.ANY, Require.ALL
OK, FAIL = ChannelResult(True), ChannelResult(False, error="no")
REFUSED = ChannelResult(False, error="unknown channel", retryable=False)
PACED = ChannelResult(False, error="429", retry_after=5.0)


def a_plan(require=ANY, primary=("A", "B"), fallback=("F",)):
    return ChannelPlan(primary=primary, fallback=fallback, require=require)


def a_tally(plan, on_record=(), **results):
    calls = tuple(Call(channel, result, NOW) for channel, result in results.items())
    return Tally(plan, frozenset(on_record), calls)


@pytest.mark.parametrize(
    ("succeeded", "any_", "all_"),
    [
        ((), False, False),
        (("A",), True, False),
        (("B",), True, False),
        (("A", "B"), True, True),
        (("F",), True, True),
        (("A", "F"), True, False),
        (("A", "B", "F"), True, True),
        (("X",), False, False),
    ],
)
def test_require_speaks_of_the_primaries(succeeded, any_, all_):
    """
    ``any``: one success. ``all``: every primary, or no primary and one fallback.
    """
    assert (any_, all_) == (
        suffices(a_plan(ANY), frozenset(succeeded)),
        suffices(a_plan(ALL), frozenset(succeeded)),
    )


def test_require_counts_what_is_on_record():
    """
    Successes of earlier attempts and of this one add up.
    """
    assert a_tally(a_plan(ALL), on_record=("A",), B=OK).satisfied
    assert not a_tally(a_plan(ALL), on_record=("A",), B=FAIL).satisfied


@pytest.mark.parametrize("require", Require)
def test_hopeless_only_when_everything_needed_was_refused(require):
    """
    Over all answers of two primaries and a fallback: hopeless exactly when no later attempt could
    meet ``require``, whatever the channels that did not refuse for good say then.
    """
    plan = a_plan(require)
    for a, b, f in product((OK, FAIL, REFUSED), (OK, FAIL, REFUSED), (FAIL, REFUSED, None)):
        results = {"A": a, "B": b} | ({} if f is None else {"F": f})
        tally = a_tally(plan, **results)
        open_ = {channel for channel in "ABF" if results.get(channel) is not REFUSED}
        # Later attempts call the fallback only while no primary has succeeded.
        with_primaries = tally.succeeded | (open_ & {"A", "B"})
        with_fallback = tally.succeeded | (open_ & {"F"})
        possible = suffices(plan, with_primaries) or (
            tally.succeeded.isdisjoint("AB") and suffices(plan, with_fallback)
        )

        assert possible is not tally.hopeless, (a, b, f)


@pytest.mark.parametrize(
    ("require", "results", "expected"),
    [
        (ANY, {"A": REFUSED, "B": FAIL}, False),
        (ANY, {"A": REFUSED, "B": REFUSED}, True),
        (ALL, {"A": REFUSED, "B": FAIL}, True),
        (ALL, {"A": REFUSED, "B": OK}, True),
        (ALL, {"A": FAIL, "B": OK}, False),
    ],
)
def test_hopeless_without_fallbacks(require, results, expected):
    """
    ``all`` is lost with one primary, ``any`` with the last.
    """
    assert expected is a_tally(a_plan(require, fallback=()), **results).hopeless


def test_not_hopeless_while_a_fallback_is_open():
    """
    A fallback that has not refused for good may still carry it, under ``all`` too.
    """
    assert not a_tally(a_plan(ALL), A=REFUSED, B=REFUSED, F=FAIL).hopeless
    assert a_tally(a_plan(ALL), A=REFUSED, B=REFUSED, F=REFUSED).hopeless


def test_an_attempt_without_calls_is_not_hopeless():
    """
    A worker that died has refused nothing.
    """
    assert not a_tally(a_plan()).hopeless


@pytest.mark.parametrize(
    ("on_record", "expected"),
    [((), ("A", "B")), (("A",), ("B",)), (("A", "B"), ()), (("F",), ("A", "B"))],
)
def test_only_who_lacks_it_is_called(on_record, expected):
    """
    A channel with a success on record is never called again (R3).
    """
    assert expected == a_tally(a_plan(ALL), on_record).to_call()


@pytest.mark.parametrize(
    ("on_record", "results", "expected"),
    [
        ((), {"A": FAIL, "B": FAIL}, ("F", "G")),
        ((), {"A": PACED, "B": PACED}, ("F", "G")),
        ((), {"A": REFUSED, "B": FAIL}, ("F", "G")),
        ((), {"A": OK, "B": FAIL}, ()),
        (("A",), {"B": FAIL}, ()),
        (("F",), {"A": FAIL, "B": FAIL}, ("G",)),
    ],
)
def test_fallbacks_are_called_only_when_no_primary_succeeded(on_record, results, expected):
    """
    One primary that has it, now or on record, is reason enough not to bother the fallbacks.
    """
    assert expected == a_tally(a_plan(ALL, fallback=("F", "G")), on_record, **results).fallbacks()


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({}, False),
        ({"A": PACED}, True),
        ({"A": PACED, "B": PACED, "F": PACED}, True),
        ({"A": PACED, "B": FAIL}, False),
        ({"A": PACED, "B": OK}, False),
        ({"A": ChannelResult(True, retry_after=5.0)}, False),
        ({"A": ChannelResult(False, retry_after=0.0)}, True),
    ],
)
def test_paced_when_every_call_was(results, expected):
    """
    An attempt is paced only if every one of its calls was, and a success never is.
    """
    assert expected is a_tally(a_plan(), **results).paced


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({}, None),
        ({"A": FAIL}, None),
        ({"A": PACED, "B": ChannelResult(False, retry_after=7.5)}, 7.5),
        ({"A": FAIL, "B": PACED}, 5.0),
        ({"A": ChannelResult(True, retry_after=90.0), "B": PACED}, 5.0),
    ],
)
def test_the_longest_wait_counts(results, expected):
    """
    The longest wait that a failing provider asked for; a successful one asks for nothing.
    """
    assert expected == a_tally(a_plan(), **results).retry_after


def test_the_stored_outcome():
    """
    Attempted, succeeded and failed channels in the policy's order, with the errors.
    """
    tally = a_tally(a_plan(ALL), on_record=("B",), F=REFUSED, A=FAIL)

    assert (
        Outcome(
            channels_attempted=("A", "B", "F"),
            channels_succeeded=("B",),
            channels_failed=("A", "F"),
            error_message="F: unknown channel; A: no",
        )
        == tally.outcome()
    )


def test_a_success_on_record_outweighs_a_late_failure():
    """
    Given a success on record, when another worker's call of that channel fails, then the channel
    has not failed.
    """
    outcome = a_tally(a_plan(), on_record=("A",), A=FAIL).outcome()

    assert (("A",), ()) == (outcome.channels_succeeded, outcome.channels_failed)


def test_a_settlement_without_a_call_builds_on_the_last_one():
    """
    What earlier attempts came to stays, with the successes put on record since.
    """
    before = Outcome(channels_attempted=("B", "A"), channels_failed=("A", "B"), error_message="B: no")
    kept = a_tally(a_plan(), on_record=("A",)).on_top_of(before, None)

    assert (("A", "B"), ("A",), ("B",), "B: no") == (
        kept.channels_attempted,
        kept.channels_succeeded,
        kept.channels_failed,
        kept.error_message,
    )
    assert "lease expired" == a_tally(a_plan()).on_top_of(before, "lease expired").error_message
    assert Outcome() == a_tally(a_plan()).on_top_of(Outcome(), None)


def test_no_error_is_told_where_none_was_given():
    """
    Of a success, or of a channel that failed without a word.
    """
    assert None is a_tally(a_plan(), A=OK).outcome().error_message
    assert None is a_tally(a_plan(), A=ChannelResult(False)).outcome().error_message


def test_settings_that_cannot_be_read_are_told():
    """
    A row without channels has lost its settings: hopeless, and the outcome says why.
    """
    tally = a_tally(a_plan(primary=(), fallback=()))

    assert (True, NO_CHANNELS) == (tally.hopeless, tally.outcome().error_message)
