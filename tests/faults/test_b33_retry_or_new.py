"""
B33: a receiver can tell a retry from a new message, and a retry's signature is fresh.
"""

import json
from datetime import UTC, datetime

from standardwebhooks import Webhook

from kit.builders import a_request
from kit.receiver import answers, hangs, receiving
from kit.runtimes import PRINCIPAL
from kit.waiting import until
from kit.web import ASYNC, NOTIFICATIONS, RUNTIME, a_body
from kit.webhooks import SECRET
from uns.adapters.callback_http import HttpCallback
from uns.adapters.egress import Egress, GuardedClient
from uns.core.rules.signature import sign


def signed(request):
    """
    Whether the signature is the one over this body, at the time it names.
    """
    headers = request.headers
    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    expected = Webhook(SECRET).sign(headers["webhook-id"], at, request.body.decode())
    return expected == headers["webhook-signature"]


async def test_all_attempts_carry_one_id_and_signatures_of_their_own(sending, clock):
    """
    B33: given a receiver that stores the request and answers too late, then fails, then takes it,
    then all three carry the notification's id, the same bytes but for the number of the attempt, and
    a signature over a time of their own.
    """
    async with receiving(hangs(), answers(500), answers(200)) as receiver:
        runtime = sending({"url": receiver.url()}, limit=1.0)
        id = (await runtime.send(a_request(), principal=PRINCIPAL)).notification_id
        for _ in range(2):
            clock.advance(30)
            await runtime.run_once()

    assert "DELIVERED" == runtime.get(id)["status"]
    assert [str(id)] * 3 == [r.headers["webhook-id"] for r in receiver.requests]
    assert 1 == len({r.headers["idempotency-key"] for r in receiver.requests})
    bodies = [json.loads(r.body) for r in receiver.requests]
    assert [1, 2, 3] == [body.pop("attempt") for body in bodies]
    assert bodies[0] == bodies[1] == bodies[2]
    alike = {r.body.replace(b'"attempt":%d' % n, b"") for n, r in enumerate(receiver.requests, 1)}
    assert 1 == len(alike)
    assert 3 == len({r.headers["webhook-timestamp"] for r in receiver.requests})
    assert all(map(signed, receiver.requests))


async def test_a_replay_keeps_the_id(sending, clock):
    """
    B33: given a dead letter, when an operator has it sent again, then the receiver sees the id and
    the bytes that it saw before.
    """
    async with receiving(answers(400), answers(200)) as receiver:
        runtime = sending({"url": receiver.url()})
        id = (await runtime.send(a_request(), principal=PRINCIPAL)).notification_id
        assert "FAILED" == runtime.get(id)["status"]
        clock.advance(3600)
        runtime.replay(id, actor="ann")
        await runtime.run_once()

    first, second = receiver.requests
    assert "DELIVERED" == runtime.get(id)["status"]
    assert str(id) == first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert signed(second)
    assert "3600" == str(int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]))


async def test_two_notifications_never_share_an_id(sending):
    """
    B33: given the same request twice, when both are sent, then the receiver sees two ids.
    """
    async with receiving() as receiver:
        runtime = sending({"url": receiver.url()})
        ids = [(await runtime.send(a_request(), principal=PRINCIPAL)).notification_id for _ in range(2)]

    assert [str(id) for id in ids] == [r.headers["webhook-id"] for r in receiver.requests]
    assert 2 == len({*ids})


async def test_over_http_and_after_a_replay(hooking, clock):
    """
    B33: given a service and a receiver that answers too late, then fails, then refuses, when it is
    asked to send the dead letter again, then all four requests carry one id, the number of the attempt
    alone tells their bytes apart, and each has a time and a signature of its own.
    """
    async with (
        receiving(hangs(), answers(500), answers(410), answers(200)) as receiver,
        hooking({"url": receiver.url()}, limit=0.5) as web,
    ):
        id = await web.sent()
        for n in (1, 2):
            await until(lambda n=n: attempts_on_record(web, id) == n)
            clock.advance(30)
        await until(lambda: web.runtime.get(id)["status"] == "FAILED")
        clock.advance(3600)
        replayed = await web.post(f"{RUNTIME}/notifications/{id}/replay")
        await until(lambda: web.runtime.get(id)["status"] == "DELIVERED")
        another = (await web.post(NOTIFICATIONS, a_body(), headers=ASYNC)).json["notification_id"]
        await until(lambda: len(receiver.requests) == 5)

    *same, other = receiver.requests
    bodies = [json.loads(request.body) for request in same]
    assert (200, id) == (replayed.status, replayed.json["id"])
    assert [1, 2, 3, 1] == [body.pop("attempt") for body in bodies]
    assert [bodies[0]] * 4 == bodies
    assert [id] * 4 == [request.headers["webhook-id"] for request in same]
    assert 4 == len({request.headers["webhook-timestamp"] for request in same})
    assert all(map(signed, receiver.requests))
    assert id != another == other.headers["webhook-id"]


def attempts_on_record(web, id):
    """
    How many attempts have been settled.
    """
    return sum(event["kind"] == "DELIVERY_RESULT" for event in web.runtime.events(id))


async def test_a_callback_is_one_event_however_often_it_is_made(hooking, clock):
    """
    B33: given who hears of an answer too late, refuses it, and refuses it once more, when the callback
    is armed again over HTTP, then all four requests carry the event's id, and signatures of their own.
    """
    client = GuardedClient(Egress.parse("127.0.0.1"), seconds=0.5)
    async with receiving() as receiver, receiving(hangs(), answers(500), answers(410), answers()) as told:
        callback = HttpCallback(client, clock, told.url(), secrets=[SECRET], sign=sign)
        asks = {"require_ack": True}
        async with hooking({"url": receiver.url()}, callback=callback, settings=asks) as web:
            id = (await web.post(NOTIFICATIONS, a_body())).json["notification_id"]
            await web.post(f"{NOTIFICATIONS}/{id}/ack")
            for n in (1, 2, 3):
                await until(lambda n=n: refusals_on_record(web, id) == n)
                clock.advance(10)
            (event,) = (await web.get(f"{RUNTIME}/callbacks", query="state=exhausted")).json["items"]
            rearmed = await web.post(f"{RUNTIME}/callbacks/{event['id']}/rearm")
            await until(lambda: len(told.requests) == 4)

    bodies = [json.loads(request.body) for request in told.requests]
    assert {"event_id": event["id"], "rearmed": True} == rearmed.json
    assert [1, 2, 3, 1] == [body.pop("attempt") for body in bodies]
    assert [bodies[0]] * 4 == bodies
    assert [event["id"]] * 4 == [request.headers["webhook-id"] for request in told.requests]
    assert 4 == len({request.headers["webhook-signature"] for request in told.requests})
    assert all(map(signed, told.requests))


def refusals_on_record(web, id):
    """
    How many attempts at its callback have failed.
    """
    event = web.runtime.events(id)[-1]
    return event["callback_attempts"] if event["callback_token"] is None else 0
