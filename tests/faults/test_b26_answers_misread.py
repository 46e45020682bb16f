"""
B26: a 429 is not a 404, a 4xx is not a 5xx, and Retry-After means what it says.
"""

import pytest

from kit.builders import a_request
from kit.receiver import answers, hangs, receiving, resets
from kit.runtimes import PRINCIPAL
from kit.web import NOTIFICATIONS, RUNTIME, a_body
from kit.webhooks import BASE_SECONDS

JITTER = 0.2
ONE_BACKOFF = (BASE_SECONDS, BASE_SECONDS * (1 + JITTER))


@pytest.fixture
def attempted(hooking):
    """
    Posts a notification for a receiver that behaves so, which a worker attempts once, and gives the
    row as the service then shows it.
    """

    async def attempted(behaviour, limit=5.0):
        async with receiving(behaviour) as receiver, hooking({"url": receiver.url()}, limit=limit) as web:
            sent = await web.post(NOTIFICATIONS, a_body())
            row = await web.get(f"{RUNTIME}/notifications/{sent.json['notification_id']}")
            assert (202, sent.json["status"]) == (sent.status, row.json["status"])
        assert 1 == receiver.connections
        return row.json

    return attempted


def paced(value=None, body=b""):
    return answers(429, body, {} if value is None else {"Retry-After": value})


LATER = {
    "2 s": (paced("2"), *ONE_BACKOFF),
    "1.5 s": (paced("1.5"), *ONE_BACKOFF),
    "7.5 s": (paced("7.5"), 7.5, 7.5),
    "a date": (paced("Fri, 15 Jan 2027 08:00:03 GMT"), 3, 3),
    "absurd": (paced("9999999999"), 3600, 3600),
    "an absurd date": (paced("Fri, 15 Jan 2100 08:00:03 GMT"), 3600, 3600),
    "negative": (paced("-1"), *ONE_BACKOFF),
    "no time": (paced("soon"), *ONE_BACKOFF),
    "a past date": (paced("Fri, 15 Jan 2027 07:59:00 GMT"), *ONE_BACKOFF),
    "no number": (paced("1" * 400), *ONE_BACKOFF),
    "nothing": (paced(), *ONE_BACKOFF),
    "503, 30 s": (answers(503, b"", {"Retry-After": "30"}), 30, 30),
    "503, negative": (answers(503, b"", {"Retry-After": "-30"}), *ONE_BACKOFF),
    "503": (answers(503), *ONE_BACKOFF),
    "500": (answers(500), *ONE_BACKOFF),
    "408": (answers(408), *ONE_BACKOFF),
    "425": (answers(425), *ONE_BACKOFF),
    "reset": (resets(), *ONE_BACKOFF),
}


@pytest.mark.parametrize(("behaviour", "least", "most"), LATER.values(), ids=LATER)
async def test_what_may_pass_is_tried_again_and_not_before_its_time(attempted, clock, behaviour, least, most):
    """
    B26: given an answer that may be another one later, when an attempt has failed, then the next is
    due after the wait that was asked for, if it was a sensible one, else after the ordinary backoff,
    and never at once.
    """
    row = await attempted(behaviour)

    assert ("PENDING", False) == (row["status"], row["dead_letter"])
    assert least <= row["next_attempt"] - clock.now() <= most


async def test_silence_is_tried_again(attempted, clock):
    """
    B26: given a receiver that does not answer, when its time is up, then that is as any fault of the
    network.
    """
    row = await attempted(hangs(), limit=0.2)

    least, most = ONE_BACKOFF
    assert "PENDING" == row["status"]
    assert least <= row["next_attempt"] - clock.now() <= most


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422, 302])
async def test_what_will_not_pass_ends_at_once_with_the_reason(attempted, status):
    """
    B26: given an answer that will not change, when an attempt has failed, then it was the last, and
    the row says why, in a bounded line.
    """
    row = await attempted(answers(status, b"because\n" * 1000))

    assert ("FAILED", True, 1) == (row["status"], row["dead_letter"], row["attempts"])
    error = row["outcome"]["error_message"]
    assert f"answered {status}" in error
    assert ("because because" in error) is (status != 302)
    assert len(error) < 300


@pytest.mark.parametrize(("status", "value"), [(429, "1"), (429, "soon"), (429, None), (503, "1")])
async def test_being_paced_costs_no_attempt(sending, clock, status, value):
    """
    B26: given a provider that paces more often than there are attempts, when it stops, then the
    notification is delivered.
    """
    headers = {} if value is None else {"Retry-After": value}
    async with receiving(*[answers(status, b"", headers)] * 5, answers()) as receiver:
        runtime = sending({"url": receiver.url()}, max_attempts=3)
        id = (await runtime.send(a_request(), principal=PRINCIPAL)).notification_id
        while runtime.get(id)["status"] == "PENDING" and receiver.connections < 10:
            clock.advance(5)
            await runtime.run_once()

    assert ("DELIVERED", 6) == (runtime.get(id)["status"], receiver.connections)
