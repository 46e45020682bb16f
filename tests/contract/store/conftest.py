"""
Every store, and two ways of committing to each: alone and grouped. The lock order is watched.
"""

from itertools import product

import pytest

from kit.builders import NOW
from kit.ordered_tx import OrderedStore
from kit.plans import Commit
from kit.stores import STORES, open_store
from uns.adapters.sources import ManualClock

WAYS = [f"{kind}-{way}" for kind, way in product(STORES, ("direct", "grouped"))]


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def signals():
    """
    What the store has published, in order.
    """
    return []


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@pytest.fixture
def store(way, clock, signals, tmp_path):
    """
    A fresh store; its plans are watched (see ``kit.ordered_tx``).
    """
    kind, _, _ = way.rpartition("-")
    with open_store(kind, clock, tmp_path, signals.extend) as opened:
        yield OrderedStore(opened)


@pytest.fixture
def run(store, way):
    """
    Commits plans: one transaction each, or all of them in one.
    """
    return Commit(store, grouped=way.endswith("grouped"))


@pytest.fixture
def unwatched(store, run):
    """
    ``run`` for plans that are wrong on purpose.
    """
    return Commit(store.inner, grouped=run.grouped)
