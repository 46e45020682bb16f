"""
Taking requests in, and waiting a while for what a worker makes of them.
"""

import asyncio
from uuid import UUID

import pytest

from kit.builders import a_policy, a_request
from kit.channels import ScriptedChannel, SlowChannel
from kit.commits import InlineCommits
from kit.ledger import Ledger
from kit.process import a_dispatcher, sources
from kit.virtual_time import in_virtual_time
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.core.loops.sender import Intake
from uns.core.loops.submitter import POLL_SECONDS, Submitter
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import Conflict, Rejected, StoreUnavailable
from uns.ports.vocabulary import Resolution, Status

WHO = "agent-7"
COALESCING = a_policy(dedup_window_seconds=300)


@pytest.fixture
def ledger():
    return Ledger(COALESCING)


class Reading(InlineCommits):
    """
    Commits that count their reads, and refuse them while ``broken``.
    """

    def __init__(self, store):
        super().__init__(store)
        self.reads = 0
        self.broken = False

    async def read(self, plan):
        self.reads += 1
        if self.broken:
            raise StoreUnavailable
        return await super().read(plan)


def a_submitter(ledger, commits=None, *, pubsub=True):
    """
    A submitter that hears of settlements, or not, as beside a worker elsewhere.
    """
    intake = Intake(ledger.resolver, sources(ledger), wants_callback=False)
    heard = ledger.pubsub if pubsub else Deaf()
    return Submitter(intake, commits or InlineCommits(ledger.store), heard)


class Deaf:
    """
    A pub/sub that nothing arrives through.
    """

    def publish(self, signals):
        pass

    def subscribe(self, listener):
        return lambda: None


def now():
    return asyncio.get_running_loop().time()


async def attempted_in(seconds, ledger, **channels):
    """
    Another's worker: attempts what is due after ``seconds``.
    """
    await asyncio.sleep(seconds)
    dispatcher = a_dispatcher(ledger, **(channels or {"SLACK": ScriptedChannel()}))
    for claim in await dispatcher.claim_due(10):
        await dispatcher.carry(claim, now())


@in_virtual_time
async def test_without_a_wait_the_answer_is_the_acceptance(ledger):
    """
    PENDING, and nothing is read once it is committed.
    """
    commits = Reading(ledger.store)
    submitted = await a_submitter(ledger, commits).submit(a_request(), WHO, wait_seconds=0)

    assert (Status.PENDING, None, False) == (submitted.row.status, submitted.projection, submitted.replayed)
    assert (0, 0.0) == (commits.reads, now())
    assert submitted.row == ledger.row(submitted.row.id)


@pytest.mark.parametrize(
    ("pubsub", "seconds", "latest"),
    [
        (True, 0.1, 0.15),
        (True, 3.0, 3.05),
        (False, 0.1, 0.1 + POLL_SECONDS),
        (False, 3.0, 3.05 + POLL_SECONDS),
    ],
)
@in_virtual_time
async def test_the_wait_ends_with_the_first_settlement(ledger, pubsub, seconds, latest):
    """
    At once where its signal is heard, else within a quarter of a second.
    """
    work = asyncio.ensure_future(attempted_in(seconds, ledger))
    submitted = await a_submitter(ledger, pubsub=pubsub).submit(a_request(), WHO, wait_seconds=5)
    await work

    assert Status.DELIVERED is submitted.row.status
    assert seconds <= now() <= latest


@in_virtual_time
async def test_a_hint_has_every_wait_look(ledger):
    """
    Given two waits, when a signal says that anything may have been settled, then the one that was
    ends at once, and the other goes on.
    """
    heard = InProcessPubSub()
    intake = Intake(ledger.resolver, sources(ledger), wants_callback=False)
    commits = Reading(ledger.store)
    submitter = Submitter(intake, commits, heard)
    first = asyncio.ensure_future(submitter.submit(a_request(title="a"), WHO, wait_seconds=5))
    await attempted_in(0.1, ledger)
    second = asyncio.ensure_future(submitter.submit(a_request(title="b"), WHO, wait_seconds=5))
    await asyncio.sleep(0.01)
    heard.publish([Signal(SignalKind.DUE, ""), Signal(SignalKind.SETTLED, "")])

    assert Status.DELIVERED is (await first).row.status
    assert 0.11 == pytest.approx(now())
    assert not second.done()
    assert 3 == commits.reads  # one look each, and the answer
    await attempted_in(1, ledger)
    heard.publish([Signal(SignalKind.SETTLED, (await second).row.id)])

    assert Status.DELIVERED is second.result().row.status


@pytest.mark.parametrize("kind", [kind for kind in SignalKind if kind is not SignalKind.SETTLED])
@in_virtual_time
async def test_hints_of_other_kinds_are_not_for_waits(ledger, kind):
    """
    Nothing is read for them.
    """
    commits = Reading(ledger.store)
    submitter = a_submitter(ledger, commits)
    work = asyncio.ensure_future(submitter.submit(a_request(), WHO, wait_seconds=POLL_SECONDS / 2))
    await asyncio.sleep(0.01)
    ledger.pubsub.publish([Signal(kind, "")])
    await asyncio.sleep(0.01)

    assert 0 == commits.reads
    await work


@pytest.mark.parametrize("result", [False, True])
@in_virtual_time
async def test_a_failed_attempt_is_a_settlement(ledger, result):
    """
    What will be tried again is told as it stands after the first attempt.
    """
    work = asyncio.ensure_future(attempted_in(1, ledger, SLACK=ScriptedChannel(result)))
    submitted = await a_submitter(ledger).submit(a_request(), WHO, wait_seconds=5)
    await work

    assert [Status.PENDING, Status.DELIVERED][result] is submitted.row.status
    assert 1 == submitted.row.attempts
    assert submitted.row.outcome is not None


@pytest.mark.parametrize(("wait", "delivered"), [(0.999, False), (1.2, True)])
@pytest.mark.parametrize("pubsub", [True, False])
@in_virtual_time
async def test_the_wait_has_an_end(ledger, wait, delivered, pubsub):
    """
    Given an attempt that settles after a second, when the wait is shorter, then the row is as it
    stands: leased, not settled.
    """
    work = asyncio.ensure_future(attempted_in(0, ledger, SLACK=SlowChannel(1.0)))
    submitted = await a_submitter(ledger, pubsub=pubsub).submit(a_request(), WHO, wait_seconds=wait)
    took = now()
    await work

    assert delivered is (submitted.row.status is Status.DELIVERED)
    assert took == pytest.approx(min(wait, 1.0), abs=0.26 if delivered else 0.01)


@in_virtual_time
async def test_a_follower_waits_for_nothing(ledger):
    """
    It is not attempted, and its owner is named.
    """
    submitter = a_submitter(ledger)
    owner = await submitter.submit(a_request(), WHO, wait_seconds=0)
    for wait in (0, 5):
        follower = await submitter.submit(a_request(), WHO, wait_seconds=wait)

        assert UUID(owner.row.id) == follower.projection.obligation_owner_id
        assert (Status.PENDING, True) == (follower.row.status, follower.projection.ack_inherited)
    assert 0.0 == now()


@in_virtual_time
async def test_a_duplicate_and_a_replay_wait_for_nothing(ledger):
    """
    Nor does a replay of what is still pending.
    """
    submitter = a_submitter(ledger)
    first = await submitter.submit(a_request(idempotency_key="k"), WHO, wait_seconds=0)
    pending = await submitter.submit(a_request(idempotency_key="k"), WHO, wait_seconds=5)
    ledger.deliver(first.row.id)
    replayed = await submitter.submit(a_request(idempotency_key="k"), WHO, wait_seconds=5)
    duplicate = await submitter.submit(a_request(), WHO, wait_seconds=5)

    assert [(True, Status.PENDING), (True, Status.DELIVERED), (False, Status.DEDUPLICATED)] == [
        (each.replayed, each.row.status) for each in (pending, replayed, duplicate)
    ]
    assert {first.row.id} == {pending.row.id, replayed.row.id}
    assert 0.0 == now()


@pytest.mark.parametrize("wait", [0, 5])
@in_virtual_time
async def test_what_is_refused_raises_at_once(ledger, wait):
    """
    A conflict, a bad type, no principal.
    """
    submitter = a_submitter(ledger)
    await submitter.submit(a_request(idempotency_key="k"), WHO, wait_seconds=0)
    with pytest.raises(Conflict):
        await submitter.submit(a_request(idempotency_key="k", title="other"), WHO, wait_seconds=wait)
    with pytest.raises(Rejected):
        await submitter.submit(a_request(), "", wait_seconds=wait)

    assert 0.0 == now()


@in_virtual_time
async def test_nobody_is_told_of_anothers_settlement(ledger):
    """
    Given two requests at once, when one is settled, then the other waits on.
    """
    submitter = a_submitter(ledger)
    first, second = (
        asyncio.ensure_future(submitter.submit(a_request(title=title), WHO, wait_seconds=5)) for title in "ab"
    )
    await asyncio.sleep(1)
    (quick,) = [id for id, row in ledger.rows().items() if "a" in row.content["title"]]
    ledger.deliver(quick)

    assert Status.DELIVERED is (await first).row.status
    assert 1.0 <= now() < 1.1
    assert Status.PENDING is (await second).row.status
    assert 5.0 == now()


@pytest.mark.parametrize("wait", [0, 0.5])
@in_virtual_time
async def test_a_store_that_stops_answering_does_not_undo_an_acceptance(ledger, wait):
    """
    Given that it was committed, when nothing can be read any more, then the answer is the
    acceptance; whose obligation a follower is stays open.
    """
    commits = Reading(ledger.store)
    submitter = a_submitter(ledger, commits, pubsub=False)
    commits.broken = True
    owner = await submitter.submit(a_request(), WHO, wait_seconds=wait)
    follower = await submitter.submit(a_request(), WHO, wait_seconds=wait)

    assert (owner.row.id, None) == (ledger.row(owner.row.id).id, owner.projection)
    assert (None, UUID(follower.row.id)) == (
        follower.projection.obligation_resolution_status,
        follower.projection.notification_id,
    )
    assert Resolution.RESOLVED is not follower.projection.obligation_resolution_status


@in_virtual_time
async def test_in_a_hurry_nobody_waits(ledger):
    """
    Given requests that wait, when the process is about to leave, then they are answered as they
    stand, and those that come later are, too.
    """
    submitter = a_submitter(ledger)
    waiting = [
        asyncio.ensure_future(submitter.submit(a_request(title=title), WHO, wait_seconds=60))
        for title in "ab"
    ]
    await asyncio.sleep(1)
    submitter.hurry()
    answers = await asyncio.gather(*waiting)
    late = await submitter.submit(a_request(title="c"), WHO, wait_seconds=60)

    assert {Status.PENDING} == {answer.row.status for answer in (*answers, late)}
    assert now() < 1.3
    assert 3 == len(ledger.rows())


@in_virtual_time
async def test_nothing_is_left_of_a_wait(ledger):
    """
    Whether it was answered, cut off or cancelled; a late signal for it is for nobody.
    """
    submitter = a_submitter(ledger)
    await submitter.submit(a_request(title="a"), WHO, wait_seconds=0.1)
    cut = asyncio.ensure_future(submitter.submit(a_request(title="b"), WHO, wait_seconds=9))
    await asyncio.sleep(0.1)
    cut.cancel()
    await asyncio.gather(cut, return_exceptions=True)
    for id in ledger.rows():
        ledger.pubsub.publish([Signal(SignalKind.SETTLED, id)])

    assert {} == submitter._settled
