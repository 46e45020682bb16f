"""
``POST /api/v1/notifications``: what it takes, what it answers, and how long it waits.
"""

import asyncio
import json
import time
from datetime import UTC, datetime
from uuid import UUID

import pytest

from kit.builders import AGENT, NOW
from kit.channels import ScriptedChannel, SlowChannel
from kit.runtimes import a_document
from kit.web import ASYNC, NOTIFICATIONS, OPERATOR, PRODUCER, a_body
from uns import ChannelResult
from uns.entrypoints.http.sending import MAX_BODY
from uns.ports.errors import Busy, StoreUnavailable

FIELDS = [
    "notification_id",
    "status",
    "channels_attempted",
    "channels_succeeded",
    "channels_failed",
    "require_ack",
    "ack_status",
    "obligation_owner_id",
    "effective_ack_status",
    "ack_inherited",
    "obligation_resolution_status",
    "obligation_resolution_error",
    "idempotent_replay",
    "created_at",
    "message",
]
"""The answer of the reference, in its order."""


def accepted_at(clock):
    return datetime.fromtimestamp(clock.now(), UTC).isoformat().replace("+00:00", "Z")


def whole_body(size):
    """
    A request of exactly ``size`` bytes: the white space counts.
    """
    body = json.dumps(a_body()).encode()
    return body + b" " * (size - len(body))


async def test_the_answer_is_that_of_the_reference(web, clock):
    """
    202 with every field of the reference, once the obligation is durable.
    """
    answer = await web.post(NOTIFICATIONS, a_body(), headers=ASYNC)
    body = answer.json
    id = body["notification_id"]

    assert (202, "application/json") == (answer.status, answer.headers["content-type"])
    assert FIELDS == list(body)
    assert body == {
        "notification_id": str(UUID(id)),
        "status": "PENDING",
        "channels_attempted": [],
        "channels_succeeded": [],
        "channels_failed": [],
        "require_ack": False,
        "ack_status": None,
        "obligation_owner_id": id,
        "effective_ack_status": None,
        "ack_inherited": False,
        "obligation_resolution_status": "RESOLVED",
        "obligation_resolution_error": None,
        "idempotent_replay": False,
        "created_at": accepted_at(clock),
        "message": "accepted",
    }
    assert id == web.runtime.get(id)["id"]


@pytest.mark.parametrize("key", [OPERATOR, PRODUCER])
async def test_the_credential_is_the_principal(web, key):
    """
    Who sent it is who the key belongs to, not who the body might say.
    """
    answer = await web.post(NOTIFICATIONS, a_body(), key=key, headers=ASYNC)
    row = web.runtime.get(answer.json["notification_id"])

    assert {OPERATOR: "local-operator", PRODUCER: "local-producer"}[key] == row["principal"]


@pytest.mark.parametrize(
    "content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded"]
)
async def test_the_content_type_does_not_matter(web, content_type):
    """
    ``curl -d`` calls JSON a form.
    """
    headers = ASYNC | {"Content-Type": content_type}

    assert 202 == (await web.post(NOTIFICATIONS, a_body(), headers=headers)).status


async def test_with_a_worker_the_answer_tells_how_the_attempt_ended(serving, channel):
    """
    Given a worker, when a request that needs an answer is posted, then it is delivered first.
    """
    async with serving(work=True) as web:
        answer = await web.post(NOTIFICATIONS, a_body(notification_type="ask.now"), key=PRODUCER)

    assert 202 == answer.status
    told = ("status", "channels_attempted", "channels_succeeded", "channels_failed", "ack_status", "message")
    assert ["DELIVERED", ["PAGER"], ["PAGER"], [], "PENDING", "delivered"] == [answer.json[n] for n in told]
    assert 1 == len(channel.calls)


@pytest.mark.parametrize(
    ("result", "status", "message"),
    [
        (ChannelResult(False, error="no route"), "PENDING", "will be tried again: PAGER: no route"),
        (ChannelResult(False, error="gone", retryable=False), "FAILED", "failed: PAGER: gone"),
    ],
)
async def test_a_failed_first_attempt_is_202_too(serving, result, status, message):
    """
    Accepted is accepted: what became of it stands in the body.
    """
    async with serving(work=True, adapters={"PAGER": ScriptedChannel(result)}) as web:
        answer = await web.post(NOTIFICATIONS, a_body())

    assert (202, status, message) == (answer.status, answer.json["status"], answer.json["message"])
    assert ["PAGER"] == answer.json["channels_failed"]


@pytest.mark.parametrize(
    "preference",
    [
        "respond-async",
        "Respond-Async",
        "respond-async, wait=10",
        "handling=lenient, respond-async",
        "respond-async; foo=bar",
    ],
)
async def test_whoever_prefers_it_is_answered_after_the_commit(serving, preference):
    """
    Given a channel that takes its time, when the request says so, then nobody waits for it.
    """
    async with serving(work=True, adapters={"PAGER": SlowChannel(30)}) as web:
        begun = time.monotonic()
        answer = await web.post(NOTIFICATIONS, a_body(), headers={"Prefer": preference})

        assert ("PENDING", "accepted") == (answer.json["status"], answer.json["message"])
        assert time.monotonic() - begun < 3


@pytest.mark.parametrize("preference", ["", "wait=10", "respond-asynchronously", "x; a=respond-async"])
async def test_whoever_does_not_waits(serving, preference):
    """
    Other preferences are none of ours.
    """
    async with serving(work=True, adapters={"PAGER": SlowChannel(0.2)}) as web:
        answer = await web.post(NOTIFICATIONS, a_body(), headers={"Prefer": preference})

    assert "DELIVERED" == answer.json["status"]


@pytest.mark.parametrize(("wait", "status"), [(0.0, "PENDING"), (0.1, "PENDING"), (20.0, "DELIVERED")])
async def test_the_wait_has_an_end(serving, wait, status):
    """
    Given a first attempt that takes longer than the setting, then the row is told as it stands.
    """
    settings = {"send_wait_seconds": wait}
    async with serving(work=True, adapters={"PAGER": SlowChannel(0.4)}, settings=settings) as web:
        begun = time.monotonic()
        answer = await web.post(NOTIFICATIONS, a_body())
        took = time.monotonic() - begun

    assert (202, status) == (answer.status, answer.json["status"])
    assert min(wait, 0.4) <= took < 10


async def test_a_retry_with_the_same_key_is_the_same_notification(serving, channel):
    """
    Given a request with an idempotency key, when it is posted again, then the answer is its present
    state, at once, and nothing is sent again.
    """
    async with serving(work=True) as web:
        first = await web.post(NOTIFICATIONS, a_body(idempotency_key="k"))
        again = await web.post(NOTIFICATIONS, a_body(idempotency_key="k"))

    assert (False, True) == (first.json["idempotent_replay"], again.json["idempotent_replay"])
    assert first.json | {"idempotent_replay": True} == again.json
    assert 1 == len(channel.calls)


EQUIVALENT = [
    lambda body: json.dumps(dict(reversed(body.items()))),
    lambda body: json.dumps(body, indent=4),
    lambda body: json.dumps(body | {"irreversible": False, "metadata": {}, "correlation_id": None}),
    lambda body: json.dumps(body, ensure_ascii=True),
    lambda body: json.dumps(body, ensure_ascii=False),
    lambda body: json.dumps(body).replace(AGENT, AGENT.upper()),
]


async def test_an_equivalent_body_is_the_same_request(web):
    """
    B12: the order of keys, white space, defaults written out and the spelling of characters make no
    other request of it; one nested value does.
    """
    body = a_body(idempotency_key="k", title="é", metadata={})
    first = await web.post(NOTIFICATIONS, body, headers=ASYNC)
    again = [await web.post(NOTIFICATIONS, way(body).encode(), headers=ASYNC) for way in EQUIVALENT]
    other = await web.post(NOTIFICATIONS, body | {"metadata": {"a": [1]}}, headers=ASYNC)

    assert {(202, first.json["notification_id"], True)} == {
        (a.status, a.json["notification_id"], a.json["idempotent_replay"]) for a in again
    }
    assert 409 == other.status


async def test_the_same_key_for_something_else_is_a_conflict(web):
    """
    409, and nothing is stored of it; another principal's key is another key.
    """
    await web.post(NOTIFICATIONS, a_body(idempotency_key="k"), headers=ASYNC)
    answer = await web.post(NOTIFICATIONS, a_body(idempotency_key="k", title="other"), headers=ASYNC)
    other = await web.post(
        NOTIFICATIONS, a_body(idempotency_key="k", title="other"), key=PRODUCER, headers=ASYNC
    )

    assert (409, "conflict") == (answer.status, answer.code)
    assert "Idempotency key reused with a different payload" == answer.json["detail"]
    assert (202, False) == (other.status, other.json["idempotent_replay"])


async def test_a_follower_is_answered_at_once_and_names_its_owner(serving):
    """
    Given a pending owner, when a duplicate is posted, then nobody waits: it has nothing to attempt.
    """
    settings = {"send_wait_seconds": 20.0}
    async with serving(settings=settings) as web:
        owner = await web.sent(notification_type="calm.down")
        answer = await web.post(NOTIFICATIONS, a_body(notification_type="calm.down"), key=PRODUCER)

    told = ("status", "obligation_owner_id", "ack_inherited", "obligation_resolution_status")
    assert ["PENDING", owner, True, "RESOLVED"] == [answer.json[name] for name in told]
    assert answer.json["message"].startswith("waiting for the delivery")


async def test_a_duplicate_of_a_delivered_one(serving, channel):
    """
    DEDUPLICATED at once, its response the owner's.
    """
    async with serving(work=True) as web:
        owner = (await web.post(NOTIFICATIONS, a_body(notification_type="calm.down"))).json["notification_id"]
        answer = await web.post(NOTIFICATIONS, a_body(notification_type="calm.down"))

    assert ("DEDUPLICATED", owner) == (answer.json["status"], answer.json["obligation_owner_id"])
    assert 1 == len(channel.calls)


REFUSED = [
    (b"{", "", "validation_error"),
    (b"[]", "", "validation_error"),
    (b"null", "", "validation_error"),
    (b"", "notification_type", "validation_error"),
    (a_body(title=None), "title", "validation_error"),
    (a_body(title=7), "title", "validation_error"),
    (a_body(title="x" * 201), "title", "validation_error"),
    (a_body(title="two\nlines"), "title", "validation_error"),
    (a_body(titel="x"), "titel", "validation_error"),
    (a_body(irreversible="true"), "irreversible", "validation_error"),
    (a_body(irreversible=1), "irreversible", "validation_error"),
    (a_body(intent="operational"), "intent", "validation_error"),
    (a_body(notification_type="uns.alert"), "notification_type", "validation_error"),
    (a_body(notification_type="Bad Type"), "notification_type", "validation_error"),
    (a_body(dedup_key=""), "dedup_key", "validation_error"),
    (a_body(metadata={"email_to": "x"}), "metadata.email_to", "validation_error"),
    (a_body(metadata={"uns_resolution": {}}), "metadata.uns_resolution", "validation_error"),
    (a_body(delivery_mode="BEST_EFFORT"), "delivery_mode", "validation_error"),
    (a_body(require_ack=True), "require_ack", "validation_error"),
    (a_body(priority="HIGH"), "priority", "validation_error"),
    (a_body(autonomy_context={"autonomy_mode": "LIVE"}), "autonomy_context.agent_id", "validation_error"),
    (
        a_body(autonomy_context={"autonomy_mode": "LIVE", "agent_id": "x"}),
        "autonomy_context.agent_id",
        "validation_error",
    ),
]


@pytest.mark.parametrize("path", [NOTIFICATIONS, f"{NOTIFICATIONS}/simulate"])
async def test_what_is_wrong_with_a_request_is_told_field_by_field(web, path):
    """
    422 with the path of the fault, alike for sending and simulating; nothing is stored, and the
    idempotency key is not used up.
    """
    for body, fault, code in REFUSED:
        keyed = body | {"idempotency_key": "k"} if isinstance(body, dict) else body
        answer = await web.post(path, keyed, headers=ASYNC)

        assert (422, code) == (answer.status, answer.code), body
        assert [fault] == [error["path"] for error in answer.json["errors"]], body
    assert 202 == (await web.post(NOTIFICATIONS, a_body(idempotency_key="k"), headers=ASYNC)).status


async def test_a_type_without_a_policy(serving):
    """
    422 ``no_policy``.
    """
    async with serving(a_document("only", notification_type="known.*")) as web:
        answer = await web.post(NOTIFICATIONS, a_body(), headers=ASYNC)

    assert (422, "no_policy", "notification_type") == (
        answer.status,
        answer.code,
        answer.json["errors"][0]["path"],
    )


@pytest.mark.parametrize(("size", "status"), [(MAX_BODY - 1, 202), (MAX_BODY, 202), (MAX_BODY + 1, 413)])
async def test_a_body_has_up_to_two_megabytes(web, size, status):
    """
    Whether its length is announced or not.
    """
    for headers in (ASYNC, ASYNC | {"Content-Length": "0"}):
        answer = await web.post(NOTIFICATIONS, whole_body(size), headers=headers)

        assert status == answer.status
        assert status == 202 or "request_entity_too_large" == answer.code


async def test_a_body_that_is_announced_too_large_is_not_read(web):
    """
    413 before a byte of it is taken.
    """
    answer = await web.post(NOTIFICATIONS, b"", headers={"Content-Length": str(MAX_BODY + 1)})

    assert 413 == answer.status


async def test_a_caller_that_goes_away_leaves_nothing(web, caplog):
    """
    Given that the connection breaks before the body is whole, then nothing is stored, and the log
    has a line, but no stack.
    """

    async def gone():
        return {"type": "http.disconnect"}

    said = []

    async def hear(message):
        said.append(message)

    headers = [(b"host", b"x"), (b"authorization", f"Bearer {PRODUCER}".encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": NOTIFICATIONS,
        "query_string": b"",
        "headers": headers,
    }
    with caplog.at_level("INFO"):
        await web.app(scope, gone, hear)

    assert 500 == said[0]["status"]
    assert ["INFO"] == [record.levelname for record in caplog.records]


@pytest.mark.parametrize("error", [StoreUnavailable("the database does not answer"), Busy()])
async def test_a_store_that_does_not_answer_is_503(serving, monkeypatch, error):
    """
    With ``Retry-After``; whether it was stored is unknown, so the retry needs the same key.
    """
    async with serving() as web:
        ledger = web.container.ledger()

        async def fails(plan):
            raise error

        monkeypatch.setattr(ledger.insistent, "run", fails)
        answer = await web.post(NOTIFICATIONS, a_body())

    assert (503, error.code, "1") == (answer.status, answer.code, answer.headers["retry-after"])


async def test_requests_at_once_get_answers_of_their_own(serving, channel):
    """
    Given fifty requests at once, when each waits, then each is told of its own notification.
    """
    async with serving(work=True, settings={"send_wait_seconds": 20.0}) as web:
        titles = [f"alert {n}" for n in range(50)]
        answers = await asyncio.gather(*(web.post(NOTIFICATIONS, a_body(title=title)) for title in titles))
        rows = [web.runtime.get(answer.json["notification_id"]) for answer in answers]

    assert titles == [row["notification"]["title"] for row in rows]
    assert {"DELIVERED"} == {answer.json["status"] for answer in answers}


async def test_times_are_rfc_3339_in_utc(web):
    """
    As everywhere but under ``/api/v1/runtime``.
    """
    answer = await web.post(NOTIFICATIONS, a_body(), headers=ASYNC)

    assert NOW == datetime.fromisoformat(answer.json["created_at"]).timestamp()
    assert answer.json["created_at"].endswith("Z")
