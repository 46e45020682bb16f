import json
import time
from base64 import b64encode

import pytest
from standardwebhooks import Webhook

from kit.builders import NOW
from kit.receiver import Names, answers, hangs, receiving, resets
from uns.adapters import callback_http
from uns.adapters.callback_http import CallbackFailed, HttpCallback
from uns.adapters.egress import Egress, GuardedClient
from uns.adapters.sources import ManualClock, SystemClock
from uns.core.loops.courier import CALLBACK_SECONDS
from uns.core.rules import signature
from uns.ports.errors import Rejected

SECRET = "whsec_" + b64encode(b"the secret of callbacks.").decode()
NEXT = "the next secret of callbacks"
EVENT = {
    "id": "01a22e67-a6ab-741e-bb52-12cb8fd42749",
    "notification_id": "01a22e67-a6ab-741e-bb52-000000000001",
    "kind": "ACKED",
    "at": NOW + 0.5,
    "payload": {"actor": "key:ann", "metadata": {"why": "é"}},
    "attempt": 1,
}


def a_callback(url, secrets=(SECRET,), clock=None, client=None):
    client = client or GuardedClient(Egress.parse("127.0.0.1"))
    return HttpCallback(client, clock or SystemClock(), url, secrets=secrets, sign=signature.sign)


async def test_the_event_arrives_as_json():
    """
    Given an event, when it is delivered, then the receiver gets it as it is.
    """
    async with receiving(answers(204)) as receiver:
        assert await a_callback(receiver.url("/answers?k=v"))(EVENT) is None

    (request,) = receiver.requests
    assert ("POST", "/answers?k=v") == (request.method, request.target)
    assert "application/json" == request.headers["content-type"]
    assert EVENT == json.loads(request.body)


@pytest.mark.parametrize("secrets", [(SECRET,), (NEXT,), (SECRET, NEXT)])
async def test_both_kinds_of_signature_verify(secrets):
    """
    Given one secret, or two while they rotate, when an event is delivered, then the library and the
    service's own rule accept it with each of them.
    """
    async with receiving() as receiver:
        await a_callback(receiver.url(), secrets)(EVENT)

    (request,) = receiver.requests
    for secret in secrets:
        key = secret if secret.startswith("whsec_") else secret.encode()
        assert EVENT == Webhook(key).verify(request.body, request.headers)
        assert signature.verify(request.body, request.headers, (secret,), time.time())
    assert not signature.verify(request.body, request.headers, ("another",), time.time())


async def test_attempts_share_the_id_and_sign_anew():
    """
    B33: given a second attempt, then its id is the event's as before, its body differs in the number
    of the attempt alone, and its times and signatures are its own.
    """
    clock = ManualClock()
    async with receiving(answers(500), answers(200)) as receiver:
        callback = a_callback(receiver.url(), clock=clock)
        with pytest.raises(CallbackFailed):
            await callback(EVENT)
        clock.advance(2)
        await callback(EVENT | {"attempt": 2})

    first, second = receiver.requests
    assert [EVENT["id"]] * 2 == [request.headers["webhook-id"] for request in receiver.requests]
    assert first.body.replace(b'"attempt":1', b'"attempt":2') == second.body
    for name in ("webhook-timestamp", "x-uns-timestamp"):
        assert [str(int(NOW)), str(int(NOW + 2))] == [r.headers[name] for r in receiver.requests]
    for name in ("webhook-signature", "x-uns-signature"):
        assert first.headers[name] != second.headers[name]


async def test_without_a_secret_it_is_sent_unsigned():
    """
    No secret: the id and the time of Standard Webhooks, and no signature of any kind.
    """
    async with receiving() as receiver:
        await a_callback(receiver.url(), ())(EVENT)

    names = set(receiver.requests[0].headers)
    assert {"webhook-id", "webhook-timestamp"} <= names
    assert set() == names & {"webhook-signature", "x-uns-signature", "x-uns-timestamp"}


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (answers(500, b"down"), "answered 500 Internal Server Error: down"),
        (answers(404, b"no /a/s3cr3t"), "answered 404 Not Found: no ..."),
        (answers(429), "answered 429 Too Many Requests"),
        (answers(302, b"", {"Location": "/"}), "answered 302 Found: redirects are not followed"),
        (resets(), "broke the connection before it had answered"),
    ],
)
async def test_anything_but_success_raises_what_may_be_stored(behaviour, told):
    """
    Given an answer that is no success, or none, when an event is delivered, then the error says so
    with the host alone, and no cause that would say more hangs on it.
    """
    async with receiving(behaviour) as receiver:
        with pytest.raises(CallbackFailed) as failed:
            await a_callback(receiver.url("/a/s3cr3t"))(EVENT)

    assert f"127.0.0.1:{receiver.port} {told}" == str(failed.value)
    assert failed.value.__cause__ is None


async def test_it_ends_within_the_couriers_limit(monkeypatch):
    """
    Given a receiver that does not answer, when its time is up, then the callback ends by itself.
    """
    assert callback_http.SECONDS < CALLBACK_SECONDS
    monkeypatch.setattr(callback_http, "SECONDS", 0.1)
    async with receiving(hangs()) as receiver:
        with pytest.raises(CallbackFailed, match=r"did not answer within 0\.1 s"):
            await a_callback(receiver.url())(EVENT)


async def test_a_name_that_leads_inside_is_refused():
    """
    B30: given a name that leads inside, when an event is delivered, then nobody hears of it.
    """
    names = Names({"hooks.example.org": (["127.0.0.1"],)})
    async with receiving() as receiver:
        callback = a_callback(
            receiver.url(host="hooks.example.org"), client=GuardedClient(Egress(), resolve=names)
        )
        with pytest.raises(CallbackFailed, match="leads to an address that is not public"):
            await callback(EVENT)

    assert 0 == receiver.connections


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://10.0.0.1/s3cr3t", "10.0.0.1 leads to an address that is not public"),
        ("http://ann:s3cr3t@example.org/", "example.org: the URL must not hold credentials"),
        ("ftp://example.org/s3cr3t", "the URL does not begin with http:// or https://"),
        ("http://2130706433/s3cr3t", "2130706433 must be a host name"),
    ],
)
def test_a_wrong_url_stops_the_start(url, told):
    """
    Given a URL that could never be called, when the callback is made, then the setting is named.
    """
    with pytest.raises(Rejected) as refused:
        a_callback(url)

    assert str(refused.value).startswith(f"UNS_CALLBACK_URL: {told}")
    assert "s3cr3t" not in str(refused.value)
    assert "UNS_CALLBACK_URL" == refused.value.path


def test_a_wrong_secret_stops_the_start():
    """
    Given a secret that cannot be one, when the callback is made, then the setting is named.
    """
    with pytest.raises(Rejected, match=r"^UNS_CALLBACK_SECRET: what follows whsec_ must be base64$"):
        a_callback("https://example.org/", ["whsec_!"])
