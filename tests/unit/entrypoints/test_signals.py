"""
``SignalClient``: policy resolution and a handler of one's own.
"""

import asyncio

import pytest

from kit.builders import a_policy, a_request
from uns import ChannelResult, Rejected, SignalClient
from uns.ports.errors import NoPolicy
from uns.ports.policy import ChannelPlan
from uns.ports.vocabulary import DeliveryMode, NotificationIntent

POLICY = a_policy(channels=ChannelPlan(primary=("SLACK",), fallback=("LOG",)), require_ack=True)


def send(client, **fields):
    return asyncio.run(client.send(a_request(**fields)))


def test_without_a_handler_nobody_was_told():
    """
    Given no handler, when a request is sent, then the result is PENDING, which is no success.
    """
    sent = send(SignalClient())

    assert ("PENDING", (), ()) == (sent.status, sent.channels_attempted, sent.channels_succeeded)
    assert sent.obligation_owner_id is None
    assert "nobody was told" in sent.message


RESULTS = [
    (ChannelResult(True, message_id="m"), "DELIVERED", ("SLACK", "LOG"), (), "delivered"),
    (ChannelResult(False, error="no such room"), "FAILED", (), ("SLACK", "LOG"), "no such room"),
    (ChannelResult(False), "FAILED", (), ("SLACK", "LOG"), "failed"),
]


@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize(("result", "status", "succeeded", "failed", "message"), RESULTS)
def test_the_handlers_word_counts(style, result, status, succeeded, failed, message):
    """
    Given a handler, sync or async, when a request is sent, then the reply is what it said.
    """

    def handler(request, resolved):
        return result

    async def later(request, resolved):
        return result

    sent = send(SignalClient(handler if style == "sync" else later, policies=[POLICY]))

    assert (status, succeeded, failed) == (sent.status, sent.channels_succeeded, sent.channels_failed)
    assert (message, True) == (sent.message, sent.require_ack)


def test_the_handler_is_given_the_request_and_what_it_came_to():
    """
    A handler sees the request and the settings that its policy resolved to.
    """
    given = []
    request = a_request()
    client = SignalClient(lambda *told: given.append(told) or ChannelResult(True), policies=[POLICY])
    asyncio.run(client.send(request))

    ((seen, resolved),) = given
    assert request is seen
    assert ("ops-alerts", ("SLACK", "LOG")) == (resolved.policy_id, resolved.effective.all_channels)


def test_it_resolves_by_the_packaged_policies():
    """
    Without policies of its own it knows the packaged ones: ``ask.*`` needs an answer.
    """
    client = SignalClient(lambda request, resolved: ChannelResult(True))
    plain, ask = send(client), send(client, notification_type="ask.approval")

    assert (False, True) == (plain.require_ack, ask.require_ack)
    assert ("LOG",) == plain.channels_attempted


def test_a_request_without_a_policy_is_refused_before_the_handler():
    """
    Given no policy for a type, or one that forbids what is asked, when a request is sent, then it
    is refused and the handler never hears of it.
    """
    heard = []
    narrow = a_policy(notification_type="system.alert", intent=NotificationIntent.SAFETY)
    client = SignalClient(lambda *told: heard.append(told), policies=[narrow])
    with pytest.raises(NoPolicy):
        send(client, notification_type="other")
    with pytest.raises(Rejected, match=r"^intent must be SAFETY"):
        send(client)
    with pytest.raises(Rejected, match=r"^delivery_mode must be GUARANTEED"):
        send(client, intent="SAFETY", delivery_mode=DeliveryMode.BEST_EFFORT)

    assert [] == heard


def test_nothing_is_kept():
    """
    Given one request twice, when both are sent, then the handler is called twice: there is no ledger.
    """
    heard = []
    client = SignalClient(lambda *told: heard.append(told) or ChannelResult(True))
    first, second = (send(client, idempotency_key="k") for _ in range(2))

    assert 2 == len(heard)
    assert first.notification_id != second.notification_id
    assert not second.idempotent_replay


def test_what_the_handler_raises_is_the_callers():
    """
    Given a handler that raises, when a request is sent, then its error comes through as it is.
    """

    def handler(request, resolved):
        raise LookupError("no room")

    with pytest.raises(LookupError, match="no room"):
        send(SignalClient(handler))
