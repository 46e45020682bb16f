"""
Calling channels, as ``docs/rules.md`` tells it under Dispatching: at once, each within its limit, an
adapter that overruns abandoned and not awaited, and none of them trusted.
"""

import asyncio
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kit.builders import AGENT, NOW, a_policy
from kit.channels import ScriptedChannel, SlowChannel
from kit.commits import Crash
from kit.ledger import Ledger
from kit.virtual_time import in_virtual_time, run
from uns.adapters.channels.registry import SimpleAdapterRegistry
from uns.core.loops.caller import Caller
from uns.ports.channel import ChannelResult
from uns.ports.policy import ChannelPlan

TWO = a_policy(channels=ChannelPlan(primary=("SLACK", "EMAIL")), targets={"SLACK": {"channel": "#ops"}})


@pytest.fixture
def ledger():
    return Ledger(TWO)


def a_caller(ledger, **channels):
    return Caller(SimpleAdapterRegistry(channels), ledger.clock)


def claimed(ledger, **fields):
    return ledger.claim(ledger.accept(**fields).id)


async def called(ledger, channel, **more):
    """
    What one call of SLACK came to.
    """
    (call,) = await a_caller(ledger, SLACK=channel).call(claimed(ledger), ("SLACK",), **more)
    return call


@in_virtual_time
async def test_a_channel_is_given_the_notification_and_its_target(ledger):
    """
    The request's fields and id, the operator's target, the attempt and the limit.
    """
    channel = ScriptedChannel()
    claim = claimed(ledger, metadata={"host": "db1"}, correlation_id="c")
    await a_caller(ledger, SLACK=channel).call(claim, ("SLACK",))
    (message,) = channel.calls

    assert (claim.id, "disk is filling up", "pay", "c") == (
        message.notification.id,
        message.notification.title,
        message.notification.source,
        message.notification.correlation_id,
    )
    assert ("db1", AGENT) == (
        message.notification.metadata["host"],
        str(message.notification.autonomy_context.agent_id),
    )
    assert ({"channel": "#ops"}, 1, 10.0) == (message.target, message.attempt, message.deadline)


@in_virtual_time
async def test_the_token_is_the_same_for_every_attempt_of_a_cycle(ledger):
    """
    ``<id>:<cycle>:<channel>``, so that a provider with an idempotency header repeats nothing within
    a cycle, and sends again after a replay.
    """
    channel = ScriptedChannel()
    caller, id = a_caller(ledger, SLACK=channel, EMAIL=channel), ledger.accept().id
    for _ in range(2):
        await caller.call(ledger.claim(id), ("SLACK", "EMAIL"))
        ledger.clock.advance(60)
    ledger.fail(id)
    ledger.replay(id)
    await caller.call(ledger.claim(id), ("SLACK",))

    assert [f"{id}:1:SLACK", f"{id}:1:EMAIL"] * 2 + [f"{id}:2:SLACK"] == [
        message.idempotency_token for message in channel.calls
    ]
    assert [1, 1, 2, 2, 1] == [message.attempt for message in channel.calls]


@in_virtual_time
async def test_channels_are_called_at_once(ledger):
    """
    Two calls of five seconds take five seconds; the results come in the order of the channels.
    """
    slow, quick = SlowChannel(5.0), SlowChannel(1.0, result=False)
    calls = await a_caller(ledger, SLACK=slow, EMAIL=quick).call(claimed(ledger), ("SLACK", "EMAIL"))

    assert [("SLACK", True, NOW + 5), ("EMAIL", False, NOW + 1)] == [
        (call.channel, call.result.success, call.observed_at) for call in calls
    ]


@pytest.mark.parametrize(("seconds", "in_time"), [(9.999, True), (10.001, False)])
@in_virtual_time
async def test_a_call_has_ten_seconds(ledger, seconds, in_time):
    """
    What has not answered by then has failed, and may be tried again.
    """
    call = await called(ledger, SlowChannel(seconds))

    assert in_time is call.result.success
    if not in_time:
        assert ("no answer within 10 s", True) == (call.result.error, call.result.retryable)
        assert NOW + 10 == call.observed_at


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (2, 2.0),
        (30.5, 30.5),
        (44.999, 44.999),
        (45.0, 45.0),
        (45.001, 45.0),
        (3600, 45.0),
        (0, 10.0),
        (-1, 10.0),
        (None, 10.0),
        ("30", 10.0),
        (math.nan, 10.0),
        (math.inf, 10.0),
        (10**400, 10.0),
    ],
)
@in_virtual_time
async def test_a_channel_may_say_how_long_it_takes(ledger, says, expected):
    """
    Ten seconds unless the channel says otherwise, and never more than the lease less 15 s.
    """
    channel = SlowChannel(3600.0)
    channel.timeout_seconds = says
    caller = a_caller(ledger, SLACK=channel, EMAIL=SlowChannel(1.0))
    (call,) = await caller.call(claimed(ledger), ("SLACK",))

    assert (expected, NOW + expected) == (channel.calls[0].deadline, call.observed_at)
    assert (expected, max(expected, 10.0)) == (
        caller.limit(("SLACK",)),
        caller.limit(("SLACK", "EMAIL")),
    )


@pytest.mark.parametrize(("left", "expected"), [(9.0, 9.0), (10.0, 10.0), (11.0, 10.0)])
@in_virtual_time
async def test_a_call_ends_with_what_is_left_of_the_lease(ledger, left, expected):
    """
    The deadline is the smaller of the channel's limit and what the lease leaves.
    """
    channel = SlowChannel(3600.0)
    call = await called(ledger, channel, left=left)

    assert (expected, NOW + expected) == (channel.calls[0].deadline, call.observed_at)


@in_virtual_time
async def test_an_adapter_that_overruns_is_abandoned(ledger):
    """
    Given an adapter that will not be cancelled, when its limit has passed, then it is not awaited,
    and it counts as overdue until it returns.
    """
    caller = a_caller(ledger, SLACK=SlowChannel(100.0, stubborn=True))
    (call,) = await caller.call(claimed(ledger), ("SLACK",))

    assert (False, NOW + 10, 1) == (call.result.success, call.observed_at, caller.overdue)
    await asyncio.sleep(89.9)
    assert 1 == caller.overdue
    await asyncio.sleep(0.2)
    assert 0 == caller.overdue


@in_virtual_time
async def test_an_adapter_that_lets_go_is_not_overdue(ledger):
    """
    One that ends when it is cancelled takes up no room.
    """
    channel = SlowChannel(100.0)
    caller = a_caller(ledger, SLACK=channel)
    await caller.call(claimed(ledger), ("SLACK",))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert (0, 0) == (caller.overdue, channel.now)


@in_virtual_time
async def test_an_overrun_does_not_hold_up_the_others(ledger):
    """
    The slowest channel's limit bounds the attempt, and the other's result is kept.
    """
    caller = a_caller(ledger, SLACK=SlowChannel(100.0, stubborn=True), EMAIL=SlowChannel(1.0))
    calls = await caller.call(claimed(ledger), ("SLACK", "EMAIL"))

    assert [False, True] == [call.result.success for call in calls]
    assert NOW + 10 == ledger.clock.now()


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("channel"), "KeyError: 'channel'"),
        (TimeoutError("provider"), "TimeoutError: provider"),
        (ConnectionError(), "ConnectionError: "),
        (RuntimeError("a\0b\udc80"), "RuntimeError: ab?"),
        (RuntimeError("x" * 5000), "RuntimeError: " + "x" * 1986),
        (asyncio.CancelledError(), "the call was cancelled"),
        (StopAsyncIteration(), "StopAsyncIteration: "),
        (Unprintable(), "Unprintable: unreadable Unprintable"),
    ],
)
@in_virtual_time
async def test_an_adapter_that_raises_has_failed(ledger, error, told):
    """
    Whatever it raises is a retryable failure, told in words that can be stored.
    """
    result = (await called(ledger, ScriptedChannel(error))).result

    assert (False, True, None) == (result.success, result.retryable, result.retry_after)
    assert told == result.error


@pytest.mark.parametrize("returned", [None, True, "ok", {"success": True}, (True,)])
@in_virtual_time
async def test_an_adapter_that_returns_something_else_has_failed(ledger, returned):
    """
    Only a ChannelResult is an answer.
    """

    class Odd:
        async def send(self, message):
            return returned

    result = (await called(ledger, Odd())).result

    assert (False, True) == (result.success, result.retryable)
    assert f"the adapter returned {type(returned).__name__}, not ChannelResult" == result.error


@pytest.mark.parametrize("adapter", [object(), type("Sync", (), {"send": lambda self, message: True})()])
@in_virtual_time
async def test_what_is_no_adapter_has_failed(ledger, adapter):
    """
    An object without ``send``, or whose ``send`` is no coroutine, fails like any other.
    """
    result = (await called(ledger, adapter)).result

    assert (False, True) == (result.success, result.retryable)


def a_cycle():
    endless = {}
    endless["self"] = endless
    return endless


@pytest.mark.parametrize(
    ("given_", "stored"),
    [
        ({"metadata": {"ts": "1", "n": [1, None]}}, {"metadata": {"ts": "1", "n": [1, None]}}),
        ({"metadata": {"x": object()}}, {"metadata": {"unreadable": "dict"}}),
        ({"metadata": {"x": "\udc80"}}, {"metadata": {"unreadable": "dict"}}),
        ({"metadata": a_cycle()}, {"metadata": {"unreadable": "dict"}}),
        ({"metadata": [1]}, {"metadata": {"unreadable": "list"}}),
        ({"metadata": None}, {"metadata": {"unreadable": "NoneType"}}),
        ({"message_id": 17}, {"message_id": "17"}),
        ({"message_id": "a\0b"}, {"message_id": "ab"}),
        ({"message_id": Unprintable()}, {"message_id": "unreadable Unprintable"}),
        ({"error": "\udc80"}, {"error": "?"}),
        ({"error": "x" * 2001}, {"error": "x" * 2000}),
        ({"error": ValueError("v")}, {"error": "v"}),
        ({"success": "yes"}, {"success": False}),
        ({"success": 1}, {"success": False}),
        ({"retryable": None}, {"retryable": True}),
        ({"retryable": False}, {"retryable": False}),
        ({"retry_after": 7}, {"retry_after": 7.0}),
        ({"retry_after": 0}, {"retry_after": 0.0}),
        ({"retry_after": -1}, {"retry_after": None}),
        ({"retry_after": math.nan}, {"retry_after": None}),
        ({"retry_after": math.inf}, {"retry_after": None}),
        ({"retry_after": 10**400}, {"retry_after": None}),
        ({"retry_after": "7"}, {"retry_after": None}),
    ],
)
@in_virtual_time
async def test_a_result_is_made_storable(ledger, given_, stored):
    """
    What an adapter says is kept as far as it can be stored; what cannot be is told, not raised.
    """
    result = (await called(ledger, ScriptedChannel(ChannelResult(**({"success": True} | given_))))).result

    assert stored == {name: getattr(result, name) for name in stored}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@settings(deadline=None, max_examples=60)
@given(anything, anything, anything, anything, anything, anything)
def test_every_result_can_be_stored(success, message_id, error, metadata, retryable, retry_after):
    """
    Whatever an adapter puts into its result, the event that records it can be encoded.
    """
    said = ChannelResult(success, message_id, error, metadata, retryable, retry_after)
    ledger = Ledger(TWO)
    result = run(called(ledger, ScriptedChannel(said))).result

    msgspec.json.encode(result).decode()
    assert isinstance(result.success, bool)
    assert isinstance(result.retryable, bool)
    assert result.retry_after is None or 0 <= result.retry_after < math.inf
    assert result.message_id is None or "\0" not in result.message_id


@in_virtual_time
async def test_a_missing_adapter_is_a_failure_that_may_pass(ledger):
    """
    Another process, or this one after a restart, may have it.
    """
    (call,) = await a_caller(ledger).call(claimed(ledger), ("SLACK",))

    assert (False, True, "no such channel in this process") == (
        call.result.success,
        call.result.retryable,
        call.result.error,
    )


@pytest.mark.parametrize("body", ["{}", "not json", '{"id":1}', "[]"])
@in_virtual_time
async def test_an_unreadable_notification_fails_for_good(ledger, body):
    """
    What cannot be read now cannot be read later: no channel is called with it.
    """
    channel, claim = ScriptedChannel(), claimed(ledger)
    broken = replace(claim, row=replace(claim.row, body=body))
    calls = await a_caller(ledger, SLACK=channel, EMAIL=channel).call(broken, ("SLACK", "EMAIL"))

    assert [(False, False)] * 2 == [(call.result.success, call.result.retryable) for call in calls]
    assert {"unreadable notification"} == {call.result.error.split(":")[0] for call in calls}
    assert [] == channel.calls


@in_virtual_time
async def test_a_caller_that_is_cancelled_cancels_its_calls(ledger):
    """
    Given a worker that is cut off, then its adapter is told so.
    """
    channel = SlowChannel(9.0)
    task = asyncio.ensure_future(called(ledger, channel))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)

    assert (1, 0) == (len(channel.calls), channel.now)


def test_a_dying_process_is_not_stopped():
    """
    What is no Exception, as at the end of the process, is not taken for an adapter's failure.
    """
    with pytest.raises(Crash):
        run(called(Ledger(TWO), ScriptedChannel(Crash())))
