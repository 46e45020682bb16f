"""
B46: a process whose listener's connection died goes by what the database says, and comes back.
"""

import asyncio
from contextlib import ExitStack, asynccontextmanager

import pytest

from kit.builders import a_request
from kit.carriers import Heard, redis_carrier
from kit.channels import ScriptedChannel
from kit.runtimes import PRINCIPAL, a_document
from kit.waiting import until
from uns import Runtime, SimpleAdapterRegistry
from uns.core.loops.worker import Pace, Worker
from uns.entrypoints.broadcast import Broadcast
from uns.entrypoints.wiring import Options, open_ledger

NEVER = 3600.0


@pytest.fixture
def carrier():
    with redis_carrier() as carrier:
        yield carrier


@pytest.fixture
def open_peer(url, carrier):
    """
    Opens runtimes on one database that hear each other through Redis, as processes would.
    """
    with ExitStack() as opened:

        def open_peer():
            channels = SimpleAdapterRegistry({"PAGER": ScriptedChannel()})
            options = Options(broadcast=Broadcast(redis_url=carrier.url))
            return opened.enter_context(Runtime.over(open_ledger(url, channels, options), channels))

        yield open_peer


@pytest.mark.parametrize("broken", ["cut", "stopped"])
def test_policies_in_a_deaf_process(open_peer, in_force, carrier, broken):
    """
    B46: given a process that is deaf while another one puts policies in force, when it accepts, then
    by these; and once it hears again it is told to look.
    """
    ann, bob = open_peer(), open_peer()
    in_force(ann, a_document("old"))
    heard = Heard(bob._ledger.pubsub)
    carrier.server.stop() if broken == "stopped" else carrier.cut()
    in_force(ann, a_document("new"))
    sent = bob.accept(a_request(), principal=PRINCIPAL)

    assert "new" == bob.get(sent.notification_id)["policy_id"]
    if broken == "stopped":
        carrier.server.start()
    heard.looks_again()


@pytest.mark.parametrize("payload", ["reload!", '{"version":9,"revision":3}', '{"revision":1}'])
def test_what_anybody_says_of_policies_changes_none(open_peer, in_force, carrier, payload):
    """
    B46: given garbage, an unknown version, or an older revision on the channel of reloads, then the
    policies in force stay in force.
    """
    ann, bob = open_peer(), open_peer()
    in_force(ann, a_document("old"))
    in_force(ann, a_document("new"))
    Heard(bob._ledger.pubsub)
    carrier.shout(carrier.reload_channel, payload)
    sent = bob.accept(a_request(), principal=PRINCIPAL)

    assert "new" == bob.get(sent.notification_id)["policy_id"]


@asynccontextmanager
async def working(runtime):
    """
    The runtime's worker, which looks only when it is told to.
    """
    ledger, stop = runtime._ledger, asyncio.Event()
    pace = Pace(poll_seconds=NEVER)
    task = asyncio.ensure_future(
        Worker(ledger.dispatcher, ledger.sweeper, ledger.courier, ledger.pubsub, pace).run(stop)
    )
    try:
        yield
    finally:
        stop.set()
        await task


async def test_a_worker_elsewhere_is_woken(open_peer, in_force, carrier):
    """
    Given a worker that never looks of its own accord, then what another process accepts is sent at
    once; and what was accepted while Redis was down is sent when it is back.
    """
    ann, bob = open_peer(), open_peer()
    in_force(ann, a_document())

    def accept():
        return ann.accept(a_request(), principal=PRINCIPAL).notification_id

    def delivered(id):
        return "DELIVERED" == ann.get(id)["status"]

    # Only who listens before the first connection hears of it: ann's stands, as she has published.
    await asyncio.to_thread(Heard, bob._ledger.pubsub)
    async with working(bob):
        for _ in range(2):  # the second finds a worker that has nothing left to do
            accepted = accept()
            await until(lambda id=accepted: delivered(id))
        await asyncio.to_thread(carrier.server.stop)  # what was on its way is through
        second = accept()
        await asyncio.sleep(0.2)

        assert not delivered(second)
        carrier.server.start()
        await until(lambda: delivered(second))
