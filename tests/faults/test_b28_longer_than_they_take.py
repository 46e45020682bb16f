"""
B28: what uns accepts, it can deliver: for a webhook that is all of it, uncut.
"""

import json

from kit.builders import a_request
from kit.receiver import receiving
from kit.runtimes import PRINCIPAL
from kit.waiting import until
from kit.web import NOTIFICATIONS, RUNTIME, a_body
from kit.webhooks import SECRET
from uns.adapters.callback_http import HttpCallback
from uns.adapters.egress import Egress, GuardedClient
from uns.core.rules.signature import sign

LONGEST = {
    "title": "題🔔" * 100,
    "message": "漢🔔" * 32_768,
    "source": "s" * 255,
    "dedup_key": "é" * 255,
    "idempotency_key": "k" * 255,
    "correlation_id": "c" * 255,
    "notification_type": "a." * 127 + "b",
    "metadata": {f"key{n}": "<!channel> & é" for n in range(300)},
}
WIDEST = {f"key{n}": "漢🔔" * 20 for n in range(400)}
"""Just under the 64 KiB that an answer may carry."""


def arrived(receiver):
    """
    What the one notification that a receiver got says of the fields above.
    """
    (request,) = receiver.requests
    data = json.loads(request.body)["data"]
    return {name: data[name] for name in LONGEST}


async def test_the_longest_of_everything_arrives_whole(sending):
    """
    B28: given a notification as long as they are allowed, when it is sent, then it is delivered at
    the first attempt, and every field arrives as it was given.
    """
    async with receiving() as receiver:
        runtime = sending({"url": receiver.url()})
        sent = await runtime.send(a_request(**LONGEST), principal=PRINCIPAL)

    assert "DELIVERED" == sent.status
    assert arrived(receiver) == LONGEST


async def test_over_http_and_back(hooking, clock):
    """
    B28: given a notification as long as they are allowed, when it is posted and answered at length,
    then both arrive whole at the first attempt, and the service keeps and shows all of it.
    """
    client = GuardedClient(Egress.parse("127.0.0.1"))
    async with receiving() as receiver, receiving() as told:
        callback = HttpCallback(client, clock, told.url(), secrets=[SECRET], sign=sign)
        asks = {"require_ack": True}
        async with hooking({"url": receiver.url()}, callback=callback, settings=asks) as web:
            sent = (await web.post(NOTIFICATIONS, a_body(**LONGEST))).json
            id = sent["notification_id"]
            acked = await web.post(f"{NOTIFICATIONS}/{id}/ack", {"metadata": WIDEST})
            await until(lambda: told.requests)
            row = (await web.get(f"{RUNTIME}/notifications/{id}")).json

    kept = row["notification"]
    del kept["metadata"]["uns_resolution"]

    assert ("DELIVERED", 1, 200) == (sent["status"], row["attempts"], acked.status)
    assert arrived(receiver) == LONGEST == {name: kept[name] for name in LONGEST}
    assert WIDEST == json.loads(told.requests[0].body)["payload"]["metadata"]
    assert 60_000 < len(json.dumps(WIDEST, ensure_ascii=False).encode()) <= 65_536
