"""
Waiting for an answer: until the canonical owner's response is final, or the time is up.
"""

import asyncio

import pytest

from kit.builders import a_policy
from kit.commits import InlineCommits
from kit.ledger import Ledger
from kit.virtual_time import in_virtual_time
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.core.loops.waiter import wait_for_answer
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import Closed, NotFound, StoreUnavailable
from uns.ports.vocabulary import Ack, Resolution

UNKNOWN = "0000ffff-0000-7000-8000-000000000000"


@pytest.fixture
def ledger():
    return Ledger(a_policy(require_ack=True, ack_timeout_minutes=15))


def waiting(ledger, id, seconds=None, pubsub=None):
    commits = InlineCommits(ledger.store)
    return asyncio.ensure_future(wait_for_answer(id, commits, pubsub or ledger.pubsub, seconds))


def awaiting(ledger):
    return ledger.deliver(ledger.accept().id).id


def loop_time():
    return asyncio.get_running_loop().time()


class Blinking(InlineCommits):
    """
    Commits that refuse each read but the first, until they are whole again.
    """

    def __init__(self, store, error):
        super().__init__(store)
        self.error = error
        self.reads = 0

    async def read(self, plan):
        self.reads += 1
        if self.error is not None and self.reads > 1:
            raise self.error
        return await super().read(plan)


@in_virtual_time
async def test_a_store_that_is_away_for_a_while_ends_no_wait(ledger):
    """
    Given a store that does not answer while somebody waits, when it is back, then the answer is found.
    """
    id = awaiting(ledger)
    commits = Blinking(ledger.store, StoreUnavailable())
    task = asyncio.ensure_future(wait_for_answer(id, commits, InProcessPubSub(), 60.0))
    await asyncio.sleep(5.5)
    ledger.respond(id)
    commits.error = None

    assert Ack.ACKED is (await task).effective_ack_status
    assert 6.0 == loop_time()


@in_virtual_time
async def test_a_store_that_stays_away_does_not_outlast_the_time(ledger):
    """
    Then the wait ends in time, with what was read last.
    """
    id = awaiting(ledger)
    commits = Blinking(ledger.store, StoreUnavailable())

    assert Ack.PENDING is (await wait_for_answer(id, commits, ledger.pubsub, 5.5)).effective_ack_status
    assert 5.5 == loop_time()


@in_virtual_time
async def test_a_closed_store_ends_the_wait(ledger):
    """
    No later look can go through either.
    """
    with pytest.raises(Closed):
        await wait_for_answer(awaiting(ledger), Blinking(ledger.store, Closed()), ledger.pubsub, 60.0)


@pytest.mark.parametrize("to", [Ack.ACKED, Ack.DISMISSED])
@in_virtual_time
async def test_what_is_answered_returns_at_once(ledger, to):
    """
    An answer on record is final.
    """
    id = awaiting(ledger)
    ledger.respond(id, to=to)

    assert to is (await waiting(ledger, id)).effective_ack_status
    assert 0.0 == loop_time()


@in_virtual_time
async def test_an_answer_here_ends_the_wait_at_once(ledger):
    """
    A signal of this process shortens the wait to nothing.
    """
    id = awaiting(ledger)
    task = waiting(ledger, id)
    await asyncio.sleep(5.3)
    ledger.respond(id)

    assert Ack.ACKED is (await task).effective_ack_status
    assert 5.3 == loop_time()


@in_virtual_time
async def test_an_answer_elsewhere_is_found_within_a_second(ledger):
    """
    Without a signal the waiter looks once a second.
    """
    id = awaiting(ledger)
    task = waiting(ledger, id, pubsub=InProcessPubSub())
    await asyncio.sleep(5.3)
    ledger.respond(id)

    assert Ack.ACKED is (await task).effective_ack_status
    assert 6.0 == loop_time()


@pytest.mark.parametrize("kind", [SignalKind.ANSWERED, SignalKind.SETTLED])
@in_virtual_time
async def test_a_hint_has_it_look(ledger, kind):
    """
    Given a signal without a subject, as after a time in which none came through, then an answer that
    was given elsewhere is found at once.
    """
    id, pubsub = awaiting(ledger), InProcessPubSub()
    task = waiting(ledger, id, pubsub=pubsub)
    await asyncio.sleep(5.3)
    ledger.respond(id)
    pubsub.publish([Signal(kind, "")])

    assert Ack.ACKED is (await task).effective_ack_status
    assert 5.3 == loop_time()


@in_virtual_time
async def test_a_timeout_of_the_obligation_ends_the_wait(ledger):
    """
    TIMED_OUT is an answer too: that none came.
    """
    id = awaiting(ledger)
    task = waiting(ledger, id)
    await asyncio.sleep(900)
    ledger.expire()

    assert Ack.TIMED_OUT is (await task).effective_ack_status


@pytest.mark.parametrize("seconds", [0, 0.4, 2.5])
@in_virtual_time
async def test_when_its_time_is_up_it_returns_what_stands(ledger, seconds):
    """
    The projection as it is then; other signals on the way do not end the wait.
    """
    id = awaiting(ledger)
    task = waiting(ledger, id, seconds)
    await asyncio.sleep(0)
    ledger.deliver(ledger.accept(title="another").id)

    assert Ack.PENDING is (await task).effective_ack_status
    assert seconds == loop_time()


@in_virtual_time
async def test_a_time_that_is_up_already(ledger):
    """
    A negative wait is none.
    """
    assert Ack.PENDING is (await waiting(ledger, awaiting(ledger), -1)).effective_ack_status
    assert 0.0 == loop_time()


@in_virtual_time
async def test_a_follower_waits_for_its_owners_answer(ledger):
    """
    Through hand-off, delivery and answer of the row that owns the obligation by then.
    """
    owner, heir, follower = (ledger.accept().id for _ in range(3))
    task = waiting(ledger, follower)
    for step in (lambda: ledger.fail(owner), lambda: ledger.deliver(heir), lambda: ledger.respond(heir)):
        await asyncio.sleep(1)
        assert not task.done()
        step()
    projection = await task

    assert (heir, Ack.ACKED, True) == (
        str(projection.obligation_owner_id),
        projection.effective_ack_status,
        projection.ack_inherited,
    )


@in_virtual_time
async def test_what_nobody_will_answer_returns_at_once():
    """
    Delivered without a question, or ended without a dead letter: no answer can come.
    """
    quiet = Ledger()
    delivered = quiet.deliver(quiet.accept().id).id
    withdrawn = quiet.withdraw(quiet.accept(title="another").id).id

    for id in (delivered, withdrawn):
        assert None is (await waiting(quiet, id)).effective_ack_status
    assert 0.0 == loop_time()


@in_virtual_time
async def test_a_dead_letter_is_waited_for(ledger):
    """
    An operator may replay it.
    """
    id = ledger.fail(ledger.accept().id).id
    task = waiting(ledger, id)
    await asyncio.sleep(100)
    assert not task.done()
    ledger.replay(id)
    ledger.deliver(id)
    ledger.respond(id)

    assert Ack.ACKED is (await task).effective_ack_status


@in_virtual_time
async def test_a_withdrawal_ends_the_wait(ledger):
    """
    Of the owner, for all who wait for it.
    """
    owner, follower = ledger.accept().id, ledger.accept().id
    tasks = [waiting(ledger, id) for id in (owner, follower)]
    await asyncio.sleep(5.3)
    ledger.withdraw(owner)

    assert [Resolution.RESOLVED] * 2 == [(await task).obligation_resolution_status for task in tasks]
    assert 5.3 == loop_time()


@in_virtual_time
async def test_an_unknown_id(ledger):
    """
    There is nothing to wait for.
    """
    with pytest.raises(NotFound):
        await waiting(ledger, UNKNOWN)

    assert 0 == ledger.pubsub.listeners


@in_virtual_time
async def test_a_waiter_that_left_listens_no_more(ledger):
    """
    Whether it has its answer, ran out of time or was cancelled.
    """
    id = awaiting(ledger)
    task = waiting(ledger, id)
    await waiting(ledger, id, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ledger.respond(id)
    await waiting(ledger, id)

    assert 0 == ledger.pubsub.listeners
