"""
``uns callbacks`` end to end: a callback that was given up is found, armed again, and made.
"""

import asyncio
import json
import sqlite3
import uuid
from contextlib import closing

import pytest

from kit.commands import KEYS, OPERATOR, serving
from kit.receiver import LOOPBACK, answers, receiving
from kit.runtimes import a_document, policy_folder
from kit.waiting import until
from uns.entrypoints.cli.exits import Exit

ATTEMPTS = 3
SECRET = "whsec_dW5zLXRlc3Qtc2VjcmV0LTI0LWJ5dGVz"


def let_pauses_pass(folder):
    """
    What a few seconds do to the pauses between the attempts at a callback.
    """
    with closing(sqlite3.connect(folder / "uns.db", timeout=20)) as database, database:
        waiting = "callback_token IS NULL AND callback_pending AND callback_until > 1"
        database.execute(f"UPDATE uns_events SET callback_until = 1 WHERE {waiting}")


async def tried(receiver, folder, times):
    """
    Wait until the receiver was called so often, and the last one is on record.
    """

    def done():
        let_pauses_pass(folder)
        return len(receiver.requests) >= times

    await until(done, 20)


@pytest.fixture
def asking(tmp_path):
    """
    The settings of a service that asks, and tells ``url`` of answers.
    """
    ask = a_document("ask", channels={"primary": ["LOG"]}, require_ack=True)
    folder = policy_folder(tmp_path / "policies", ask)

    def asking(url):
        return KEYS | {
            "UNS_POLICY_DIR": str(folder),
            "UNS_CALLBACK_URL": url,
            "UNS_CALLBACK_SECRET": SECRET,
            "UNS_EGRESS_ALLOW": LOOPBACK,
            "UNS_WORKER_POLL_SECONDS": "0.02",
            "UNS_SEND_WAIT_SECONDS": "20",
        }

    return asking


@pytest.mark.parametrize("face", ["local", "remote"])
async def test_a_callback_that_was_given_up_is_armed_again_and_made(tmp_path, uns, asking, face):
    """
    Given a receiver that refuses an answer three times, when the callback is armed again, over either
    face, then the running service makes it, as the same event with its attempts counted anew, and
    nothing is left to arm.
    """
    async with receiving(*[answers(500, b"down")] * ATTEMPTS, answers()) as receiver:
        starting = serving(tmp_path, **asking(receiver.url("/answers")))
        _, url = await asyncio.to_thread(starting.__enter__)
        remote = {"UNS_URL": url, "UNS_API_KEY": OPERATOR}
        here = remote if face == "remote" else {}
        try:
            sent = uns("send", "--type=ask.x", "--title=t", "--message=m", "--json", **remote).json
            assert Exit.DONE == uns("ack", sent["notification_id"], **remote).status
            await tried(receiver, tmp_path, ATTEMPTS)
            await until(lambda: uns("callbacks", "list", "--json", **here).json)
            (event,) = uns("callbacks", "list", "--json", **here).json
            table = uns("callbacks", "list", **here)
            rearmed = uns("callbacks", "rearm", event["id"], "--json", **here)
            await tried(receiver, tmp_path, ATTEMPTS + 1)
            await until(lambda: uns("callbacks", "list", **here).err == "uns: no exhausted callbacks\n")
            again = uns("callbacks", "rearm", event["id"], **here)
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)
    bodies = [json.loads(request.body) for request in receiver.requests]

    assert (sent["notification_id"], "ACKED") == (event["notification_id"], event["kind"])
    assert "answered 500 Internal Server Error: down" in event["callback_error"]
    assert [event["id"]] == [word for word in table.out.split() if word == event["id"]]
    assert (Exit.DONE, {"event_id": event["id"], "rearmed": True}) == (rearmed.status, rearmed.json)
    assert [1, 2, 3, 1] == [body.pop("attempt") for body in bodies]
    assert [bodies[0]] * 4 == bodies
    assert {event["id"]} == {request.headers["webhook-id"] for request in receiver.requests}
    assert (
        Exit.FAILED,
        f"uns: {event['id']} is not exhausted: `uns callbacks list` shows those that are\n",
    ) == (
        again.status,
        again.err,
    )


def test_a_callback_that_is_not_there_is_told(uns, over):
    """
    Given an id that no event has, or none at all, then it is refused as unknown.
    """
    for id in (str(uuid.uuid4()), "x"):
        ended = uns("callbacks", "rearm", id)

        assert (Exit.REFUSED, "uns: Callback event not found\n") == (ended.status, ended.err)
