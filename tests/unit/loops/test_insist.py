"""
Unknown outcomes: what a caller hears when a later try finds too much work waiting.

That the same plan is run again, at which pace and how long: ``tests/contract/commits``.
"""

import asyncio

import pytest

from kit.ledger import Ledger
from kit.virtual_time import in_virtual_time
from uns.core.loops.insist import Insistent
from uns.ports.errors import Busy, StoreUnavailable
from uns.ports.store import Plan

PLAN = Plan(lambda tx: "done")


class Scripted:
    """
    Commits that fail with each of ``errors`` in turn, and then answer.
    """

    def __init__(self, *errors):
        self.plans, self.times = [], []
        self._errors = list(errors)

    async def run(self, plan):
        self.plans.append(plan)
        self.times.append(round(asyncio.get_running_loop().time(), 6))
        if self._errors:
            raise self._errors.pop(0)
        return "done"


@in_virtual_time
async def test_once_unknown_busy_is_no_answer():
    """
    Given a first try whose outcome is unknown, when a later one finds too much work waiting, then
    the plan is run again: "nothing was begun" would not be true.
    """
    commits = Scripted(StoreUnavailable(), Busy(), Busy())

    assert "done" == await Insistent(commits).run(PLAN)
    assert 4 == len(commits.plans)


@in_virtual_time
async def test_once_unknown_it_stays_unknown():
    """
    When its time is up the caller hears that the outcome is unknown, not that nothing was begun.
    """
    commits = Scripted(StoreUnavailable("lost"), *[Busy() for _ in range(99)])
    with pytest.raises(StoreUnavailable, match="lost") as unknown:
        await Insistent(commits).run(PLAN)

    assert "store_unavailable" == unknown.value.code
    assert 9.55 == commits.times[-1]


@in_virtual_time
async def test_an_unknown_outcome_does_not_stop_the_event_loop():
    """
    Others work while one insists.
    """
    ledger, commits = Ledger(), Scripted(*[StoreUnavailable() for _ in range(4)])
    task = asyncio.ensure_future(Insistent(commits).run(PLAN))
    await asyncio.sleep(0.5)

    assert (4, False) == (len(commits.plans), task.done())
    assert ledger.accept().leads
    assert "done" == await task
