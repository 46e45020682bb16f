"""
B28: what uns accepts, it can deliver: for a webhook that is all of it, uncut.
"""

import json

from kit.builders import a_request
from kit.receiver import receiving
from kit.runtimes import PRINCIPAL


async def test_the_longest_of_everything_arrives_whole(sending):
    """
    B28: given a notification as long as they are allowed, when it is sent, then it is delivered at
    the first attempt, and every field arrives as it was given.
    """
    longest = {
        "title": "題🔔" * 100,
        "message": "漢🔔" * 32_768,
        "source": "s" * 255,
        "dedup_key": "é" * 255,
        "idempotency_key": "k" * 255,
        "correlation_id": "c" * 255,
        "notification_type": "a." * 127 + "b",
        "metadata": {f"key{n}": "<!channel> & é" for n in range(300)},
    }
    async with receiving() as receiver:
        runtime = sending({"url": receiver.url()})
        sent = await runtime.send(a_request(**longest), principal=PRINCIPAL)

    (request,) = receiver.requests
    data = json.loads(request.body)["data"]
    assert "DELIVERED" == sent.status
    assert longest == {name: data[name] for name in longest}
