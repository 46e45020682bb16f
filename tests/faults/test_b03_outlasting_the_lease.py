"""
B03: one attempt never outlasts its lease, so that two workers never send the same thing at once.
"""

import asyncio
from collections import Counter
from itertools import count

import pytest

from kit.builders import a_request
from kit.channels import ScriptedChannel
from kit.runtimes import LEASE_SECONDS, PRINCIPAL, a_document, kinds_of

LIMIT = 0.03
RESERVE_SECONDS = 15.0


class Endless:
    """
    A receiver that takes the request and never finishes; it counts the requests that are open.
    """

    timeout_seconds = LIMIT

    def __init__(self, pause):
        self.open = Counter()
        self.most = Counter()
        self.begun = asyncio.Event()
        self._pause = pause

    async def send(self, message):
        at = message.notification.id
        self.open[at] += 1
        self.most[at] = max(self.most[at], self.open[at])
        try:
            self.begun.set()
            for _ in count():
                await asyncio.sleep(self._pause)
        finally:
            self.open[at] -= 1


@pytest.fixture(params=[3600, LIMIT / 10], ids=["hangs", "trickles"])
def endless(request):
    return Endless(request.param), Endless(request.param)


@pytest.fixture
def workers(open_runtime, in_force, endless):
    """
    Two workers on one database, for notifications that go to two endless receivers.
    """
    pager, radio = endless
    opened = [open_runtime({"PAGER": pager, "RADIO": radio}, retry_seconds=2) for _ in range(2)]
    in_force(opened[0], a_document(channels={"primary": ["PAGER", "RADIO"], "require": "all"}))
    return opened


async def test_there_is_one_open_request_at_a_time(workers, clock, endless):
    """
    B03: given two workers and two receivers that never finish, when an hour passes second by
    second, then each notification had one open request at a time at each of them.
    """
    ids = [workers[0].accept(a_request(), principal=PRINCIPAL).notification_id for _ in range(3)]
    for seconds in [0, 1, 1, 1, 1, 1, 1, 1, 30, 30, 300, 3300]:
        clock.advance(seconds)
        await asyncio.gather(*(worker.run_once() for worker in workers))

    for receiver in endless:
        assert {str(id): 1 for id in ids} == receiver.most
        assert 0 == receiver.open.total()
    for id in ids:
        assert "FAILED" == workers[0].get(id)["status"]
        assert 3 == kinds_of(workers[0], id).count("ATTEMPT_STARTED")
        assert "LEASE_LOST" not in kinds_of(workers[0], id)


async def test_the_attempt_ends_as_a_failure_before_its_lease(workers, clock):
    """
    B03: given a receiver that never finishes, when its call has had its time, then the attempt is
    a failure on record although the lease has not moved on, and the row waits for its next one.
    """
    id = workers[0].accept(a_request(), principal=PRINCIPAL).notification_id
    assert await workers[0].dispatch(id) is True

    row = workers[0].get(id)
    told = f"no answer within {LIMIT} s"
    assert ("PENDING", 0.0) == (row["status"], row["lease_until"])
    assert f"PAGER: {told}; RADIO: {told}" == row["outcome"]["error_message"]
    results = [e["payload"] for e in workers[0].events(id) if e["kind"] == "CHANNEL_ATTEMPT_RESULT"]
    assert [("PAGER", False), ("RADIO", False)] == [(r["channel"], r["success"]) for r in results]


@pytest.mark.parametrize("face", ["dispatch", "send", "run_once", "worker"])
async def test_nobody_else_claims_what_is_being_sent(face, workers, clock, endless):
    """
    B03: given a call in flight, when another worker looks until just before the lease ends, then
    it finds nothing to claim, by whatever face.
    """
    for receiver in endless:
        receiver.timeout_seconds = 5
    mine, other = workers
    request = a_request(idempotency_key="k")
    calling = asyncio.ensure_future(mine.send(request, principal=PRINCIPAL))
    await endless[0].begun.wait()
    (id,) = endless[0].open
    lease_until = mine.get(id)["lease_until"]
    assert clock.now() + LEASE_SECONDS == lease_until
    clock.set(lease_until - 0.001)
    match face:
        case "dispatch":
            assert await other.dispatch(id) is False
        case "send":
            assert (await other.send(request, principal=PRINCIPAL)).idempotent_replay
        case "run_once":
            assert 0 == await other.run_once()
        case "worker":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(other.worker(), 0.1)
    calling.cancel()
    await asyncio.wait({calling})

    assert {id: 1} == endless[0].most


LIMITS = [
    (None, 10.0),
    (3, 3.0),
    (45, 45.0),
    (46, 45.0),
    (600, 45.0),
    (0, 10.0),
    (-1, 10.0),
    (float("nan"), 10.0),
    (float("inf"), 10.0),
    ("7", 10.0),
]


@pytest.mark.parametrize(("said", "deadline"), LIMITS)
async def test_no_limit_reaches_beyond_the_lease(said, deadline, runtime, channel):
    """
    B03: an adapter's own limit counts up to 15 s before the end of the lease; without a sensible
    one it has 10 s.
    """
    channel.timeout_seconds = said
    await runtime.send(a_request(), principal=PRINCIPAL)

    (message,) = channel.calls
    assert deadline == pytest.approx(message.deadline, abs=0.5)
    assert message.deadline <= LEASE_SECONDS - RESERVE_SECONDS


async def test_fallbacks_have_a_lease_of_their_own(open_runtime, in_force, clock):
    """
    B03: given a primary that takes its time and fails, when the fallback is started, then the
    lease was renewed to a full minute for it.
    """

    class Slow(ScriptedChannel):
        async def send(self, message):
            clock.advance(40)
            return await super().send(message)

    class Watching(ScriptedChannel):
        async def send(self, message):
            self.left = runtime.get(message.notification.id)["lease_until"] - clock.now()
            return await super().send(message)

    watching = Watching()
    runtime = open_runtime({"PAGER": Slow(False), "RADIO": watching})
    in_force(runtime, a_document(channels={"primary": ["PAGER"], "fallback": ["RADIO"]}))
    sent = await runtime.send(a_request(), principal=PRINCIPAL)

    assert ("DELIVERED", LEASE_SECONDS) == (sent.status, watching.left)


class Stubborn:
    """
    A receiver whose adapter will not be cancelled.
    """

    timeout_seconds = LIMIT

    def __init__(self):
        self.released = asyncio.Event()

    async def send(self, message):
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


async def test_an_adapter_that_will_not_be_cancelled_is_left_behind(open_runtime, in_force):
    """
    B03: given an adapter that ignores being cancelled, when its time is up, then the attempt ends
    all the same.
    """
    stubborn = Stubborn()
    runtime = open_runtime({"PAGER": stubborn})
    in_force(runtime, a_document())
    sent = await asyncio.wait_for(runtime.send(a_request(), principal=PRINCIPAL), 5)
    stubborn.released.set()

    assert ("PENDING", ("PAGER",)) == (sent.status, sent.channels_failed)


async def test_what_comes_after_the_lease_is_recorded_but_settles_nothing(open_runtime, in_force, clock):
    """
    B03: given a call whose lease ran out under it (the host slept), when it returns, then its
    result stands in the timeline, LEASE_LOST beside it, and nobody sends what was delivered again.
    """

    class Asleep(ScriptedChannel):
        async def send(self, message):
            clock.advance(LEASE_SECONDS)
            return await super().send(message)

    asleep, other = Asleep(), ScriptedChannel()
    runtime = open_runtime({"PAGER": asleep})
    in_force(runtime, a_document())
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    assert await runtime.dispatch(id) is False
    assert "PENDING" == runtime.get(id)["status"]
    assert ["CHANNEL_ATTEMPT_RESULT", "LEASE_LOST"] == kinds_of(runtime, id)[-2:]
    assert 1 == await open_runtime({"PAGER": other}).run_once()

    assert ("DELIVERED", 1) == (runtime.get(id)["status"], runtime.get(id)["attempts"])
    assert [] == other.calls
