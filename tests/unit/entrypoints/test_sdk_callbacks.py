"""
Callbacks of a ``Runtime``: what they are told, how often, and when they are given up.
"""

import asyncio

import pytest

from kit.builders import a_request
from kit.runtimes import PRINCIPAL, a_document
from kit.waiting import until


class Listener:
    """
    A callback that fails as often as it is told to, and remembers its calls.
    """

    def __init__(self, failures=0):
        self.calls = []
        self._failures = failures

    async def __call__(self, event):
        self.calls.append(event)
        if len(self.calls) <= self._failures:
            raise ConnectionError("nobody home")


@pytest.fixture
def listening(open_runtime, in_force, channel):
    """
    A runtime that calls a listener for answers to what it delivers.
    """

    def listening(listener):
        runtime = open_runtime({"PAGER": channel}, callback=listener)
        in_force(runtime, a_document(require_ack=True, ack_timeout_minutes=1))
        return runtime

    return listening


def delivered(runtime):
    return asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).notification_id


def deliver(runtime):
    assert asyncio.run(runtime.deliver_callbacks()) is None


ENDS = [
    ("ACKED", {"actor": "ann", "metadata": {"ticket": 7}}),
    ("DISMISSED", {"actor": "ann", "metadata": {"ticket": 7}}),
    ("TIMED_OUT", {"actor": "uns-timeout-worker", "metadata": {"escalation_required": True}}),
]


@pytest.mark.parametrize(("kind", "payload"), ENDS)
def test_each_end_of_a_response_is_told_once(kind, payload, listening, clock):
    """
    Given an answer, or none in time, when callbacks are delivered, then the listener is told once
    what happened, when, to which notification and by whom.
    """
    listener = Listener()
    runtime = listening(listener)
    id = delivered(runtime)
    if kind == "TIMED_OUT":
        clock.advance(60)
        runtime.expire()
    else:
        runtime.acknowledge(id, actor="ann", dismiss=kind == "DISMISSED", metadata={"ticket": 7})
    at = clock.now()
    deliver(runtime)
    clock.advance(86_400)
    deliver(runtime)

    (told,) = listener.calls
    event = runtime.events(id)[-1]
    assert {
        "id": event["id"],
        "notification_id": str(id),
        "kind": kind,
        "at": at,
        "payload": payload,
        "attempt": 1,
    } == told
    assert (False, None) == (event["callback_pending"], event["callback_error"])


def test_nothing_else_is_told(listening):
    """
    Given acceptance, delivery and a withdrawal before it, when callbacks are delivered, then the
    listener hears of none of them.
    """
    listener = Listener()
    runtime = listening(listener)
    delivered(runtime)
    runtime.withdraw(runtime.accept(a_request(), principal=PRINCIPAL).notification_id, actor="ann")
    deliver(runtime)

    assert [] == listener.calls


def test_a_failed_callback_comes_again_twice(listening, clock):
    """
    Given a listener that fails, when time passes, then it is called again after 2 s, then 4 s, not
    an instant before, and after the third failure no more.
    """
    listener = Listener(failures=9)
    runtime = listening(listener)
    id = delivered(runtime)
    runtime.acknowledge(id, actor="ann")
    for calls, wait in [(1, 2.0), (2, 4.0)]:
        deliver(runtime)
        assert calls == len(listener.calls)
        event = runtime.events(id)[-1]
        assert (clock.now() + wait, calls) == (event["callback_until"], event["callback_attempts"])
        assert "ConnectionError: nobody home" == event["callback_error"]
        clock.set(event["callback_until"] - 0.001)
        deliver(runtime)
        assert calls == len(listener.calls)
        clock.set(event["callback_until"])
    deliver(runtime)
    clock.advance(86_400)
    deliver(runtime)

    assert [1, 2, 3] == [event["attempt"] for event in listener.calls]
    assert 1 == len({event["id"] for event in listener.calls})
    assert [str(id)] == [event["notification_id"] for event in runtime.exhausted_callbacks()]


@pytest.mark.parametrize("failures", [1, 2])
def test_a_callback_that_gets_through_is_done(failures, listening, clock):
    """
    Given a listener that fails once or twice, when its callback gets through, then it is over, and
    its error is gone.
    """
    listener = Listener(failures)
    runtime = listening(listener)
    id = delivered(runtime)
    runtime.acknowledge(id, actor="ann")
    for _ in range(5):
        deliver(runtime)
        clock.advance(10)

    event = runtime.events(id)[-1]
    assert failures + 1 == len(listener.calls)
    assert (False, None) == (event["callback_pending"], event["callback_error"])
    assert [] == runtime.exhausted_callbacks()


def test_an_operator_gives_it_three_more(listening, clock):
    """
    Given an exhausted callback, when it is re-armed, then it is due at once with three attempts;
    one that got through cannot be re-armed.
    """
    listener = Listener(failures=4)
    runtime = listening(listener)
    runtime.acknowledge(delivered(runtime), actor="ann")
    for _ in range(3):
        deliver(runtime)
        clock.advance(10)
    (event,) = runtime.exhausted_callbacks()
    assert runtime.rearm_callback(event["id"]) is True
    assert [] == runtime.exhausted_callbacks()
    deliver(runtime)
    clock.advance(10)
    deliver(runtime)

    assert [1, 2, 3, 1, 2] == [told["attempt"] for told in listener.calls]
    assert runtime.rearm_callback(event["id"]) is False


async def test_one_bad_listener_call_does_not_hold_up_the_others(open_runtime, in_force, channel):
    """
    Given several answers of which one callback raises, when they are delivered, then the others
    get through in the same round.
    """
    told = []

    async def callback(event):
        if event["payload"]["actor"] == "bob":
            raise KeyError("bob")
        told.append(event["payload"]["actor"])

    runtime = open_runtime({"PAGER": channel}, callback=callback)
    in_force(runtime, a_document(require_ack=True))
    for actor in ("ann", "bob", "cid"):
        sent = await runtime.send(a_request(), principal=PRINCIPAL)
        runtime.acknowledge(sent.notification_id, actor=actor)
    await runtime.deliver_callbacks()

    assert ["ann", "cid"] == sorted(told)


async def test_a_worker_calls_at_once(listening):
    """
    Given a worker, when somebody answers, then the callback is made without waiting for a poll.
    """
    listener = Listener()
    runtime = listening(listener)
    sent = await runtime.send(a_request(), principal=PRINCIPAL)
    at_work = asyncio.ensure_future(runtime.worker())
    await asyncio.sleep(0.05)
    runtime.acknowledge(sent.notification_id, actor="ann")
    await until(lambda: listener.calls, 0.9)
    at_work.cancel()
    await asyncio.wait({at_work})


def test_without_a_callback_there_is_nothing_to_deliver(runtime, in_force):
    """
    Given a runtime without a callback, when somebody answers, then no callback is pending.
    """
    in_force(runtime, a_document(require_ack=True))
    id = delivered(runtime)
    runtime.acknowledge(id, actor="ann")
    deliver(runtime)

    assert runtime.events(id)[-1]["callback_pending"] is False


def test_who_accepted_it_decides_who_else_is_told(listening, open_runtime):
    """
    Given a notification accepted by a runtime with a callback, when another without one takes the
    answer, then the callback is still due, and the first delivers it.
    """
    listener = Listener()
    runtime = listening(listener)
    id = delivered(runtime)
    open_runtime().acknowledge(id, actor="ann")
    deliver(runtime)

    assert ["ACKED"] == [event["kind"] for event in listener.calls]


def test_two_couriers_share_the_work(listening, open_runtime, clock):
    """
    Given two runtimes with callbacks, when both deliver at once, then each answer is told once.
    """
    listener = Listener()
    first = listening(listener)
    second = open_runtime(callback=listener)
    for _ in range(20):
        first.acknowledge(delivered(first), actor="ann")

    async def both():
        await asyncio.gather(first.deliver_callbacks(), second.deliver_callbacks())

    asyncio.run(both())

    assert 20 == len(listener.calls) == len({event["id"] for event in listener.calls})


async def test_a_listener_that_will_not_be_cancelled_is_left_behind(monkeypatch, open_runtime, in_force):
    """
    Given a callback that ignores being cancelled, when its time is up, then it counts as failed and
    the round ends all the same.
    """
    monkeypatch.setattr("uns.core.loops.courier.CALLBACK_SECONDS", 0.05)
    released = asyncio.Event()

    async def stubborn(event):
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    runtime = open_runtime(callback=stubborn)
    in_force(runtime, a_document(require_ack=True, channels={"primary": ["LOG"]}))
    sent = await runtime.send(a_request(), principal=PRINCIPAL)
    runtime.acknowledge(sent.notification_id, actor="ann")
    await asyncio.wait_for(runtime.deliver_callbacks(), 5)
    released.set()

    assert "no answer within 0.05 s" == runtime.events(sent.notification_id)[-1]["callback_error"]
