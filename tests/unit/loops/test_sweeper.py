"""
The sweeper times out overdue responses, a hundred at a time, in the name of its process.
"""

import pytest

from kit.builders import a_policy
from kit.commits import InlineCommits, LossyCommits
from kit.ledger import Ledger
from kit.virtual_time import in_virtual_time
from uns.core.loops.insist import Insistent
from uns.core.loops.sweeper import Sweeper
from uns.ports.vocabulary import Ack, EventKind


@pytest.fixture
def ledger():
    return Ledger(a_policy(require_ack=True, ack_timeout_minutes=15))


def a_sweeper(ledger, commits=None, *, callback=False):
    return Sweeper(commits or InlineCommits(ledger.store), ledger.new_id, callback=callback)


def awaiting(ledger, count):
    return [ledger.deliver(ledger.accept(title=f"alert {n}").id).id for n in range(count)]


@pytest.mark.parametrize(("after", "expected"), [(899.999, 0), (900.0, 1), (900.001, 1)])
@in_virtual_time
async def test_a_response_is_timed_out_at_its_deadline(ledger, after, expected):
    """
    By the store's clock, and not a moment before.
    """
    (id,) = awaiting(ledger, 1)
    ledger.clock.advance(after)

    assert expected == await a_sweeper(ledger).sweep()
    assert (Ack.TIMED_OUT if expected else Ack.PENDING) is ledger.row(id).ack_status


@in_virtual_time
async def test_a_sweep_times_out_a_hundred(ledger):
    """
    What is left is the next sweep's, with ids of its own.
    """
    ids = awaiting(ledger, 150)
    ledger.clock.advance(900)
    sweeper = a_sweeper(ledger)

    assert [100, 50, 0] == [await sweeper.sweep() for _ in range(3)]
    assert 150 == sum(len(ledger.events(id, EventKind.TIMED_OUT)) for id in ids)


@pytest.mark.parametrize("callback", [True, False])
@in_virtual_time
async def test_a_sweeper_wants_its_processs_callback(ledger, callback):
    """
    A process that calls back does so for what it times out.
    """
    (id,) = awaiting(ledger, 1)
    ledger.clock.advance(900)
    await a_sweeper(ledger, callback=callback).sweep()

    assert callback is ledger.events(id, EventKind.TIMED_OUT)[0].callback_pending


@in_virtual_time
async def test_a_lost_answer_loses_no_timeout(ledger):
    """
    Given a sweep whose answer is lost while another hundred is overdue, then every row has its one
    event in the end.
    """
    ids = awaiting(ledger, 150)
    ledger.clock.advance(900)
    lossy = a_sweeper(ledger, Insistent(LossyCommits(ledger.store, 1)))

    assert [100, 50] == [await lossy.sweep() for _ in range(2)]
    assert [1] * 150 == [len(ledger.events(id, EventKind.TIMED_OUT)) for id in ids]
