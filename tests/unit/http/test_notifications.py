"""
Simulate, look, answer, withdraw: every answer of the reference, and every error.
"""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kit.channels import ScriptedChannel
from kit.runtimes import a_document
from kit.web import (
    ASYNC,
    KEYS,
    NOBODYS,
    NOTIFICATIONS,
    OBSERVER,
    OPERATOR,
    PRODUCER,
    RESPONDER,
    a_body,
    credentials,
)
from uns import ChannelResult

API = NOTIFICATIONS
SHORT = "/v1/notifications"
ASK = {"notification_type": "ask.now"}
MINUTES = 60.0


async def asked(web, **fields):
    """
    The id of a delivered notification that awaits an answer for 15 minutes.
    """
    id = await web.sent(**(ASK | fields))
    await web.runtime.run_once()
    return id


def at(instant):
    return datetime.fromtimestamp(instant, UTC).isoformat().replace("+00:00", "Z")


# What is asked of one notification, with the least that a body may be.
ONE = {
    "look": ("GET", "{api}/{id}", OBSERVER),
    "ack-status": ("GET", "{api}/{id}/ack-status", OBSERVER),
    "delivery": ("GET", "{api}/{id}/delivery", OBSERVER),
    "ack": ("POST", "{api}/{id}/ack", RESPONDER),
    "dismiss": ("POST", "{api}/{id}/dismiss", RESPONDER),
    "withdraw": ("POST", "{api}/{id}/withdraw", PRODUCER),
    "short ack": ("POST", "/v1/notifications/{id}/ack", RESPONDER),
    "short dismiss": ("POST", "/v1/notifications/{id}/dismiss", RESPONDER),
}


@pytest.mark.parametrize("what", ONE)
async def test_an_id_that_nobody_has_is_404(web, what):
    """
    Well formed or not, in whatever spelling.
    """
    method, path, key = ONE[what]
    for id in (NOBODYS, "x", "1", "%00", "..", "é", "a" * 5000, NOBODYS + "0", f"{{{NOBODYS}}}"):
        answer = await web.request(method, path.format(api=API, id=id), key=key)

        assert (404, "not_found") == (answer.status, answer.code), id


async def test_an_id_may_be_spelled_differently(web):
    """
    A UUID in capitals, or without hyphens, is the same one.
    """
    id = await web.sent()
    for spelling in (id.upper(), id.replace("-", "")):
        assert id == (await web.get(f"{API}/{spelling}")).json["notification_id"]


async def test_simulate_tells_the_policy_and_changes_nothing(web):
    """
    What the request would resolve to, its steps, and no trace of it; targets by name alone.
    """
    answer = await web.post(f"{API}/simulate", a_body(**ASK), key=PRODUCER)
    body = answer.json

    assert 200 == answer.status
    assert ("ask", ["PAGER"], True, False) == (
        body["policy_id"],
        body["channels"],
        body["require_ack"],
        body["delivered"],
    )
    assert ["base"] == [step["step"] for step in body["steps"]]
    assert [] == (await web.get("/api/v1/runtime/dead-letters")).json["items"]
    assert 0 == await web.runtime.run_once()


async def test_simulate_shows_no_target(serving):
    """
    A webhook's address may hold a credential.
    """
    secret = a_document(
        channels={"primary": ["WEBHOOK"]}, targets={"WEBHOOK": {"url": "https://x.org/s3cr3t"}}
    )
    async with serving(secret, adapters={"WEBHOOK": ScriptedChannel()}) as web:
        answer = await web.post(f"{API}/simulate", a_body(), key=PRODUCER)
        row = await web.get(f"/api/v1/runtime/notifications/{await web.sent()}")

    assert b"s3cr3t" not in answer.body + row.body
    assert {"WEBHOOK": {}} == answer.json["effective"]["targets"]


async def test_look_at_a_pending_one(web, clock):
    """
    The status, the request's own words, and the response view.
    """
    id = await web.sent(correlation_id="trace-1")
    answer = await web.get(f"{API}/{id}", key=OBSERVER)

    assert 200 == answer.status
    assert answer.json == {
        "notification_id": id,
        "notification_type": "system.alert",
        "intent": "OPERATIONAL",
        "title": "disk is filling up",
        "source": "pay",
        "correlation_id": "trace-1",
        "priority": "NORMAL",
        "delivery_mode": "GUARANTEED",
        "status": "PENDING",
        "channels_attempted": [],
        "channels_succeeded": [],
        "channels_failed": [],
        "error_message": None,
        "attempts": 0,
        "dead_letter": False,
        "withdrawn": False,
        "require_ack": False,
        "ack_status": None,
        "acked_by": None,
        "acked_at": None,
        "deadline": None,
        "obligation_owner_id": id,
        "effective_ack_status": None,
        "ack_inherited": False,
        "obligation_resolution_status": "RESOLVED",
        "obligation_resolution_error": None,
        "created_at": at(clock.now()),
        "delivered_at": None,
    }


async def test_look_at_one_that_was_answered(web, clock):
    """
    Who answered, when, until when they could.
    """
    id = await asked(web)
    delivered = clock.now()
    clock.advance(MINUTES)
    await web.post(f"{API}/{id}/ack", key=RESPONDER)
    body = (await web.get(f"{API}/{id}")).json

    assert ("DELIVERED", "ACKED", "local-responder") == (body["status"], body["ack_status"], body["acked_by"])
    assert (at(clock.now()), at(delivered), at(delivered + 15 * MINUTES)) == (
        body["acked_at"],
        body["delivered_at"],
        body["deadline"],
    )


async def test_ack_status_of_a_follower_is_its_owners(web):
    """
    The example of the reference: ack_status null, effective_ack_status ACKED, inherited.
    """
    fields = {"notification_type": "calm.ask"}
    owner = await web.sent(**fields)
    follower = await web.sent(**fields)
    answer = await web.get(f"{API}/{follower}/ack-status", key=OBSERVER)

    assert answer.json == {
        "notification_id": follower,
        "ack_status": None,
        "obligation_owner_id": owner,
        "effective_ack_status": None,
        "ack_inherited": True,
        "obligation_resolution_status": "RESOLVED",
        "obligation_resolution_error": None,
    }


async def test_delivery_is_one_record_for_each_settlement(serving, clock):
    """
    Given a failure and then a success, then both are there, oldest first, as a list like any other.
    """
    flaky = ScriptedChannel(ChannelResult(False, error="no route"), True)
    async with serving(adapters={"PAGER": flaky}) as web:
        id = await web.sent()
        await web.runtime.run_once()
        clock.advance(MINUTES)
        await web.runtime.run_once()
        answer = await web.get(f"{API}/{id}/delivery", key=OBSERVER)

    first, second = answer.json["items"]
    assert {"notification_id": id, "next_cursor": None} == {
        k: v for k, v in answer.json.items() if k != "items"
    }
    assert ("PENDING", "PAGER: no route", ["PAGER"]) == (
        first["status"],
        first["error_message"],
        first["channels_failed"],
    )
    assert ("DELIVERED", ["PAGER"], at(clock.now())) == (
        second["status"],
        second["channels_succeeded"],
        second["delivered_at"],
    )


@pytest.mark.parametrize(("verb", "status"), [("ack", "ACKED"), ("dismiss", "DISMISSED")])
@pytest.mark.parametrize("root", [API, SHORT])
@pytest.mark.parametrize("key", [RESPONDER, OPERATOR])
async def test_an_answer_is_the_callers(web, clock, root, verb, status, key):
    """
    By either path, in the name of the credential, with the metadata that came with it.
    """
    id = await asked(web)
    principal = {RESPONDER: "local-responder", OPERATOR: "local-operator"}[key]
    metadata = {"ticket_id": "INC-4092", "note": "Investigating margin spike"}
    answer = await web.post(f"{root}/{id}/{verb}", {"metadata": metadata}, key=key)

    assert 200 == answer.status
    assert answer.json == {
        "notification_id": id,
        "ack_status": status,
        "acked_by": principal,
        "acked_at": at(clock.now()),
        "metadata": metadata,
    }


@pytest.mark.parametrize("body", [b"", b"{}", b" \n", {"metadata": {}}, {"acked_by": None}])
async def test_the_body_of_an_answer_is_optional(web, body):
    """
    Absent, empty, or without what it may hold.
    """
    answer = await web.post(f"{API}/{await asked(web)}/ack", body, key=RESPONDER)

    assert (200, {}) == (answer.status, answer.json["metadata"])


@pytest.mark.parametrize("verb", ["ack", "dismiss"])
@pytest.mark.parametrize("field", ["acked_by", "dismissed_by"])
async def test_nobody_answers_in_anothers_name(web, verb, field):
    """
    403 ``principal_override_forbidden``, and the obligation waits on; one's own name is no fault.
    """
    id = await asked(web)
    for name in ("bob", "", "local-operator", "Local-Responder"):
        answer = await web.post(f"{API}/{id}/{verb}", {field: name}, key=RESPONDER)

        assert (403, "principal_override_forbidden") == (answer.status, answer.code)
    assert "PENDING" == (await web.get(f"{API}/{id}")).json["ack_status"]
    assert 200 == (await web.post(f"{API}/{id}/{verb}", {field: "local-responder"}, key=RESPONDER)).status


async def test_the_same_answer_again_is_the_first_one(web, clock):
    """
    The same actor, the same response: 200, with the time and metadata of the first.
    """
    id = await asked(web)
    first = await web.post(f"{API}/{id}/ack", {"metadata": {"n": 1}}, key=RESPONDER)
    clock.advance(5)
    again = await web.post(f"{API}/{id}/ack", {"metadata": {"n": 2}}, key=RESPONDER)

    assert (200, first.json) == (again.status, again.json)


async def test_another_answer_is_a_conflict(web):
    """
    By the same actor the other response, by another actor either.
    """
    id = await asked(web)
    await web.post(f"{API}/{id}/ack", key=RESPONDER)
    for verb, key in (("dismiss", RESPONDER), ("ack", OPERATOR), ("dismiss", OPERATOR)):
        answer = await web.post(f"{API}/{id}/{verb}", key=key)

        assert (409, "conflict") == (answer.status, answer.code)


@pytest.mark.parametrize(("offset", "status"), [(-0.001, 200), (0.0, 409), (0.001, 409)])
async def test_the_deadline_holds_without_a_sweep(web, clock, offset, status):
    """
    Just before, at and just after.
    """
    id = await asked(web)
    clock.advance(15 * MINUTES + offset)

    assert status == (await web.post(f"{API}/{id}/ack", key=RESPONDER)).status


async def test_what_asks_for_nothing_cannot_be_answered(web):
    """
    409, before delivery and after, and with an answer still to come.
    """
    quiet = await web.sent()
    early = await web.sent(**ASK)
    for id in (quiet, early):
        assert 409 == (await web.post(f"{API}/{id}/ack", key=RESPONDER)).status
    await web.runtime.run_once()

    assert 409 == (await web.post(f"{API}/{quiet}/ack", key=RESPONDER)).status
    assert 200 == (await web.post(f"{API}/{early}/ack", key=RESPONDER)).status


@pytest.mark.parametrize("verb", ["ack", "dismiss", "withdraw"])
async def test_a_followers_answer_is_for_its_owner_to_give(serving, verb):
    """
    409 that names the owner; nothing is redirected.
    """
    asking = a_document(require_ack=True, dedup_window_seconds=300)
    async with serving(asking) as web:
        owner = await web.sent()
        follower = await web.sent()
        answer = await web.post(f"{API}/{follower}/{verb}", key=OPERATOR)

    assert (409, "conflict", owner) == (answer.status, answer.code, answer.json["obligation_owner_id"])


async def test_a_pending_one_is_withdrawn(web):
    """
    FAILED with the error ``withdrawn``, in the form of a send; a second withdrawing gives the same.
    """
    id = await web.sent(**ASK)
    answer = await web.post(f"{API}/{id}/withdraw", key=PRODUCER)
    again = await web.post(f"{API}/{id}/withdraw", b"{}", key=PRODUCER)
    await web.runtime.run_once()
    look = (await web.get(f"{API}/{id}")).json

    assert (200, "FAILED", "failed: withdrawn") == (
        answer.status,
        answer.json["status"],
        answer.json["message"],
    )
    assert (200, answer.json) == (again.status, again.json)
    assert (True, False, 0) == (look["withdrawn"], look["dead_letter"], look["attempts"])


async def test_a_delivered_one_that_awaits_an_answer_is_dismissed_by_withdrawing(web):
    """
    By that principal, and with metadata that says so.
    """
    id = await asked(web)
    answer = await web.post(f"{API}/{id}/withdraw", key=PRODUCER)
    row = web.runtime.get(id)

    assert (200, "DELIVERED", "DISMISSED") == (
        answer.status,
        answer.json["status"],
        answer.json["ack_status"],
    )
    assert ("local-producer", {"withdrawn": True}) == (row["actor"], row["response_metadata"])


@pytest.mark.parametrize(
    ("key", "status", "code"),
    [
        (PRODUCER, 200, None),
        (OPERATOR, 200, None),
        ("other-producer", 403, "forbidden"),
        (RESPONDER, 403, "insufficient_scope"),
        (OBSERVER, 403, "insufficient_scope"),
    ],
)
async def test_only_its_producer_or_an_operator_withdraws(serving, key, status, code):
    """
    Another producer may not, nor whoever cannot send at all.
    """
    (other,) = credentials(producer="other-producer")
    known = credentials(**{role.lower(): value for role, value in KEYS.items()})
    settings = {"credentials": (*known, replace(other, principal="other"))}
    async with serving(settings=settings) as web:
        id = await web.sent()
        answer = await web.post(f"{API}/{id}/withdraw", key=key)

    assert (status, code) == (answer.status, answer.code)


async def test_what_is_over_cannot_be_withdrawn(web):
    """
    409 once it is answered, or delivered with no answer to come.
    """
    answered, quiet = await asked(web), await asked(web, notification_type="system.alert")
    await web.post(f"{API}/{answered}/ack", key=RESPONDER)
    for id in (answered, quiet):
        answer = await web.post(f"{API}/{id}/withdraw", key=PRODUCER)

        assert (409, "conflict") == (answer.status, answer.code)


@pytest.mark.parametrize("what", [name for name, (method, *_) in ONE.items() if method == "POST"])
async def test_a_wrong_body_is_422(web, what):
    """
    For every verb, and whatever there is to answer stays unanswered.
    """
    id = await asked(web)
    _, path, key = ONE[what]
    for body in (b"{", b"[]", b"null", b"\xff", {"nope": 1}, {"metadata": []}, b'{"metadata": {"x": NaN}}'):
        answer = await web.post(path.format(api=API, id=id), body, key=key)

        assert (422, "validation_error") == (answer.status, answer.code), body
        assert answer.json["errors"]
    assert "PENDING" == (await web.get(f"{API}/{id}")).json["ack_status"]


@pytest.mark.parametrize("what", [name for name, (method, *_) in ONE.items() if method == "GET"])
async def test_head_is_get_without_its_body(web, what):
    """
    The same status and headers, for what is there and what is not.
    """
    _, path, key = ONE[what]
    for id in (await web.sent(), NOBODYS):
        get = await web.request("GET", path.format(api=API, id=id), key=key)
        head = await web.request("HEAD", path.format(api=API, id=id), key=key)

        assert (get.status, b"") == (head.status, head.body)
        assert get.headers | {"x-request-id": ""} == head.headers | {"x-request-id": ""}


async def test_two_answers_at_once(web):
    """
    Given two actors at once, then one is 200 and the other 409, and the row is the first one's.
    """
    id = await asked(web)
    answers = await asyncio.gather(
        web.post(f"{API}/{id}/ack", key=RESPONDER), web.post(f"{API}/{id}/dismiss", key=OPERATOR)
    )
    (won,) = [answer.json for answer in answers if answer.status == 200]

    assert [200, 409] == sorted(answer.status for answer in answers)
    assert won["acked_by"] == (await web.get(f"{API}/{id}")).json["acked_by"]


async def test_a_posted_retry_changes_nothing_of_an_answer(web):
    """
    Given an answered notification, when its request is posted again, then it is ACKED still.
    """
    id = await asked(web, idempotency_key="k")
    await web.post(f"{API}/{id}/ack", key=RESPONDER)
    again = await web.post(API, a_body(**ASK, idempotency_key="k"), key=PRODUCER, headers=ASYNC)

    assert (id, "ACKED", True) == (
        again.json["notification_id"],
        again.json["ack_status"],
        again.json["idempotent_replay"],
    )
