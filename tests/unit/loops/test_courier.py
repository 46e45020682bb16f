"""
Callbacks as ``docs/rules.md`` tells them: never more at once than were claimed, 10 s each, three attempts
with ``2^attempts`` seconds between; a callback is trusted with nothing.
"""

import asyncio

import pytest

from kit.builders import NOW, a_policy
from kit.commits import Crash, InlineCommits, LossyCommits, MortalCommits
from kit.ledger import Ledger
from kit.virtual_time import in_virtual_time, until
from uns.core.loops.courier import Courier
from uns.core.loops.insist import Insistent
from uns.core.plans import callbacks
from uns.ports.errors import StoreUnavailable
from uns.ports.rows import Event
from uns.ports.vocabulary import Ack, EventKind

K = EventKind


@pytest.fixture
def ledger():
    return Ledger(a_policy(require_ack=True))


class Callback:
    """
    Records what it is told; then takes its time, and raises what it is to raise.
    """

    def __init__(self, *errors, seconds=0.0, stubborn=False):
        self.told = []
        self.at_once = self.most = 0
        self._errors = list(errors)
        self._seconds = seconds
        self._stubborn = stubborn

    async def __call__(self, event):
        self.told.append(event)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self._wait()
        finally:
            self.at_once -= 1
        if self._errors and (error := self._errors.pop(0)) is not None:
            raise error

    async def _wait(self):
        end = asyncio.get_running_loop().time() + self._seconds
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise


def a_courier(ledger, callback, commits=None):
    return Courier(commits or InlineCommits(ledger.store), callback, ledger.new_id)


def answered(ledger, count=1):
    """
    That many answered notifications that want to be called back; the ids of their events.
    """
    rows = [ledger.accept(title=f"alert {n}", wants_callback=True) for n in range(count)]
    return [ledger.events(ledger.respond(ledger.deliver(r.id).id).id, K.ACKED)[0].id for r in rows]


def outbox(ledger, id):
    event = ledger.table(Event)[id]
    return event.callback_pending, event.callback_attempts, event.callback_error


@in_virtual_time
async def test_a_callback_is_told_the_event(ledger):
    """
    Id, notification, kind, instant, payload and the attempt; then it is done.
    """
    row = ledger.accept(wants_callback=True)
    ledger.deliver(row.id)
    ledger.respond(row.id, to=Ack.DISMISSED, metadata='{"n":1}')
    (event,) = ledger.events(row.id, K.DISMISSED)
    callback = Callback()

    assert 1 == await a_courier(ledger, callback).deliver()
    assert [
        {
            "id": event.id,
            "notification_id": row.id,
            "kind": "DISMISSED",
            "at": NOW,
            "payload": {"actor": "ann", "metadata": {"n": 1}},
            "attempt": 1,
        }
    ] == callback.told
    assert (False, 1, None) == outbox(ledger, event.id)
    assert 0 == await a_courier(ledger, callback).deliver()


@pytest.mark.parametrize("limit", [1, 3, 20])
@in_virtual_time
async def test_no_more_are_called_at_once_than_claimed(ledger, limit):
    """
    A batch is called at once, the next one afterwards.
    """
    answered(ledger, 5)
    callback = Callback(seconds=1.0)
    courier = a_courier(ledger, callback)
    batches = []
    while count := await courier.deliver(limit):
        batches.append(count)

    assert (5, min(limit, 5)) == (sum(batches), callback.most)
    assert max(batches) <= limit


@in_virtual_time
async def test_one_that_fails_does_not_hold_up_the_others(ledger):
    """
    Each event has its own outcome.
    """
    first, second, third = answered(ledger, 3)
    await a_courier(ledger, Callback(None, ValueError("boom"), None)).deliver()

    assert [(False, 1, None), (True, 1, "ValueError: boom"), (False, 1, None)] == [
        outbox(ledger, id) for id in (first, second, third)
    ]


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("k"), "KeyError: 'k'"),
        (TimeoutError("theirs"), "TimeoutError: theirs"),
        (asyncio.CancelledError(), "the call was cancelled"),
        (OSError("a\0b\udc80"), "OSError: ab?"),
        (RuntimeError("x" * 3000), ("RuntimeError: " + "x" * 3000)[:2000]),
        (Unprintable(), "Unprintable: unreadable Unprintable"),
    ],
)
@in_virtual_time
async def test_a_callback_that_raises_has_failed(ledger, error, told):
    """
    Whatever it raises is an attempt that failed, told in words that can be stored.
    """
    (id,) = answered(ledger)

    assert 1 == await a_courier(ledger, Callback(error)).deliver()
    assert (True, 1, told) == outbox(ledger, id)


@in_virtual_time
async def test_a_callback_that_is_no_coroutine_has_failed(ledger):
    """
    A plain function is no callback.
    """
    (id,) = answered(ledger)
    await a_courier(ledger, lambda event: None).deliver()
    pending, attempts, error = outbox(ledger, id)

    assert (True, 1) == (pending, attempts)
    assert error.startswith("TypeError")


@pytest.mark.parametrize(("seconds", "done"), [(9.999, True), (10.001, False)])
@pytest.mark.parametrize("stubborn", [True, False])
@in_virtual_time
async def test_a_callback_has_ten_seconds(ledger, seconds, done, stubborn):
    """
    One that overruns has failed, and is not awaited, though it may refuse to be cancelled.
    """
    (id,) = answered(ledger)
    await a_courier(ledger, Callback(seconds=seconds, stubborn=stubborn)).deliver()

    assert (not done, 1, None if done else "no answer within 10 s") == outbox(ledger, id)
    assert NOW + min(seconds, 10.0) == ledger.clock.now()


@in_virtual_time
async def test_a_call_that_overran_keeps_its_slot(ledger):
    """
    Given calls that refuse to end, when more is due, then no more is called at once than there are
    slots, until they return.
    """
    answered(ledger, 5)
    callback = Callback(seconds=15.0, stubborn=True)
    courier = a_courier(ledger, callback)
    tried = [await courier.deliver(3)]
    tried.append(await courier.deliver(3))
    await asyncio.sleep(5.001)
    tried.append(await courier.deliver(3))

    assert [3, 0, 3] == tried
    assert 3 == callback.most


@in_virtual_time
async def test_an_outcome_is_recorded_whatever_becomes_of_the_others(ledger):
    """
    Given that one settlement is not answered, then the others, that take longer, are recorded before
    the fault is told.
    """
    ids = answered(ledger, 3)
    seconds = iter([1.0, 2.0, 3.0])

    async def callback(event):
        await asyncio.sleep(next(seconds))

    with pytest.raises(StoreUnavailable):
        await a_courier(ledger, callback, LossyCommits(ledger.store, 2)).deliver()

    assert [(False, 1, None)] * 3 == [outbox(ledger, id) for id in ids]


@pytest.mark.parametrize(
    ("claiming", "called", "error"),
    [
        (14.999, 1, "no answer within 10 s"),
        (24.0, 1, "no answer within 1 s"),
        (25.0, 0, "attempt did not report back"),
        (25.001, 0, "attempt did not report back"),
    ],
)
@in_virtual_time
async def test_what_the_claim_took_comes_off_the_call(ledger, claiming, called, error):
    """
    Given a database that answers late, then no call outlasts its lease less what settling takes.
    """
    (id,) = answered(ledger)
    callback = Callback(seconds=60.0)
    tried = await a_courier(ledger, callback, InlineCommits(ledger.store, answer_seconds=claiming)).deliver()

    assert called == tried == len(callback.told)
    assert error == outbox(ledger, id)[2]


@in_virtual_time
async def test_three_attempts_two_and_four_seconds_apart(ledger):
    """
    After the third the event stays with its error, and is listed for the operator.
    """
    (id,) = answered(ledger)
    callback = Callback(*[ValueError("boom")] * 9)
    courier = a_courier(ledger, callback)
    times = []
    for _ in range(40):
        if await courier.deliver():
            times.append(ledger.clock.now() - NOW)
        await asyncio.sleep(0.5)

    assert [0.0, 2.0, 6.0] == times
    assert [1, 2, 3] == [event["attempt"] for event in callback.told]
    assert (True, 3, "ValueError: boom") == outbox(ledger, id)
    assert [id] == [event.id for event in ledger.read(callbacks.exhausted(10))]


@in_virtual_time
async def test_a_callback_that_recovers(ledger):
    """
    A second attempt that succeeds is the last.
    """
    (id,) = answered(ledger)
    courier = a_courier(ledger, Callback(ValueError("boom")))
    await courier.deliver()
    await asyncio.sleep(2)

    assert 1 == await courier.deliver()
    assert (False, 2, None) == outbox(ledger, id)


@pytest.mark.parametrize(
    ("dies_at", "after", "calls", "counted"),
    [(1, False, 1, 1), (1, True, 1, 2), (2, False, 2, 2), (2, True, 1, 1)],
)
@in_virtual_time
async def test_a_courier_that_dies_is_followed_by_another(ledger, dies_at, after, calls, counted):
    """
    Given a crash before or after claim or settlement, when the 30 s lease has ended, then another
    courier ends it; the callback is called at most twice.
    """
    (id,) = answered(ledger)
    callback = Callback()
    with pytest.raises(Crash):
        await a_courier(ledger, callback, MortalCommits(ledger.store, dies_at, after=after)).deliver()
    await asyncio.sleep(30)
    await a_courier(ledger, callback).deliver()

    assert (calls, (False, counted, None)) == (len(callback.told), outbox(ledger, id))


@pytest.mark.parametrize("at", [1, 2])
@in_virtual_time
async def test_a_lost_answer_is_no_second_call(ledger, at):
    """
    Given that the answer to either commit is lost, then the callback is called once.
    """
    answered(ledger, 30)
    callback = Callback()
    courier = a_courier(ledger, callback, Insistent(LossyCommits(ledger.store, at)))

    assert 20 == await courier.deliver()
    assert 20 == len({event["id"] for event in callback.told}) == len(callback.told)


@in_virtual_time
async def test_a_courier_that_is_cut_off_cancels_its_call(ledger):
    """
    Given a process that ends during a call, then the call is told so, and the event is another's
    once its lease has ended.
    """
    (id,) = answered(ledger)
    callback = Callback(seconds=9.0)
    task = asyncio.ensure_future(a_courier(ledger, callback).deliver())
    await until(lambda: callback.at_once == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)

    assert (0, (True, 1, "attempt did not report back")) == (callback.at_once, outbox(ledger, id))
