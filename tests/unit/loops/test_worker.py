"""
The worker: three loops with independent progress.

- one failing loop does not stop the others: ``test_a_failing_loop_*``; beats and health at 60 s
- woken by signals, otherwise polling: ``test_a_signal_*``, ``test_without_a_signal_*``
- stopping: claims not started are given back, started ones finished for 8 s: ``test_stopping_*``
- never more than the slots, overdue calls take slots: ``test_slots_*``
- never more than its share to one destination: ``test_destinations_*``
- sweeps until none is due, carries what is due in order, retries until it ends: ``test_work_*``
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from kit.builders import NOW, a_policy
from kit.channels import ScriptedChannel, SlowChannel
from kit.commits import InlineCommits
from kit.ledger import Ledger
from kit.process import a_dispatcher
from kit.virtual_time import in_virtual_time, until
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.core.loops.courier import Courier
from uns.core.loops.sweeper import Sweeper
from uns.core.loops.worker import Pace, Worker
from uns.core.rules.lease import in_order
from uns.core.rules.lifecycle import Phase, phase
from uns.ports.channel import ChannelResult
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import Closed, StoreUnavailable
from uns.ports.policy import ChannelPlan
from uns.ports.queries import Due
from uns.ports.store import STARTING, Plan
from uns.ports.vocabulary import Ack, EventKind, Priority, Status

P, K = Phase, EventKind
FAIL = ChannelResult(False, error="no")
SLOW_POLL = 3600.0  # what happens before it happens because of a signal


@pytest.fixture
def ledger():
    return Ledger(
        a_policy("quiet", notification_type="system.*"),
        a_policy("ask", notification_type="ask.*", require_ack=True),
    )


async def ignored(event):
    """
    A callback that always goes well.
    """


class Flaky(InlineCommits):
    """
    Commits that are refused while ``broken(plan)`` says so.
    """

    def __init__(self, store, broken):
        super().__init__(store)
        self.broken = broken

    async def run(self, plan):
        if self.broken(plan):
            await asyncio.sleep(0)
            raise StoreUnavailable
        return await super().run(plan)


def a_worker(
    ledger, commits=None, *, callback=ignored, concurrency=64, poll=1.0, share=1.0, pubsub=None, **channels
):
    commits = commits or InlineCommits(ledger.store)
    dispatcher = a_dispatcher(ledger, commits, **(channels or {"SLACK": ScriptedChannel()}))
    sweeper = Sweeper(commits, ledger.new_id, callback=callback is not None)
    courier = None if callback is None else Courier(commits, callback, ledger.new_id)
    return Worker(dispatcher, sweeper, courier, pubsub or ledger.pubsub, Pace(concurrency, poll, share))


@asynccontextmanager
async def running(worker):
    """
    The worker at work; it is stopped at the end, and its own errors are raised.
    """
    stop = asyncio.Event()
    task = asyncio.ensure_future(worker.run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await task


def delivered(ledger):
    return [id for id, row in ledger.rows().items() if row.status is Status.DELIVERED]


def several(ledger, count, type_="system.alert"):
    return [ledger.accept(notification_type=type_, title=f"alert {n}").id for n in range(count)]


def loop_time():
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_work_is_found_and_done(ledger):
    """
    What was due before the worker came is dispatched at once.
    """
    ids = several(ledger, 10)
    async with running(a_worker(ledger)):
        await until(lambda: len(delivered(ledger)) == 10, seconds=0.5)

    assert set(ids) == set(delivered(ledger))


@in_virtual_time
async def test_work_goes_on_until_it_ends(ledger):
    """
    Given a channel that fails twice, then the third attempt comes after the backoffs; one that
    always fails ends in the dead letters.
    """
    mending, broken = ScriptedChannel(FAIL, FAIL, True), ScriptedChannel(FAIL)
    first = ledger.accept().id
    async with running(a_worker(ledger, SLACK=mending)):
        await until(lambda: first in delivered(ledger))
    second = ledger.accept(title="another").id
    async with running(a_worker(ledger, SLACK=broken)):
        await until(lambda: ledger.row(second).status is Status.FAILED)

    assert (3, 3) == (len(mending.calls), len(broken.calls))
    assert [3, 3] == [ledger.row(id).attempts for id in (first, second)]
    assert P.DEAD_LETTER is phase(ledger.row(second))


@in_virtual_time
async def test_work_a_worker_died_with_is_taken_over(ledger):
    """
    Given a lease that nobody bears any more, then it is found once it has ended.
    """
    id = ledger.accept().id
    ledger.claim(id)
    async with running(a_worker(ledger)):
        await until(lambda: id in delivered(ledger))

    assert NOW + 60 <= ledger.row(id).delivered_at < NOW + 62


@in_virtual_time
async def test_work_of_hundreds_is_swept_until_none_is_due(ledger):
    """
    250 overdue responses are timed out in one go, without waiting for the poll.
    """
    ids = [ledger.deliver(id).id for id in several(ledger, 250, "ask.now")]
    ledger.clock.advance(30 * 60)
    async with running(a_worker(ledger)):
        await until(lambda: ledger.row(ids[-1]).ack_status is Ack.TIMED_OUT, seconds=0.5)

    assert {Ack.TIMED_OUT} == {ledger.row(id).ack_status for id in ids}


@in_virtual_time
async def test_work_is_called_back(ledger):
    """
    A terminal response is called back in batches until none is due.
    """
    told = []

    async def callback(event):
        told.append(event["notification_id"])

    ids = [ledger.respond(ledger.deliver(id).id, callback=True).id for id in several(ledger, 45, "ask.now")]
    async with running(a_worker(ledger, callback=callback)):
        await until(lambda: len(told) == 45, seconds=0.5)

    assert set(ids) == set(told)


@in_virtual_time
async def test_without_a_callback_there_are_two_loops(ledger):
    """
    A process that cannot call back claims no callbacks.
    """
    (id,) = several(ledger, 1, "ask.now")
    ledger.deliver(id)
    ledger.respond(id, callback=True)
    worker = a_worker(ledger, callback=None)
    async with running(worker):
        await asyncio.sleep(5)

    assert ["dispatch", "expiry"] == [beat.name for beat in worker.beats]
    assert [0] == [event.callback_attempts for event in ledger.events(id, K.ACKED)]


@in_virtual_time
async def test_a_signal_wakes_the_dispatch(ledger):
    """
    What is accepted in this process is dispatched without waiting for the poll.
    """
    async with running(a_worker(ledger, poll=SLOW_POLL)):
        await asyncio.sleep(100)
        id = ledger.accept().id
        await until(lambda: id in delivered(ledger), seconds=1)

    assert NOW + 101 > ledger.row(id).delivered_at


@in_virtual_time
async def test_a_signal_wakes_the_callbacks(ledger):
    """
    An answer is called back without waiting for the poll.
    """
    told = []

    async def callback(event):
        told.append(loop_time())

    (id,) = several(ledger, 1, "ask.now")
    ledger.deliver(id)
    async with running(a_worker(ledger, callback=callback, poll=SLOW_POLL)):
        await asyncio.sleep(100)
        ledger.respond(id, callback=True)
        await until(lambda: bool(told), seconds=1)

    assert 100 <= told[0] < 101


@pytest.mark.parametrize("seconds", [0.0, 0.005])
@in_virtual_time
async def test_a_signal_during_a_round_is_not_lost(ledger, seconds):
    """
    Given that a row falls due while the loop is claiming, then it is looked for again at once.
    """
    commits = InlineCommits(ledger.store, answer_seconds=0.01)
    async with running(a_worker(ledger, commits, poll=SLOW_POLL)):
        await asyncio.sleep(seconds)
        id = ledger.accept().id
        await until(lambda: id in delivered(ledger), seconds=1)


@pytest.mark.parametrize("poll", [1.0, 5.0])
@in_virtual_time
async def test_without_a_signal_a_loop_looks_after_its_pause(ledger, poll):
    """
    Another process's row is found by polling, at the pace the worker is given.
    """
    async with running(a_worker(ledger, pubsub=InProcessPubSub(), poll=poll)):
        await asyncio.sleep(poll / 2)
        id = ledger.accept().id
        await asyncio.sleep(poll / 2 - 0.01)
        assert [] == delivered(ledger)
        await asyncio.sleep(0.02)

        assert [id] == delivered(ledger)


@in_virtual_time
async def test_a_hint_wakes_the_loops(ledger):
    """
    Given signals without a subject, as after a time in which none came through, then what is due is
    sent, and what is to be told is told, at once.
    """
    pubsub, told = InProcessPubSub(), []

    async def callback(event):
        told.append(event["kind"])

    (asked,) = several(ledger, 1, "ask.now")
    ledger.deliver(asked)
    async with running(a_worker(ledger, pubsub=pubsub, callback=callback, poll=SLOW_POLL)):
        await asyncio.sleep(1)
        id = ledger.accept().id
        ledger.respond(asked, callback=True)
        await asyncio.sleep(1)

        assert (False, []) == (id in delivered(ledger), told)
        pubsub.publish([Signal(SignalKind.DUE, ""), Signal(SignalKind.CALLBACK, "")])
        await until(lambda: id in delivered(ledger) and told, seconds=0.1)

    assert ["ACKED"] == told


def starting(plan):
    return plan.lane is STARTING


@in_virtual_time
async def test_a_failing_loop_does_not_stop_the_others(ledger, caplog):
    """
    Given that claiming fails for a while, then responses are timed out and called back all the same,
    the beat says what is wrong, and dispatch goes on once it can.
    """
    (asked,) = several(ledger, 1, "ask.now")
    ledger.deliver(asked)
    waiting = ledger.accept().id
    ledger.clock.advance(30 * 60)
    told = []

    async def callback(event):
        told.append(event["kind"])

    commits = Flaky(ledger.store, starting)
    worker = a_worker(ledger, commits, callback=callback)
    async with running(worker):
        await asyncio.sleep(9.5)
        beat = worker.beats[0]
        assert (["TIMED_OUT"], P.LEADING) == (told, phase(ledger.row(waiting)))
        assert (True, 10) == (beat.alive, beat.failures_in_row)
        assert beat.last_error.startswith("StoreUnavailable")
        assert [0, 0] == [other.failures_in_row for other in worker.beats[1:]]
        commits.broken = lambda plan: False
        await until(lambda: waiting in delivered(ledger), seconds=2)
        await asyncio.sleep(1)
        assert 0 == beat.failures_in_row

    told = {(record.getMessage(), bool(record.exc_info)) for record in caplog.records}
    assert {(f"the dispatch loop failed: {beat.last_error}", False)} == told


@pytest.mark.parametrize("broken", ["dispatch", "expiry", "callback"])
@in_virtual_time
async def test_a_failing_loop_goes_round_all_the_same(ledger, broken, monkeypatch):
    """
    Whatever one step raises, each of the three loops keeps its pulse.
    """
    worker = a_worker(ledger)

    async def fails():
        raise KeyError("unexpected")

    monkeypatch.setattr(
        worker, {"dispatch": "_dispatch", "expiry": "_expire", "callback": "_call_back"}[broken], fails
    )
    async with running(worker):
        await asyncio.sleep(100.5)

        assert worker.healthy(loop_time())
        assert {broken: True} == {beat.name: True for beat in worker.beats if beat.failures_in_row}
        assert {100.0} == {beat.last_round for beat in worker.beats}


@in_virtual_time
async def test_a_notification_that_cannot_be_settled_stops_nobody(ledger, caplog):
    """
    Given that one settlement fails, then the others go on, and the row is taken up again when its
    lease has ended.
    """
    ids = several(ledger, 3)
    failed = []

    def broken(plan):
        if plan.wants.windows and not failed and not starting(plan):
            failed.append(plan)
            return True
        return False

    async with running(a_worker(ledger, Flaky(ledger.store, broken))):
        await asyncio.sleep(2)
        assert 2 == len(delivered(ledger))
        await until(lambda: len(delivered(ledger)) == 3)

    assert ["its lease will lapse"] == [r.getMessage().split("; ")[-1] for r in caplog.records]
    assert 61 > max(ledger.row(id).delivered_at for id in ids) - NOW >= 60


@pytest.mark.parametrize(("offset", "healthy"), [(59.999, True), (60.0, False), (60.001, False)])
@in_virtual_time
async def test_health_is_a_round_within_a_minute(ledger, offset, healthy):
    """
    A loop that has not come round for a minute is stuck.
    """
    worker = a_worker(ledger)
    assert not worker.healthy(loop_time())
    async with running(worker):
        await asyncio.sleep(5.5)
        last = min(beat.last_round for beat in worker.beats)

        assert healthy is worker.healthy(last + offset)


@in_virtual_time
async def test_a_stuck_loop_is_seen(ledger):
    """
    Given a sweep that never returns, then the worker is unhealthy a minute later, and the other
    loops still work.
    """
    commits = Flaky(ledger.store, lambda plan: False)
    sweeping = asyncio.Event()
    run_ = commits.run

    async def run_or_hang(plan):
        if not starting(plan) and not plan.wants.rows:
            await sweeping.wait()
        return await run_(plan)

    commits.run = run_or_hang
    worker = a_worker(ledger, commits, callback=None)
    async with running(worker):
        await asyncio.sleep(59.9)
        assert worker.healthy(loop_time())
        await asyncio.sleep(0.1)
        assert not worker.healthy(loop_time())
        id = ledger.accept().id
        await until(lambda: id in delivered(ledger), seconds=1)
        sweeping.set()

    assert not worker.healthy(loop_time())


@pytest.mark.parametrize("concurrency", [1, 3, 10])
@in_virtual_time
async def test_slots_are_never_exceeded(ledger, concurrency):
    """
    Never more are claimed than can be carried at once, and a slot is filled as soon as it is free.
    """
    several(ledger, 12)
    channel = SlowChannel(1.0)
    async with running(a_worker(ledger, concurrency=concurrency, poll=SLOW_POLL, SLACK=channel)):
        leased = 0
        while len(delivered(ledger)) < 12:
            leased = max(leased, sum(phase(row) is P.LEASED for row in ledger.rows().values()))
            await asyncio.sleep(0.05)
        took = loop_time()

    assert (concurrency, concurrency) == (channel.most, leased)
    assert took < -(-12 // concurrency) + 0.5


@in_virtual_time
async def test_slots_that_are_all_freed_at_once_are_filled_at_once(ledger):
    """
    Given a backlog and calls that all end in one instant, then the next are claimed then, not at the
    next poll.
    """
    several(ledger, 8)
    async with running(a_worker(ledger, concurrency=2, poll=SLOW_POLL, SLACK=SlowChannel(1.0))):
        await until(lambda: len(delivered(ledger)) == 8, seconds=5)

    assert 4 <= loop_time() < 4.5


@in_virtual_time
async def test_slots_of_overdue_calls_stay_taken(ledger):
    """
    Given calls that were given up and do not return, then nothing is claimed for their slots until
    they do.
    """
    channel = SlowChannel(30.0, stubborn=True)
    several(ledger, 5)
    async with running(a_worker(ledger, concurrency=2, SLACK=channel)) as stop:
        await asyncio.sleep(29.5)
        assert (2, 2) == (channel.now, len(channel.calls))
        await asyncio.sleep(2)
        assert (2, 4) == (channel.now, len(channel.calls))
        stop.set()

    assert 2 == channel.most


@in_virtual_time
async def test_the_most_urgent_gets_the_slot():
    """
    With one slot the order of dispatch is the order of calls.
    """
    ledger = Ledger(
        *(
            a_policy(p, notification_type=f"{p}.*", priority=Priority(p.upper()))
            for p in ("low", "normal", "high")
        )
    )
    ids = {p: ledger.accept(notification_type=f"{p}.a").id for p in ("low", "normal", "high")}
    channel = SlowChannel(1.0)
    async with running(a_worker(ledger, concurrency=1, SLACK=channel)):
        await until(lambda: len(channel.calls) == 3)

    assert [ids["high"], ids["normal"], ids["low"]] == [call.notification.id for call in channel.calls]


@in_virtual_time
async def test_stopping_finishes_what_was_started(ledger):
    """
    Given calls that are out, when the worker is stopped, then they are settled, and nothing new is
    claimed.
    """
    several(ledger, 4)
    channel = SlowChannel(5.0)
    async with running(a_worker(ledger, concurrency=2, SLACK=channel)) as stop:
        await asyncio.sleep(1)
        stop.set()

    assert (5.0, 2, 2) == (loop_time(), len(delivered(ledger)), len(channel.calls))
    assert 2 == sum(phase(row) is P.LEADING for row in ledger.rows().values())


@in_virtual_time
async def test_stopping_gives_back_what_was_not_started(ledger):
    """
    Given a stop while claims are on their way, then they are given back: free at once, uncounted,
    and no channel is called.
    """
    several(ledger, 3)
    channel = ScriptedChannel()
    commits = InlineCommits(ledger.store, answer_seconds=1.0)
    async with running(a_worker(ledger, commits, SLACK=channel)) as stop:
        await asyncio.sleep(0.5)
        assert {P.LEASED} == {phase(row) for row in ledger.rows().values()}
        stop.set()

    assert [] == channel.calls
    assert {(P.LEADING, 0, 0)} == {
        (phase(row), row.attempts, row.cycle_attempts) for row in ledger.rows().values()
    }


@in_virtual_time
async def test_stopping_keeps_a_spent_budget_spent(ledger):
    """
    Given a row whose workers died, when its claim is given back by a stop, then it has no attempt
    more than before.
    """
    id = ledger.accept().id
    for _ in range(3):
        ledger.claim(id)
        ledger.clock.advance(60)
    commits = InlineCommits(ledger.store, answer_seconds=1.0)
    async with running(a_worker(ledger, commits)) as stop:
        await asyncio.sleep(0.5)
        stop.set()

    assert (3, 3) == (ledger.row(id).attempts, ledger.row(id).cycle_attempts)


@pytest.mark.parametrize(("takes", "settled"), [(7.9, True), (8.1, False)])
@in_virtual_time
async def test_stopping_waits_eight_seconds(ledger, takes, settled):
    """
    What has not ended by then is cut off: its lease will lapse.
    """
    id = ledger.accept().id
    channel = SlowChannel(1.0 + takes)
    async with running(a_worker(ledger, SLACK=channel)) as stop:
        await asyncio.sleep(1)
        stop.set()
    ended = loop_time()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert settled is (id in delivered(ledger))
    assert (1 + min(takes, 8.0), 0) == (ended, channel.now)


@pytest.mark.parametrize(("takes", "ended"), [(7.9, 8.9), (9.9, 9.0)])
@in_virtual_time
async def test_stopping_waits_no_longer_for_callbacks(ledger, takes, ended):
    """
    Given a callback that is out, then it too has eight seconds; one cut off is called again once its
    lease has ended.
    """
    (id,) = several(ledger, 1, "ask.now")
    ledger.deliver(id)
    ledger.respond(id, callback=True)

    async def callback(event):
        await asyncio.sleep(1.0 + takes)

    async with running(a_worker(ledger, callback=callback)) as stop:
        await asyncio.sleep(1)
        stop.set()

    assert ended == loop_time()
    assert [takes > 8] == [event.callback_pending for event in ledger.events(id, K.ACKED)]


@in_virtual_time
async def test_stopping_with_every_slot_taken_takes_no_longer(ledger):
    """
    The pause of a loop that waits for a free slot does not come on top.
    """
    several(ledger, 2)
    channel = SlowChannel(44.0)
    channel.timeout_seconds = 45.0
    async with running(a_worker(ledger, concurrency=1, poll=SLOW_POLL, SLACK=channel)) as stop:
        await asyncio.sleep(1)
        stop.set()

    assert 9.0 == loop_time()


@in_virtual_time
async def test_stopping_an_idle_worker_takes_no_time(ledger):
    """
    A loop that sleeps is woken by the stop.
    """
    async with running(a_worker(ledger, poll=SLOW_POLL)) as stop:
        await asyncio.sleep(1)
        stop.set()

    assert 1.0 == loop_time()


@in_virtual_time
async def test_a_cancelled_worker_finishes_what_was_started(ledger):
    """
    Cancelling is the host's other way to stop it.
    """
    id = ledger.accept().id
    task = asyncio.ensure_future(a_worker(ledger, SLACK=SlowChannel(2.0)).run(asyncio.Event()))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [id] == delivered(ledger)


@in_virtual_time
async def test_a_closed_ledger_ends_the_worker(ledger):
    """
    No later round could go through: the worker says so instead of trying for ever.
    """
    task = asyncio.ensure_future(a_worker(ledger).run(asyncio.Event()))
    await asyncio.sleep(1)
    ledger.store.close()
    with pytest.raises(Closed):
        await asyncio.wait_for(task, 5)


@in_virtual_time
async def test_a_worker_that_ended_listens_no_more(ledger):
    """
    Its subscriptions end with it.
    """
    async with running(a_worker(ledger)):
        await asyncio.sleep(1)
        assert 3 == ledger.pubsub.listeners

    assert 0 == ledger.pubsub.listeners


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyError("k"), TimeoutError()])
@in_virtual_time
async def test_a_callback_cannot_end_the_worker(ledger, error):
    """
    Whatever a callback raises, a cancellation of its own included, the loops go on.
    """
    (id,) = several(ledger, 1, "ask.now")
    ledger.deliver(id)
    ledger.respond(id, callback=True)

    async def callback(event):
        raise error

    worker = a_worker(ledger, callback=callback)
    async with running(worker):
        await asyncio.sleep(20)

        assert worker.healthy(loop_time())
        assert [3] == [event.callback_attempts for event in ledger.events(id, K.ACKED)]


class Hosted(SlowChannel):
    """
    A channel to several hosts: those that hang, and those that answer at once.
    """

    def __init__(self, *hanging, seconds=10.5, stubborn=False):
        super().__init__(seconds, stubborn=stubborn)
        self.hanging = hanging
        self.at = []

    def destination(self, target):
        return target["channel"]

    async def send(self, message):
        if message.target["channel"] in self.hanging:
            return await super().send(message)
        self.at.append(loop_time())
        return ChannelResult(True)


class Least(InlineCommits):
    """
    Commits whose proposals of due rows hold the least that they must: no row beyond the limit.
    """

    async def run(self, plan):
        return await super().run(Plan(lambda tx: plan.run(_Least(tx)), plan.wants, plan.lane))


class _Least:
    def __init__(self, tx):
        self._tx = tx

    def __getattr__(self, name):
        return getattr(self._tx, name)

    def find(self, query):
        found = self._tx.find(query)
        return in_order(found, self._tx.now)[: query.limit] if isinstance(query, Due) else found


def hosts(*names, **fields):
    """
    A ledger with one policy for each host: what is called after it goes there.
    """
    return Ledger(
        *(
            a_policy(name, notification_type=f"{name}.*", targets={"SLACK": {"channel": name}}, **fields)
            for name in names
        )
    )


@pytest.mark.parametrize("backlog", [20, 500])
@in_virtual_time
async def test_destinations_that_hang_hold_up_only_their_own(backlog):
    """
    B06: given many notifications to a host that hangs, accepted before some to a healthy one, then
    those are delivered at once, one and all, and the calls to the other never take more than its
    quarter.
    """
    ledger = hosts("slow", "quick")
    several(ledger, backlog, "slow.x")
    quick = several(ledger, 20, "quick.x")
    channel = Hosted("slow")
    commits = Least(ledger.store)
    async with running(a_worker(ledger, commits, poll=SLOW_POLL, share=0.25, SLACK=channel)):
        await until(lambda: set(quick) <= set(delivered(ledger)), seconds=0.5)

        assert 16 == channel.now == channel.most
        assert max(channel.at) < 0.5


@in_virtual_time
async def test_destinations_that_all_hang_leave_room_for_one_that_does_not():
    """
    Given ten hosts that hang, each with more than it can take, then a healthy one is served at once.
    """
    slow = [f"slow{n}" for n in range(10)]
    ledger = hosts("quick", *slow)
    for name in slow:
        several(ledger, 30, f"{name}.x")
    quick = several(ledger, 20, "quick.x")
    commits = Least(ledger.store)
    async with running(a_worker(ledger, commits, poll=SLOW_POLL, share=0.25, SLACK=Hosted(*slow))):
        await until(lambda: set(quick) <= set(delivered(ledger)), seconds=0.5)


@in_virtual_time
async def test_destinations_take_the_next_as_soon_as_there_is_room():
    """
    Given a backlog to one slow host, then its share is always used: no slot of it waits for a poll.
    """
    ledger = hosts("slow")
    several(ledger, 12, "slow.x")
    channel = Hosted("slow", seconds=1.0)
    async with running(a_worker(ledger, concurrency=12, poll=SLOW_POLL, share=0.25, SLACK=channel)):
        await until(lambda: len(delivered(ledger)) == 12, seconds=10)

        assert (3, True) == (channel.most, 4 <= loop_time() < 4.5)


@in_virtual_time
async def test_destinations_passed_over_lose_neither_attempts_nor_their_turn():
    """
    What there is no room for is not touched: no lease, no event, no later date.
    """
    ledger = hosts("slow")
    ids = several(ledger, 10, "slow.x")
    before = ledger.rows()
    async with running(a_worker(ledger, concurrency=4, share=0.25, SLACK=Hosted("slow"))) as stop:
        await asyncio.sleep(5)
        waiting = [id for id in ids if phase(ledger.row(id)) is P.LEADING]

        assert 9 == len(waiting)
        assert [before[id] for id in waiting] == [ledger.row(id) for id in waiting]
        assert {(K.ACCEPTED,)} == {tuple(ledger.kinds(id)) for id in waiting}
        stop.set()


@in_virtual_time
async def test_destinations_of_calls_that_never_return_stay_full():
    """
    Given calls that were given up and do not return, then they count to their host, so that it does
    not eat one slot after another.
    """
    ledger = hosts("slow", "quick")
    several(ledger, 100, "slow.x")
    channel = Hosted("slow", seconds=1000.0, stubborn=True)
    async with running(a_worker(ledger, concurrency=8, share=0.25, SLACK=channel)):
        await asyncio.sleep(100)
        quick = several(ledger, 5, "quick.x")
        await until(lambda: set(quick) <= set(delivered(ledger)), seconds=0.5)

        assert 2 == channel.now


@in_virtual_time
async def test_destinations_without_a_name_are_the_channel():
    """
    An adapter that tells nothing of its targets is one destination for all of them.
    """
    ledger = Ledger(
        a_policy("slow", notification_type="slow.*"),
        a_policy("quick", notification_type="quick.*", channels=ChannelPlan(primary=("SMS",))),
    )
    several(ledger, 100, "slow.x")
    quick = several(ledger, 10, "quick.x")
    hanging = SlowChannel(10.5)
    async with running(a_worker(ledger, poll=SLOW_POLL, share=0.25, SLACK=hanging, SMS=ScriptedChannel())):
        await until(lambda: set(quick) <= set(delivered(ledger)), seconds=0.5)

        assert 16 == hanging.most


@in_virtual_time
async def test_destinations_that_cannot_hang_have_no_bound():
    """
    LOG takes whatever there are slots for.
    """
    ledger = Ledger(a_policy(channels=ChannelPlan(primary=("LOG",))))
    several(ledger, 64)
    channel = SlowChannel(1.0)
    channel.destination = lambda target: None
    async with running(a_worker(ledger, poll=SLOW_POLL, share=0.25, LOG=channel)):
        await until(lambda: len(delivered(ledger)) == 64, seconds=2)

        assert 64 == channel.most
