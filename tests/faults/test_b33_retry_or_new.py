"""
B33: a receiver can tell a retry from a new message, and a retry's signature is fresh.
"""

import json
from datetime import UTC, datetime

from standardwebhooks import Webhook

from kit.builders import a_request
from kit.receiver import answers, hangs, receiving
from kit.runtimes import PRINCIPAL
from kit.webhooks import SECRET


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
