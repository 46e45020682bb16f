"""
Every pub/sub there is.
"""

import pytest

from uns.adapters.memory.pubsub import InProcessPubSub

ADAPTERS = {"in-process": InProcessPubSub}


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS)
def pubsub(request):
    return request.param()
