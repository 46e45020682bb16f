"""
``Client``: one principal's face of a runtime.
"""

import asyncio
from uuid import UUID

import pytest

from kit.builders import a_request
from kit.channels import ScriptedChannel
from kit.runtimes import PRINCIPAL, a_document
from uns import Client, Conflict, NotFound, Rejected
from uns.ports.errors import Closed
from uns.responses import Projection, SendNotificationResponse, SimulationResponse


@pytest.fixture
def client(runtime):
    return Client(runtime, principal=PRINCIPAL)


async def test_it_sends_as_its_principal(client, runtime, channel):
    """
    Given a client, when it sends, then the notification is its principal's and was attempted.
    """
    sent = await client.send(a_request())

    assert type(sent) is SendNotificationResponse
    assert ("DELIVERED", PRINCIPAL) == (sent.status, runtime.get(sent.notification_id)["principal"])
    assert 1 == len(channel.calls)


async def test_a_failed_attempt_is_recovered_by_a_worker(open_runtime, in_force, clock):
    """
    Given a first attempt that failed, when a worker comes round after the backoff, then it is sent.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(False, True)})
    in_force(runtime, a_document())
    sent = await Client(runtime, principal=PRINCIPAL).send(a_request())
    assert "PENDING" == sent.status
    clock.advance(2)
    await runtime.run_once()

    assert "DELIVERED" == runtime.get(sent.notification_id)["status"]


async def test_it_simulates_without_effects(client, channel):
    """
    Simulating tells what a request would resolve to; nothing is stored or sent.
    """
    simulated = await client.simulate(a_request(idempotency_key="k"))

    assert type(simulated) is SimulationResponse
    assert ("ops", ("PAGER",), False) == (simulated.policy_id, simulated.channels, simulated.delivered)
    assert [] == channel.calls
    assert not (await client.send(a_request(idempotency_key="k"))).idempotent_replay


async def test_it_waits(client, runtime, in_force):
    """
    Given an answer, when a client waits for it, then it gets the response view.
    """
    in_force(runtime, a_document(require_ack=True))
    sent = await client.send(a_request())
    as_it_stands = await client.wait(str(sent.notification_id), timeout=0)
    runtime.acknowledge(sent.notification_id, actor="ann")
    answered = await client.wait(sent.notification_id)

    assert (Projection, "PENDING") == (type(as_it_stands), as_it_stands.effective_ack_status)
    assert "ACKED" == answered.effective_ack_status


def test_idempotency_is_each_principals_own(runtime, client):
    """
    Given two principals, when both use one key, then they are two requests.
    """
    mine, theirs = (
        asyncio.run(each.send(a_request(idempotency_key="k")))
        for each in (client, Client(runtime, principal="agent-8"))
    )

    assert mine.notification_id != theirs.notification_id
    assert asyncio.run(client.send(a_request(idempotency_key="k"))).idempotent_replay
    with pytest.raises(Conflict):
        asyncio.run(client.send(a_request(idempotency_key="k", title="another")))


@pytest.mark.parametrize("principal", [None, 7, b"agent", "", " ", "\t", "a\nb", "a" * 256, "\ud83d"])
def test_a_client_needs_a_principal(principal, runtime):
    """
    A principal is one line of 1 to 255 characters that is not blank.
    """
    with pytest.raises(ValueError, match=r"^principal ") as refused:
        Client(runtime, principal=principal)

    assert ("validation_error", "principal") == (refused.value.code, refused.value.path)


@pytest.mark.parametrize("principal", ["a", "a" * 255, "agent 7", "Ägent"])
def test_a_principal_may_be_any_name(principal, runtime):
    """
    Names of one to 255 characters pass, and are kept as they are.
    """
    sent = asyncio.run(Client(runtime, principal=principal).send(a_request()))

    assert principal == runtime.get(sent.notification_id)["principal"]


async def test_errors_are_the_runtimes(client, runtime):
    """
    What the runtime refuses, the client refuses in the same way.
    """
    with pytest.raises(NotFound):
        await client.wait(UUID(int=7))
    with pytest.raises(Rejected, match="only the service itself"):
        await client.send(a_request(notification_type="uns.alert"))
    with pytest.raises(Rejected):
        await client.simulate(a_request(notification_type="uns.alert"))
    runtime.close()
    for face in (client.send, client.simulate):
        with pytest.raises(Closed):
            await face(a_request())
