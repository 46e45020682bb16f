"""
Every pub/sub there is, and what carries signals between processes.
"""

from contextlib import closing

import pytest

from kit.carriers import CARRIERS, Heard, opened
from uns.adapters.memory.pubsub import InProcessPubSub


@pytest.fixture(scope="module", params=CARRIERS.values(), ids=CARRIERS)
def carrier(request):
    """
    Redis, and PostgreSQL: a server, or a database, for each module.
    """
    with request.param() as carrier:
        yield carrier


@pytest.fixture
def open_pubsub(carrier):
    """
    Opens a pub/sub over the carrier, as another process would.
    """
    with opened(carrier) as open_pubsub:
        yield open_pubsub


@pytest.fixture(params=["in-process", *CARRIERS])
def pubsub(request):
    """
    One that has nothing to tell of its own accord any more.
    """
    if request.param == "in-process":
        with closing(InProcessPubSub()) as pubsub:
            yield pubsub
        return
    with CARRIERS[request.param]() as carrier, closing(carrier.pubsub()) as pubsub:
        Heard(pubsub)
        yield pubsub
