"""
B48: whatever a body is, the answer is a problem in strict JSON, nothing is stored, and every list and
view still answers afterwards.
"""

import json
import random

import pytest

from kit.builders import AGENT
from kit.poisons import FIELDS, VALUES, with_value
from kit.runtimes import ON_BOTH
from kit.web import NOTIFICATIONS, OPERATOR, PRODUCER, RESPONDER, RUNTIME, a_body
from uns.entrypoints.http.access import NEEDS

pytestmark = ON_BOTH

POSTS = {
    NOTIFICATIONS: PRODUCER,
    f"{NOTIFICATIONS}/simulate": PRODUCER,
    f"{NOTIFICATIONS}/{{notification_id}}/ack": RESPONDER,
    f"{NOTIFICATIONS}/{{notification_id}}/dismiss": RESPONDER,
    f"{NOTIFICATIONS}/{{notification_id}}/withdraw": PRODUCER,
    "/v1/notifications/{notification_id}/ack": RESPONDER,
    "/v1/notifications/{notification_id}/dismiss": RESPONDER,
    f"{RUNTIME}/notifications/{{notification_id}}/replay": OPERATOR,
    f"{RUNTIME}/callbacks/{{event_id}}/rearm": OPERATOR,
    "/api/v1/policies/reload": OPERATOR,
}
"""Every route that takes a body, and a key that opens it."""

BODIES = [
    b"[]",
    b"null",
    b"0",
    b'""',
    b"{",
    b"}",
    b"\x00",
    b"\xff\xfe",
    b"NaN",
    b'{"notification_type": NaN, "intent": NaN}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"\xef\xbb\xbf{}",
    b"{}" * 2,
    b"x" * 20_000_000,
]


def strict(answer):
    """
    Status and problem; ``answer.json`` takes nothing but JSON as it is defined.
    """
    assert answer.status < 500, answer
    if answer.status >= 400:
        assert "application/problem+json" == answer.headers["content-type"]
        assert answer.status == answer.json["status"]
        assert answer.json["code"] in {
            "validation_error",
            "request_entity_too_large",
            "not_found",
            "conflict",
        }
    return answer.status, answer.json


async def everything(web):
    """
    Every list and view of the service.
    """
    views = ["/ready", f"{RUNTIME}/dead-letters", f"{RUNTIME}/callbacks"]
    for id in web.ids:
        views += [f"{NOTIFICATIONS}/{id}{tail}" for tail in ("", "/ack-status", "/delivery")]
        views.append(f"{RUNTIME}/notifications/{id}")
    return [(strict(await web.get(view)))[0] for view in views]


@pytest.fixture
async def poisoned(serving):
    """
    A service, and the ids of what it stored.
    """
    async with serving() as web:
        web.ids = []
        yield web
        assert {200} == set(await everything(web))


async def send(web, body, **more):
    """
    Status and answer; what is accepted is remembered, and sent.
    """
    status, told = strict(await web.post(NOTIFICATIONS, body, headers={"Prefer": "respond-async"}, **more))
    if status == 202:
        web.ids.append(told["notification_id"])
        await web.runtime.run_once()
    return status


@pytest.mark.parametrize("field", FIELDS)
async def test_no_value_of_any_field_is_an_error_of_ours(poisoned, field):
    """
    B48: 422, or 202 where the value may be; what is stored can be shown.
    """
    found = {value: await send(poisoned, with_value(field, value), key=PRODUCER) for value in VALUES}

    assert set(found.values()) <= {202, 422}
    assert 422 == found[b"NaN"] == found[b'"\\ud83d"'] == found[b"//"]


@pytest.mark.parametrize("place", ["metadata", "autonomy_context"])
async def test_nor_inside_of_one(poisoned, place):
    """
    B48: as deep as it may be put.
    """
    for value in VALUES:
        inner = b'{"x": %s}' % value
        if place == "autonomy_context":
            inner = b'{"autonomy_mode": "LIVE", "agent_id": "%s", "plan_id": %s}' % (AGENT.encode(), value)
        await send(poisoned, with_value(place, inner), key=PRODUCER)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:12]))
async def test_no_body_is_an_error_of_ours(poisoned, body):
    """
    B48: wherever it is posted, 422 or 413, and nothing is stored of it.
    """
    id = await poisoned.sent(notification_type="ask.now")
    await poisoned.runtime.run_once()
    poisoned.ids.append(id)
    for template, key in POSTS.items():
        path = template.format(notification_id=id, event_id=id)
        status, _ = strict(await poisoned.post(path, body, key=key))

        assert status == (413 if len(body) > 2 * 1024 * 1024 else 422), path
    assert "PENDING" == poisoned.runtime.get(id)["ack_status"]
    assert set(POSTS) == {path for method, path in NEEDS if method == "POST"}


async def test_answer_metadata_is_no_way_in(poisoned):
    """
    B48: what may be stored can be shown, and the rest is refused.
    """
    for value in VALUES:
        id = await poisoned.sent(notification_type="ask.now")
        await poisoned.runtime.run_once()
        poisoned.ids.append(id)
        body = b'{"metadata": {"x": %s}}' % value
        status, _ = strict(await poisoned.post(f"{NOTIFICATIONS}/{id}/ack", body, key=RESPONDER))

        assert status in {200, 422}, value
        assert ("ACKED" if status == 200 else "PENDING") == poisoned.runtime.get(id)["ack_status"]


@pytest.mark.parametrize("seed", range(6))
async def test_a_body_that_was_damaged_on_its_way(poisoned, seed):
    """
    B48: given a body with a few bytes changed, cut or doubled, then the answer is one of ours.
    """
    chance = random.Random(seed)
    whole = json.dumps(a_body(metadata={"a": [1, {"b": 'é\\"😀'}], "n": 1.5})).encode()
    for _ in range(150):
        body = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(body))
            match chance.randrange(4):
                case 0:
                    body[at] = chance.randrange(256)
                case 1:
                    del body[at : at + chance.randint(1, 9)]
                case 2:
                    body[at:at] = body[at : at + chance.randint(1, 40)]
                case 3:
                    body[at:at] = chance.choice(VALUES)[:40]
        await send(poisoned, bytes(body), key=PRODUCER)
