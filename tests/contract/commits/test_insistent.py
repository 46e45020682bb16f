"""
Unknown outcomes: the same plan again until the store answers, or its caller's patience ends.
"""

import asyncio

import pytest

from kit.builders import NOW, a_policy, a_request, an_acceptance, put_in_force
from kit.commits import InlineCommits
from kit.plans import applied, got, put
from kit.rows import a_window
from kit.stores import everything
from kit.virtual_time import in_virtual_time
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sources import ManualClock
from uns.core.loops.insist import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PATIENCE_SECONDS, Insistent
from uns.core.plans import intake
from uns.ports.decision import Decision
from uns.ports.errors import Busy, Closed, Conflict, SchemaMismatch, StoreRefused, StoreUnavailable
from uns.ports.rows import DedupWindow

FOREVER = 10_000


class Unsteady(InlineCommits):
    """
    Commits whose first ``times`` answers are ``error``: the plan was not begun, or it was committed.
    """

    def __init__(self, store, error, times, *, committed=False, answer_seconds=0.0):
        super().__init__(store, answer_seconds=answer_seconds)
        self.plans, self.at = [], []
        self._error, self._left, self._committed = error, times, committed

    async def run(self, plan):
        self.plans.append(plan)
        self.at.append(asyncio.get_running_loop().time())
        lost, self._left = self._left > 0, self._left - 1
        if lost and not self._committed:
            await asyncio.sleep(self.answer_seconds)
            raise self._error
        reply = await super().run(plan)
        if lost:
            raise self._error
        return reply

    @property
    def pauses(self):
        return [later - sooner for sooner, later in zip(self.at, self.at[1:], strict=False)]


@pytest.fixture
def store():
    return MemoryStore(ManualClock(NOW))


@in_virtual_time
async def test_a_plan_that_is_answered_is_run_once(store):
    """
    When the store answers, then the plan was handed in once, and no time has passed.
    """
    commits = Unsteady(store, StoreUnavailable(), 0)

    assert await Insistent(commits).run(applied(Decision("reply"))) == "reply"
    assert [0.0] == commits.at


@pytest.mark.parametrize("committed", [False, True], ids=["not begun", "committed"])
@in_virtual_time
async def test_the_same_plan_is_run_until_the_store_answers(store, committed):
    """
    Given a store whose first four answers are lost, when a request is accepted, then the very same
    plan is run five times, its caller has the acceptance, and it was accepted once.
    """
    resolver = put_in_force(store, a_policy())
    commits = Unsteady(store, StoreUnavailable(), 4, committed=committed)
    plan = intake.accept(an_acceptance(a_request()), resolver)

    taken = await Insistent(commits).run(plan)

    assert [id(plan)] * 5 == [id(each) for each in commits.plans]
    assert [taken.accepted.row] == everything(store)["Notification"]
    assert not taken.accepted.replayed


@in_virtual_time
async def test_pauses_double_up_to_the_longest(store):
    """
    Given a store that does not answer, then the pauses between the runs double, up to a second.
    """
    commits = Unsteady(store, StoreUnavailable(), 8)
    await Insistent(commits).run(applied(Decision(None)))

    assert [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0] == pytest.approx(commits.pauses)
    assert (0.05, 1.0) == (FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)


@in_virtual_time
async def test_patience_ends(store):
    """
    Given a store that never answers, then its caller hears so before ten seconds are over, and the
    plan was run as long as there was time.
    """
    error = StoreUnavailable("gone")
    commits = Unsteady(store, error, FOREVER)

    with pytest.raises(StoreUnavailable) as caught:
        await Insistent(commits).run(applied(Decision(None)))

    assert caught.value is error
    assert PATIENCE_SECONDS - LONGEST_PAUSE_SECONDS <= commits.at[-1] < PATIENCE_SECONDS
    assert commits.at[-1] == asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("patience", "runs"), [(0.0, 1), (0.05, 1), (0.0501, 2), (0.15, 2), (0.1501, 3)], ids=str
)
@in_virtual_time
async def test_the_last_run_begins_before_patience_ends(store, patience, runs):
    """
    A run begins only before the patience is over: not at that instant.
    """
    commits = Unsteady(store, StoreUnavailable(), FOREVER)

    with pytest.raises(StoreUnavailable):
        await Insistent(commits, patience_seconds=patience).run(applied(Decision(None)))

    assert runs == len(commits.plans)


@in_virtual_time
async def test_time_in_the_queue_counts(store):
    """
    Given answers that take three seconds to be lost, then these use up the patience too.
    """
    commits = Unsteady(store, StoreUnavailable(), FOREVER, answer_seconds=3.0)

    with pytest.raises(StoreUnavailable):
        await Insistent(commits).run(applied(Decision(None)))

    assert [0.0, 3.05, 6.15, 9.35] == pytest.approx(commits.at)


@pytest.mark.parametrize(
    "error",
    [Busy(), Closed(), Conflict("no"), StoreRefused(), SchemaMismatch(), ValueError("v")],
    ids=lambda error: type(error).__name__,
)
@in_virtual_time
async def test_what_is_known_is_not_tried_again(store, error):
    """
    When nothing was begun, or the plan itself failed, then its caller hears so at once.
    """
    commits = Unsteady(store, error, FOREVER)

    with pytest.raises(type(error)) as caught:
        await Insistent(commits).run(applied(Decision(None)))

    assert caught.value is error
    assert 1 == len(commits.plans)


@in_virtual_time
async def test_an_unknown_outcome_may_end_in_a_refusal(store):
    """
    Given a lost answer, when the second run is refused for good, then that is what its caller hears.
    """
    commits = Unsteady(store, StoreUnavailable(), 1)
    store.close()

    with pytest.raises(Closed):
        await Insistent(commits).run(applied(Decision(None)))

    assert 2 == len(commits.plans)


@in_virtual_time
async def test_a_cancelled_caller_is_insistent_no_more(store):
    """
    Given a caller between two runs, when it is cancelled, then the plan is not run again.
    """
    commits = Unsteady(store, StoreUnavailable(), FOREVER)
    caller = asyncio.create_task(Insistent(commits).run(applied(Decision(None))))
    await asyncio.sleep(0.06)
    caller.cancel()
    await asyncio.sleep(60)

    assert caller.cancelled()
    assert 2 == len(commits.plans)


@in_virtual_time
async def test_reading_is_handed_on(store):
    """
    A read goes to the commits as it is: it has no outcome that could be unknown.
    """
    store.transact(put(a_window("w")))

    assert await Insistent(InlineCommits(store)).read(got(DedupWindow, "w")) == a_window("w")
    store.close()
    with pytest.raises(Closed):
        await Insistent(InlineCommits(store)).read(got(DedupWindow, "w"))
