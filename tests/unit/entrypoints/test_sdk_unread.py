"""
Given a store that takes a request and then does not answer the read of whose obligation it is.
"""

import asyncio

import pytest

from kit.builders import a_policy, a_request, put_in_force
from kit.runtimes import PRINCIPAL
from uns import Runtime, SimpleAdapterRegistry
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sources import ManualClock
from uns.entrypoints.wiring import Options, assemble
from uns.ports.errors import StoreUnavailable


class Unread:
    """
    A store whose reads are refused while it is ``broken``.
    """

    def __init__(self, inner):
        self._inner = inner
        self.broken = False

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def read(self, plan):
        if self.broken:
            raise StoreUnavailable
        return self._inner.read(plan)


@pytest.fixture
def store():
    return Unread(MemoryStore(ManualClock()))


@pytest.fixture
def runtime(store):
    clock = ManualClock()
    ledger = assemble(store, InProcessPubSub(), SimpleAdapterRegistry({}), Options(clock=clock.now))
    put_in_force(store, a_policy(dedup_window_seconds=300))
    with Runtime.over(ledger) as runtime:
        yield runtime


def send(runtime, request):
    return asyncio.run(runtime.send(request, principal=PRINCIPAL))


def accept(runtime, request):
    return runtime.accept(request, principal=PRINCIPAL)


@pytest.mark.parametrize("door", [send, accept])
@pytest.mark.parametrize("known", [False, True], ids=["a follower", "a replay of one"])
def test_what_is_accepted_is_told(runtime, store, door, known):
    """
    Then the caller has its id and state; whose obligation it is stays open.
    """
    accept(runtime, a_request())
    request = a_request(idempotency_key="two")
    first = accept(runtime, request) if known else None
    store.broken = True
    told = door(runtime, request)
    store.broken = False

    assert known is told.idempotent_replay
    assert first is None or first.notification_id == told.notification_id
    assert (None, None, False) == (
        told.obligation_owner_id,
        told.obligation_resolution_status,
        told.ack_inherited,
    )
    assert runtime.get(told.notification_id)["dedup_owner_id"] is not None


@pytest.mark.parametrize("door", [send, accept])
def test_who_owns_itself_needs_no_read(runtime, store, door):
    """
    Then a leader's reply is whole.
    """
    store.broken = True
    told = door(runtime, a_request())

    assert (told.notification_id, "RESOLVED") == (
        told.obligation_owner_id,
        told.obligation_resolution_status,
    )
