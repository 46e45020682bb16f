import json
import time
from base64 import b64encode

import pytest
from standardwebhooks import Webhook

from kit.builders import AGENT
from kit.receiver import answers, hangs, receiving
from uns.adapters.channels.webhook import WebhookChannel
from uns.adapters.egress import Egress, GuardedClient
from uns.adapters.sources import ManualClock, SystemClock
from uns.ports.channel import ChannelMessage, ChannelResult, Content
from uns.ports.errors import Rejected
from uns.ports.requests import AutonomyContext
from uns.ports.vocabulary import AutonomyMode, NotificationIntent

ID = "01a22e67-a6ab-741e-bb52-12cb8fd42749"
TOKEN = f"{ID}:1:WEBHOOK"
SECRET = "whsec_" + b64encode(b"the service's own secret").decode()
OWN = "whsec_" + b64encode(b"a secret of this target.").decode()
NEXT = "whsec_" + b64encode(b"the next of this target.").decode()


def a_content(**fields):
    plain = {
        "id": ID,
        "notification_type": "system.alert",
        "intent": NotificationIntent.OPERATIONAL,
        "title": "disk is filling up",
        "message": "/var is at 91 %",
        "source": "pay",
        "autonomy_context": AutonomyContext(autonomy_mode=AutonomyMode.LIVE, agent_id=AGENT),
        "metadata": {"host": "db1", "uns_resolution": {"policy_id": "ops"}},
    }
    return Content(**(plain | fields))


def a_message(target, **fields):
    plain = {
        "notification": a_content(),
        "target": target,
        "idempotency_token": TOKEN,
        "attempt": 1,
        "deadline": 5.0,
    }
    return ChannelMessage(**(plain | fields))


def a_channel(environ=None, secrets=(), clock=None):
    client = GuardedClient(Egress.parse("127.0.0.1"))
    return WebhookChannel(client, clock or SystemClock(), environ=environ or {}, secrets=secrets)


async def test_what_arrives():
    """
    Given a target, when a notification is sent, then its fields arrive as JSON under ``data``, with
    its type and the number of the attempt, and nothing of how uns came to send it.
    """
    async with receiving() as receiver:
        result = await a_channel().send(a_message({"url": receiver.url("/hook?k=v")}, attempt=3))

    (request,) = receiver.requests
    assert ("POST", "/hook?k=v") == (request.method, request.target)
    assert "application/json" == request.headers["content-type"]
    assert TOKEN == request.headers["idempotency-key"]
    assert {
        "type": "system.alert",
        "attempt": 3,
        "data": {
            "id": ID,
            "notification_type": "system.alert",
            "intent": "OPERATIONAL",
            "title": "disk is filling up",
            "message": "/var is at 91 %",
            "source": "pay",
            "autonomy_context": {
                "autonomy_mode": "LIVE",
                "agent_id": AGENT,
                "plan_id": None,
                "decision_snapshot_id": None,
                "execution_snapshot_id": None,
                "skip_snapshot_id": None,
            },
            "irreversible": False,
            "idempotency_key": None,
            "dedup_key": None,
            "correlation_id": None,
            "delivery_mode": None,
            "require_ack": None,
            "priority": None,
            "metadata": {"host": "db1"},
        },
    } == json.loads(request.body)
    assert ChannelResult(True, message_id=ID, metadata={"http_status": 200}) == result


async def test_two_attempts_differ_in_their_number_only():
    """
    B33: given a second attempt, then the id is the same, the bytes are but for the attempt, and the
    time is that of the attempt.
    """
    clock = ManualClock()
    channel = a_channel(secrets=[SECRET], clock=clock)
    async with receiving() as receiver:
        for attempt in (1, 2):
            await channel.send(a_message({"url": receiver.url()}, attempt=attempt))
            clock.advance(30)

    first, second = receiver.requests
    assert first.body.replace(b'"attempt":1', b'"attempt":2') == second.body
    assert [ID, ID] == [r.headers["webhook-id"] for r in receiver.requests]
    assert 30 == int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"])
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


@pytest.mark.parametrize(
    ("target", "environ", "secrets", "holders"),
    [
        ({}, {}, [SECRET], [SECRET]),
        ({}, {}, [SECRET, NEXT], [SECRET, NEXT]),
        ({"secret_env": "UNS_TARGET_S"}, {"UNS_TARGET_S": OWN}, [], [OWN]),
        ({"secret_env": "UNS_TARGET_S"}, {"UNS_TARGET_S": f" {OWN}\n"}, [SECRET], [OWN]),
        ({"secret_env": "UNS_TARGET_S"}, {"UNS_TARGET_S": f"{OWN}, {NEXT}"}, [SECRET], [OWN, NEXT]),
    ],
)
async def test_the_targets_secret_signs_else_the_services(target, environ, secrets, holders):
    """
    Given secrets of the target or of the service, when a notification is sent, then the library
    verifies it with each of those that count, and there are no other signatures.
    """
    async with receiving() as receiver:
        await a_channel(environ, secrets).send(a_message({"url": receiver.url()} | target))

    (request,) = receiver.requests
    for secret in holders:
        assert Webhook(secret).verify(request.body, request.headers)["type"] == "system.alert"
    assert len(holders) == len(request.headers["webhook-signature"].split(" "))


async def test_without_a_secret_it_is_sent_unsigned():
    """
    No secret anywhere: id and time alone.
    """
    async with receiving() as receiver:
        assert (await a_channel().send(a_message({"url": receiver.url()}))).success

    assert "webhook-signature" not in receiver.requests[0].headers
    assert ID == receiver.requests[0].headers["webhook-id"]


async def test_a_url_may_come_from_a_setting():
    """
    Given a reference to a setting, when a notification is sent, then it goes to the URL in it.
    """
    async with receiving() as receiver:
        channel = a_channel({"UNS_TARGET_U": f"{receiver.url('/from-setting')}\n"})
        await channel.send(a_message({"url_env": "UNS_TARGET_U", "rate": {"per_second": 1, "burst": 1}}))

    assert ["/from-setting"] == [request.target for request in receiver.requests]


@pytest.mark.parametrize("environ", [{}, {"UNS_TARGET_X": ""}, {"UNS_TARGET_X": " \n"}])
@pytest.mark.parametrize("reference", ["url_env", "secret_env"])
async def test_a_setting_that_is_not_set_is_named(reference, environ):
    """
    Given a reference to nothing, when a notification is sent, then it is not, unsigned least of all;
    another attempt may find the setting.
    """
    async with receiving() as receiver:
        target = {"url": receiver.url(), "url_env": None} | {reference: "UNS_TARGET_X"}
        if reference == "url_env":
            target["url"] = None
        result = await a_channel(environ, [SECRET]).send(a_message(target))

    assert [] == receiver.requests
    assert ChannelResult(False, error="UNS_TARGET_X is not set") == result


async def test_a_spoilt_secret_of_a_target_is_named():
    """
    Given a setting that holds no secret, when a notification is sent, then it is not, and the setting
    is named without its value.
    """
    channel = a_channel({"UNS_TARGET_S": "whsec_s3cr3t!"})
    async with receiving() as receiver:
        result = await channel.send(a_message({"url": receiver.url(), "secret_env": "UNS_TARGET_S"}))

    assert [] == receiver.requests
    assert "UNS_TARGET_S: what follows whsec_ must be base64" == result.error


def test_a_spoilt_secret_of_the_service_stops_the_start():
    """
    A wrong signing secret is told when the channel is made.
    """
    with pytest.raises(Rejected, match=r"^UNS_WEBHOOK_SIGNING_SECRET: "):
        a_channel(secrets=["whsec_!"])


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ({}, "targets.WEBHOOK has neither url nor url_env"),
        ({"rate": None}, "targets.WEBHOOK has neither url nor url_env"),
        ({"url": "ftp://s3cr3t"}, "targets.WEBHOOK.url is wrong"),
        ({"url": 5}, "targets.WEBHOOK.url is wrong"),
        ({"url_env": "HOME"}, "targets.WEBHOOK.url_env is wrong"),
        ({"uri": "http://s3cr3t/"}, "targets.WEBHOOK.uri is not a key"),
    ],
)
async def test_a_target_that_is_none_is_told(target, told):
    """
    Given a stored target that is not one, when a notification is sent, then the fault is named, the
    value is not.
    """
    result = await a_channel({"HOME": "http://127.0.0.1/"}).send(a_message(target))

    assert not result.success
    assert told in result.error
    assert "s3cr3t" not in result.error


async def test_an_inner_target_is_refused_for_good():
    """
    B30: given a target inside that nobody admitted, when a notification is sent, then that is
    permanent, and tells the host and nothing else of the URL.
    """
    result = await a_channel().send(a_message({"url": "http://169.254.169.254/latest/s3cr3t?k=v"}))

    assert (False, False) == (result.success, result.retryable)
    assert result.error.startswith("169.254.169.254 leads to an address that is not public")
    assert "latest" not in result.error


@pytest.mark.parametrize(
    ("status", "headers", "retryable", "retry_after"),
    [
        (429, {"Retry-After": "2"}, True, 2.0),
        (429, {"Retry-After": "Fri, 15 Jan 2027 08:00:03 GMT"}, True, 3.0),
        (503, {}, True, None),
        (410, {}, False, None),
        (302, {"Location": "http://127.0.0.1/"}, False, None),
    ],
)
async def test_answers_are_judged_by_the_clock_of_the_service(status, headers, retryable, retry_after):
    """
    B26: given an answer other than success, then the result is what the one classifier makes of it,
    a date measured by the service's own clock.
    """
    async with receiving(answers(status, b"because", headers)) as receiver:
        result = await a_channel(clock=ManualClock()).send(a_message({"url": receiver.url()}))

    assert (False, retryable, retry_after) == (result.success, result.retryable, result.retry_after)
    assert result.message_id is None
    assert {"http_status": status} == result.metadata


async def test_it_ends_within_its_deadline_and_says_how():
    """
    Given a receiver that does not answer, when the deadline comes near, then the channel has ended
    by itself, with a reason.
    """
    async with receiving(hangs()) as receiver:
        begun = time.monotonic()
        result = await a_channel().send(a_message({"url": receiver.url()}, deadline=0.4))
        took = time.monotonic() - begun

    assert 0.3 < took < 2
    assert f"127.0.0.1:{receiver.port} did not answer within 0.38 s" == result.error
    assert result.retryable


async def test_the_whole_text_arrives():
    """
    B28: given the longest title, message and keys that are allowed, in wide characters, when they
    are sent, then they arrive whole and unescaped.
    """
    longest = {
        "title": "題" * 100 + "🔔" * 100,
        "message": "漢" * 32_768 + "🔔" * 32_768,
        "dedup_key": "é" * 255,
        "metadata": {f"k{n}": "<!channel> & \u202e\u2028" for n in range(300)},
    }
    async with receiving() as receiver:
        result = await a_channel(secrets=[SECRET]).send(
            a_message({"url": receiver.url()}, notification=a_content(**longest))
        )

    (request,) = receiver.requests
    assert result.success
    data = Webhook(SECRET).verify(request.body, request.headers)["data"]
    assert longest == {name: data[name] for name in longest}
    assert "漢🔔".encode() in request.body
