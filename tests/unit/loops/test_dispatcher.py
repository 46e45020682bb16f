"""
The dispatch of one notification from claim to settlement, as ``docs/rules.md`` tells it.

- a one-channel dispatch is two transactions, no call inside either: ``test_one_channel_*``
- fallbacks only when no primary succeeded, ``any`` and ``all``: ``test_fallbacks_*``
- the lease is renewed when too little is left: ``test_the_lease_is_renewed_*``
- a lease that is lost: ``test_a_lease_lost_*``; a success on record: ``test_a_success_on_record_*``
- a notification that kills its workers ends: ``test_a_killer_ends_in_the_dead_letters``
- die at every commit, and lose the answer of every commit (R6): ``test_*_crash``, ``test_*_lost_answer``
- paced for 900 s: ``test_a_pacing_provider_*``
"""

import asyncio

import pytest

from kit.builders import NOW, a_policy
from kit.channels import ScriptedChannel, SlowChannel
from kit.commits import Crash, HookedCommits, InlineCommits, LossyCommits, MortalCommits
from kit.ledger import Ledger, paced, refused
from kit.process import a_dispatcher
from kit.virtual_time import in_virtual_time
from uns.adapters.sources import ManualClock
from uns.core.loops.insist import Insistent
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.settle import LEASE_EXPIRED
from uns.ports.channel import ChannelResult
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Copy
from uns.ports.vocabulary import DeliveryMode, EventKind, Require, Status

P, K = Phase, EventKind
FAIL = ChannelResult(False, error="no")
UNKNOWN = "0000ffff-0000-7000-8000-000000000000"
FALLBACK = a_policy(channels=ChannelPlan(primary=("SLACK",), fallback=("PAGERDUTY",)))


def a_plan(require, fallback=("PAGERDUTY",)):
    return a_policy(channels=ChannelPlan(primary=("SLACK", "EMAIL"), fallback=fallback, require=require))


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def ledger(clock):
    return Ledger(clock=clock)


def put_on_record(ledger, id, channel="SLACK"):
    ledger.put(Copy(notification_id=id, channel=channel, ref=None, routing=None, state="SENT", at=NOW))


def called(ledger, id):
    return [event.details["channel"] for event in ledger.events(id, K.CHANNEL_ATTEMPT_STARTED)]


@in_virtual_time
async def test_one_channel_is_two_transactions(ledger):
    """
    Claimed and started, called, settled: the timeline says so in that order.
    """
    commits = InlineCommits(ledger.store)
    seen, run_ = [], commits.run

    async def counted(plan):
        seen.append(plan)
        return await run_(plan)

    commits.run = counted
    id = ledger.accept().id

    assert await a_dispatcher(ledger, commits, SLACK=ScriptedChannel()).dispatch(id) is True
    assert 2 == len(seen)
    assert Status.DELIVERED is ledger.row(id).status
    assert [
        K.ACCEPTED,
        K.ATTEMPT_STARTED,
        K.CHANNEL_ATTEMPT_STARTED,
        K.CHANNEL_ATTEMPT_RESULT,
        K.DELIVERY_RESULT,
    ] == ledger.kinds(id)


@in_virtual_time
async def test_a_channel_is_called_once_its_start_is_committed(ledger):
    """
    When the adapter runs, the row is leased and the call is on the timeline; no result is.
    """
    id = ledger.accept().id
    seen = []

    class Looking:
        async def send(self, message):
            seen.extend((phase(ledger.row(id)), ledger.kinds(id)[-1]))
            return ChannelResult(True)

    await a_dispatcher(ledger, SLACK=Looking()).dispatch(id)

    assert [P.LEASED, K.CHANNEL_ATTEMPT_STARTED] == seen


@pytest.mark.parametrize("state", ["unknown", "delivered", "follower", "leased", "backing off", "no adapter"])
@in_virtual_time
async def test_what_is_not_claimable_is_not_dispatched(ledger, state):
    """
    False, no call, and nothing changes.
    """
    channel, leader = ScriptedChannel(), ledger.accept().id
    id = {"unknown": UNKNOWN, "follower": ledger.accept().id}.get(state, leader)
    match state:
        case "delivered":
            ledger.deliver(leader)
        case "leased":
            ledger.claim(leader)
        case "backing off":
            ledger.attempt(leader, SLACK=False)
    before = ledger.rows()
    channels = {"LOG" if state == "no adapter" else "SLACK": channel}

    assert await a_dispatcher(ledger, **channels).dispatch(id) is False
    assert ([], before) == (channel.calls, ledger.rows())


@in_virtual_time
async def test_an_outcome_that_is_no_delivery_is_committed_too(ledger):
    """
    True as well for a backoff and for a dead letter.
    """
    id = ledger.accept().id
    dispatcher = a_dispatcher(ledger, SLACK=ScriptedChannel(FAIL, refused()))

    assert await dispatcher.dispatch(id) is True
    assert (P.LEADING, NOW + 1) == (phase(ledger.row(id)), ledger.row(id).next_attempt)
    ledger.clock.advance(1)
    assert await dispatcher.dispatch(id) is True
    assert P.DEAD_LETTER is phase(ledger.row(id))


@pytest.mark.parametrize(("jitter", "wait"), [(0.0, 1.0), (0.5, 1.1)])
@in_virtual_time
async def test_jitter_is_drawn_for_each_settlement(ledger, jitter, wait):
    """
    What the process's chance draws, the backoff adds: up to a fifth.
    """
    id = ledger.accept().id
    await a_dispatcher(ledger, jitter=jitter, SLACK=ScriptedChannel(FAIL)).dispatch(id)

    assert NOW + wait == ledger.row(id).next_attempt


@pytest.mark.parametrize(
    ("slack", "email", "calls", "any_", "all_"),
    [
        (True, True, [], P.DELIVERED, P.DELIVERED),
        (True, FAIL, [], P.DELIVERED, P.LEADING),
        (FAIL, True, [], P.DELIVERED, P.LEADING),
        (FAIL, FAIL, ["PAGERDUTY"], P.DELIVERED, P.DELIVERED),
        (paced(), paced(), ["PAGERDUTY"], P.DELIVERED, P.DELIVERED),
        (refused(), refused(), ["PAGERDUTY"], P.DELIVERED, P.DELIVERED),
        (refused(), True, [], P.DELIVERED, P.DEAD_LETTER),
    ],
)
@pytest.mark.parametrize("require", Require)
@in_virtual_time
async def test_fallbacks_are_called_only_when_no_primary_succeeded(require, slack, email, calls, any_, all_):
    """
    Under ``any`` and ``all`` alike; where the fallback is called, its success is enough for both.
    """
    ledger = Ledger(a_plan(require))
    id = ledger.accept().id
    channels = {"SLACK": slack, "EMAIL": email, "PAGERDUTY": True}
    scripted = {name: ScriptedChannel(result) for name, result in channels.items()}

    assert await a_dispatcher(ledger, **scripted).dispatch(id)
    assert ["SLACK", "EMAIL", *calls] == called(ledger, id)
    assert (any_ if require is Require.ANY else all_) is phase(ledger.row(id))


@in_virtual_time
async def test_fallbacks_are_not_called_while_a_primary_has_it_on_record():
    """
    Under ``all``: given one primary's success of an earlier attempt, when the other fails again,
    then the fallback stays quiet.
    """
    ledger = Ledger(a_plan(Require.ALL))
    id = ledger.accept().id
    quiet = ScriptedChannel()
    dispatcher = a_dispatcher(ledger, SLACK=ScriptedChannel(), EMAIL=ScriptedChannel(FAIL), PAGERDUTY=quiet)
    await dispatcher.dispatch(id)
    ledger.clock.advance(1)
    await dispatcher.dispatch(id)

    assert ["SLACK", "EMAIL", "EMAIL"] == called(ledger, id)
    assert ([], P.LEADING) == (quiet.calls, phase(ledger.row(id)))
    assert (("SLACK",), ("EMAIL",)) == (
        ledger.row(id).outcome.channels_succeeded,
        ledger.row(id).outcome.channels_failed,
    )


@in_virtual_time
async def test_a_fallback_that_is_not_needed_costs_no_transaction():
    """
    A delivered primary is settled at once.
    """
    ledger = Ledger(FALLBACK)
    commits = MortalCommits(ledger.store, 0, after=False)
    channels = {"SLACK": ScriptedChannel(), "PAGERDUTY": ScriptedChannel()}

    assert await a_dispatcher(ledger, commits, **channels).dispatch(ledger.accept().id)
    assert 2 == commits.commits


@in_virtual_time
async def test_fallbacks_are_called_after_the_primaries(clock):
    """
    The primaries' results are recorded before a fallback starts, and its lease is full again.
    """
    ledger = Ledger(FALLBACK, clock=clock)
    id = ledger.accept().id
    seen = []

    class Looking:
        async def send(self, message):
            seen.append((ledger.kinds(id)[-2:], ledger.row(id).lease_until - ledger.clock.now()))
            return ChannelResult(True)

    slow = SlowChannel(8.0, result=False)
    await a_dispatcher(ledger, SLACK=slow, PAGERDUTY=Looking()).dispatch(id)

    assert [([K.CHANNEL_ATTEMPT_RESULT, K.CHANNEL_ATTEMPT_STARTED], 60.0)] == seen
    assert Status.DELIVERED is ledger.row(id).status


@in_virtual_time
async def test_when_all_fail_the_attempt_has_failed():
    """
    Both steps are in the outcome.
    """
    ledger = Ledger(FALLBACK)
    id = ledger.accept().id
    await a_dispatcher(ledger, SLACK=ScriptedChannel(FAIL), PAGERDUTY=ScriptedChannel(FAIL)).dispatch(id)
    row = ledger.row(id)

    assert (P.LEADING, ("SLACK", "PAGERDUTY"), "SLACK: no; PAGERDUTY: no") == (
        phase(row),
        row.outcome.channels_failed,
        row.outcome.error_message,
    )


def delay(seconds):
    """
    Something that keeps the whole process from running for so long.
    """
    return lambda: asyncio.get_running_loop().advance(seconds)


@pytest.mark.parametrize(("queued", "expected"), [(34.999, 0), (35.0, 0), (35.001, 1), (59.0, 1)])
@in_virtual_time
async def test_the_lease_is_renewed_when_too_little_is_left(ledger, queued, expected):
    """
    Given a claim that was queued for long, when less than the channel's limit and 15 s remain of its
    60 s, then the lease is renewed before the call; time in the queue counts as time of the lease.
    """
    id = ledger.accept().id
    commits = HookedCommits(ledger.store, 1, delay(queued))

    assert await a_dispatcher(ledger, commits, SLACK=ScriptedChannel()).dispatch(id)
    assert expected == commits.commits - 2
    assert [] == ledger.events(id, K.LEASE_LOST)


@pytest.mark.parametrize(
    ("limit", "queued", "expected"), [(30.0, 15.0, 0), (30.0, 15.001, 1), (45.0, 0.001, 1)]
)
@in_virtual_time
async def test_the_lease_is_renewed_for_the_slowest_channel(ledger, limit, queued, expected):
    """
    A channel that takes longer needs more of the lease; the longest limit there is needs it whole,
    and is called all the same.
    """
    id, channel = ledger.accept().id, ScriptedChannel()
    channel.timeout_seconds = limit
    commits = HookedCommits(ledger.store, 1, delay(queued))

    assert await a_dispatcher(ledger, commits, SLACK=channel).dispatch(id)
    assert (expected, 1) == (commits.commits - 2, len(channel.calls))


@in_virtual_time
async def test_what_a_renewal_took_comes_off_the_call(ledger):
    """
    Given commits that answer after 38 s each, then the call has 7 s: no call outlasts its lease.
    """
    id, channel = ledger.accept().id, SlowChannel(3600.0)
    commits = InlineCommits(ledger.store, answer_seconds=38.0)
    await a_dispatcher(ledger, commits, SLACK=channel).dispatch(id)

    assert 7.0 == channel.calls[0].deadline


@in_virtual_time
async def test_a_renewal_that_took_the_whole_lease_is_made_again(ledger):
    """
    Given a process that was stopped for a minute while its renewal was answered, then it renews once
    more rather than call without a lease.
    """
    id, channel = ledger.accept().id, ScriptedChannel()
    pauses = iter([40.0, 50.0, 0.0, 0.0])

    class Pausing(InlineCommits):
        async def run(self, plan):
            reply = self.store.transact(plan)
            asyncio.get_running_loop().advance(next(pauses))
            return reply

    assert await a_dispatcher(ledger, Pausing(ledger.store), SLACK=channel).dispatch(id)
    assert 10.0 == channel.calls[0].deadline


@in_virtual_time
async def test_a_lease_lost_before_the_renewal_calls_nobody(ledger):
    """
    Given a claim that waited for longer than its lease, when another worker has the row, then nothing
    is called.
    """
    id, channel = ledger.accept().id, ScriptedChannel()
    dispatcher = a_dispatcher(ledger, SLACK=channel)
    leased_at = asyncio.get_running_loop().time()
    claim = ledger.claim(id)
    await asyncio.sleep(60)
    other = ledger.claim(id)

    assert None is await dispatcher.carry(claim, leased_at)
    assert ([], other.row) == (channel.calls, ledger.row(id))
    assert 1 == len(ledger.events(id, K.LEASE_LOST))


@pytest.mark.parametrize("waited", [59.999, 60.0, 60.001])
@in_virtual_time
async def test_a_lease_lost_before_the_start_calls_nobody(ledger, waited):
    """
    Given a claim that waited in its worker until the lease had ended, then it is not started.
    """
    id, channel = ledger.accept().id, ScriptedChannel()
    dispatcher = a_dispatcher(ledger, SLACK=channel)
    (claim,) = await dispatcher.claim_due(1)
    await asyncio.sleep(waited)
    row = await dispatcher.carry(claim, 0.0)

    held = waited < 60
    assert held is (row is not None)
    assert int(held) == len(channel.calls)
    assert (0 if held else 1) == len(ledger.events(id, K.LEASE_LOST))


@in_virtual_time
async def test_a_lease_lost_during_the_call_settles_nothing(ledger):
    """
    Given a settlement that came too late, then the observation is kept, the row is free for others,
    and their claim settles it without a second call.
    """
    id, channel = ledger.accept().id, ScriptedChannel()
    commits = HookedCommits(ledger.store, 2, delay(60.0))

    assert await a_dispatcher(ledger, commits, SLACK=channel).dispatch(id) is False
    assert (P.LEASED, [K.CHANNEL_ATTEMPT_RESULT, K.LEASE_LOST]) == (
        phase(ledger.row(id)),
        ledger.kinds(id)[-2:],
    )
    assert await a_dispatcher(ledger, SLACK=channel).dispatch(id) is True
    assert (Status.DELIVERED, 1) == (ledger.row(id).status, len(channel.calls))


@in_virtual_time
async def test_a_lease_lost_before_the_fallbacks_calls_none(clock):
    """
    The primaries' results are kept; no fallback is called without a lease.
    """
    ledger = Ledger(FALLBACK, clock=clock)
    id, fallback = ledger.accept().id, ScriptedChannel()
    commits = HookedCommits(ledger.store, 2, delay(60.0))
    dispatcher = a_dispatcher(ledger, commits, SLACK=ScriptedChannel(FAIL), PAGERDUTY=fallback)

    assert await dispatcher.dispatch(id) is False
    assert [] == fallback.calls
    assert [K.CHANNEL_ATTEMPT_RESULT, K.LEASE_LOST] == ledger.kinds(id)[-2:]


@in_virtual_time
async def test_an_answer_during_the_call_wins(ledger):
    """
    Given a row withdrawn while its channel was called, when the call returns, then nothing moves.
    """
    id = ledger.accept().id
    commits = HookedCommits(ledger.store, 2, lambda: ledger.withdraw(id))

    assert await a_dispatcher(ledger, commits, SLACK=ScriptedChannel()).dispatch(id) is False
    assert P.WITHDRAWN is phase(ledger.row(id))


@pytest.mark.parametrize("when", ["before the claim", "between claim and start", "during the primaries"])
@in_virtual_time
async def test_a_success_on_record_settles_without_a_call(when):
    """
    Wherever it turns up, what is on record is not sent again.
    """
    ledger = Ledger(FALLBACK)
    id = ledger.accept().id
    slack, fallback = ScriptedChannel(FAIL), ScriptedChannel()
    commits = InlineCommits(ledger.store)
    if when == "during the primaries":
        commits = HookedCommits(ledger.store, 2, lambda: put_on_record(ledger, id))
    dispatcher = a_dispatcher(ledger, commits, SLACK=slack, PAGERDUTY=fallback)
    if when == "before the claim":
        put_on_record(ledger, id)
    if when == "between claim and start":
        (claim,) = await dispatcher.claim_due(1)
        put_on_record(ledger, id)
        assert await dispatcher.carry(claim, 0.0) is not None
    else:
        assert await dispatcher.dispatch(id)

    assert Status.DELIVERED is ledger.row(id).status
    assert int(when == "during the primaries") == len(slack.calls)
    assert [] == fallback.calls


@pytest.mark.parametrize(
    ("mode", "budget", "expected"),
    [(DeliveryMode.GUARANTEED, 3, P.DEAD_LETTER), (DeliveryMode.BEST_EFFORT, 1, P.FAILED)],
)
@in_virtual_time
async def test_a_killer_ends_in_the_dead_letters(mode, budget, expected):
    """
    Given a notification that kills each worker that calls its channel, when the budget is used up,
    then the next claim ends it, and the channel is called no more.
    """
    ledger = Ledger(a_policy(delivery_mode=mode))
    id, channel = ledger.accept().id, ScriptedChannel(Crash())
    dispatcher = a_dispatcher(ledger, SLACK=channel)
    for _ in range(budget):
        with pytest.raises(Crash):
            await dispatcher.dispatch(id)
        ledger.clock.advance(60)

    assert await dispatcher.dispatch(id) is True
    assert (expected, LEASE_EXPIRED, budget) == (
        phase(ledger.row(id)),
        ledger.row(id).outcome.error_message,
        len(channel.calls),
    )


async def dispatched(ledger, dispatcher, id, way):
    """
    One dispatch of ``id``, straight or as a worker does it.
    """
    if way == "straight":
        return await dispatcher.dispatch(id)
    claims = await dispatcher.claim_due(1)
    return [await dispatcher.carry(claim, 0.0) for claim in claims] != [None]


COMMITS = [
    ("one channel", "straight", 2),
    ("one channel", "worker", 3),
    ("fallback", "straight", 3),
    ("fallback", "worker", 4),
]
EVERY_COMMIT = [(kind, way, n) for kind, way, count in COMMITS for n in range(1, count + 1)]


def a_case(kind):
    if kind == "one channel":
        return Ledger(), {"SLACK": ScriptedChannel()}
    return Ledger(FALLBACK), {"SLACK": ScriptedChannel(FAIL), "PAGERDUTY": ScriptedChannel()}


@pytest.mark.parametrize(("kind", "way", "expected"), COMMITS)
@in_virtual_time
async def test_how_many_commits_there_are_to_die_at(kind, way, expected):
    """
    The crash tests below die at every one of them.
    """
    ledger, channels = a_case(kind)
    id = ledger.accept().id
    commits = MortalCommits(ledger.store, 0, after=False)
    await dispatched(ledger, a_dispatcher(ledger, commits, **channels), id, way)

    assert expected == commits.commits
    assert Status.DELIVERED is ledger.row(id).status


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("kind", "way", "dies_at"), EVERY_COMMIT)
@in_virtual_time
async def test_dispatch_recovers_from_a_crash(kind, way, dies_at, after):
    """
    Given a crash before or after any commit, when the lease has run out, then a second worker ends
    the obligation, and each channel was called at most twice; what is on record is not sent again.
    """
    ledger, channels = a_case(kind)
    id, follower = ledger.accept().id, ledger.accept().id
    dying = a_dispatcher(ledger, MortalCommits(ledger.store, dies_at, after=after), **channels)
    with pytest.raises(Crash):
        await dispatched(ledger, dying, id, way)
    recorded = {copy.channel for copy in ledger.table(Copy).values()}
    calls = {name: len(channel.calls) for name, channel in channels.items()}
    ledger.clock.advance(60)
    await dispatched(ledger, a_dispatcher(ledger, **channels), id, way)

    assert (Status.DELIVERED, P.DEDUPLICATED) == (ledger.row(id).status, phase(ledger.row(follower)))
    for name, channel in channels.items():
        assert len(channel.calls) <= 2
        assert name not in recorded or len(channel.calls) == calls[name]
    assert 1 == len(ledger.events(id, K.DELIVERY_RESULT))
    assert ledger.row(id).attempts <= 2


@pytest.mark.parametrize(("kind", "way", "at"), EVERY_COMMIT)
@in_virtual_time
async def test_dispatch_survives_a_lost_answer(kind, way, at):
    """
    Given that the answer to any one commit is lost, when the same plan is run again, then the
    dispatch goes on as if nothing had been: no channel is called twice and no event is written twice.
    """
    ledger, channels = a_case(kind)
    id = ledger.accept().id
    expected, its_channels = a_case(kind)
    await dispatched(expected, a_dispatcher(expected, **its_channels), expected.accept().id, way)
    commits = Insistent(LossyCommits(ledger.store, at))

    assert await dispatched(ledger, a_dispatcher(ledger, commits, **channels), id, way)
    assert expected.kinds(next(iter(expected.rows()))) == ledger.kinds(id)
    assert Status.DELIVERED is ledger.row(id).status
    assert {1} == {len(channel.calls) for channel in channels.values()}


@pytest.mark.parametrize(("final", "ended"), [(899.0, False), (900.0, True), (901.0, True)])
@in_virtual_time
async def test_a_pacing_provider_is_waited_for_900_s(final, ended):
    """
    Given a policy of one attempt and a provider that always asks for patience, then attempts cost
    nothing until 900 s after the first pacing; the first attempt from then on is the last.
    """
    ledger = Ledger(a_policy(max_attempts=1))
    id = ledger.accept().id
    dispatcher = a_dispatcher(ledger, SLACK=ScriptedChannel(paced(10.0)))
    await dispatcher.dispatch(id)
    ledger.clock.advance(final)
    await dispatcher.dispatch(id)

    assert (P.DEAD_LETTER if ended else P.LEADING) is phase(ledger.row(id))
    assert 2 == ledger.row(id).attempts


@in_virtual_time
async def test_a_pacing_provider_ends_best_effort():
    """
    BEST_EFFORT has one attempt, paced or not.
    """
    ledger = Ledger(a_policy(delivery_mode=DeliveryMode.BEST_EFFORT))
    id = ledger.accept().id
    await a_dispatcher(ledger, SLACK=ScriptedChannel(paced())).dispatch(id)

    assert P.FAILED is phase(ledger.row(id))


@pytest.mark.parametrize(("asked", "waits"), [(3599.0, 3599.0), (3600.0, 3600.0), (1e9, 3600.0)])
@in_virtual_time
async def test_retry_after_is_capped_at_an_hour(ledger, asked, waits):
    """
    A provider cannot park a notification for longer.
    """
    id = ledger.accept().id
    await a_dispatcher(ledger, SLACK=ScriptedChannel(paced(asked))).dispatch(id)

    assert NOW + waits == ledger.row(id).next_attempt


@in_virtual_time
async def test_claims_are_given_back_uncounted(ledger):
    """
    What was claimed and not started is as it was before.
    """
    id = ledger.accept().id
    dispatcher = a_dispatcher(ledger, SLACK=ScriptedChannel())
    (claim,) = await dispatcher.claim_due(5)
    await dispatcher.give_back(claim)

    assert (P.LEADING, 0) == (phase(ledger.row(id)), ledger.row(id).attempts)


@in_virtual_time
async def test_a_dispatcher_knows_its_channels_and_its_overdue_calls(ledger):
    """
    Channels by name; calls that were given up count until they return.
    """
    dispatcher = a_dispatcher(ledger, SLACK=SlowChannel(20.0, stubborn=True), LOG=ScriptedChannel())
    await dispatcher.dispatch(ledger.accept().id)

    assert ({"SLACK", "LOG"}, 1) == (dispatcher.channels, dispatcher.overdue)
    await asyncio.sleep(10.1)
    assert 0 == dispatcher.overdue
