"""
The writer queue over every store, sharing commits and not; and one over a store with a gate.
"""

from itertools import product

import pytest

from kit.builders import NOW
from kit.gates import GatedStore
from kit.stores import STORES, open_store
from uns.adapters.group_commit import MAX_GROUP, GroupCommit
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sources import ManualClock

WAYS = [f"{kind}-{way}" for kind, way in product(STORES, ("direct", "grouped"))]


@pytest.fixture(params=WAYS)
def commits(request, tmp_path):
    """
    A queue over a fresh store: one plan a commit, or as many as wait.
    """
    kind, _, way = request.param.rpartition("-")
    with open_store(kind, ManualClock(NOW), tmp_path) as store:
        queue = GroupCommit(store, max_group=1 if way == "direct" else MAX_GROUP)
        yield queue
        queue.close()


@pytest.fixture
def gate():
    return GatedStore(MemoryStore(ManualClock(NOW)))


@pytest.fixture
def queue_over(gate):
    """
    Makes queues over the gated store; what they still hold at the end is let through.
    """
    queues = []

    def make(**options):
        queues.append(GroupCommit(gate, **options))
        return queues[-1]

    yield make
    gate.let(1000)
    for queue in queues:
        queue.close()
