"""
Told to stop under load: every request is answered, what was claimed is finished or given back, and it ends.
"""

import asyncio
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing

import msgspec
import pytest

from kit.commands import KEYS, OPERATOR, STOP_SECONDS, serving
from kit.crowd import Crowd, until_accepted
from kit.receiver import LOOPBACK, answers, hangs, receiving
from kit.runtimes import a_document, policy_folder

ENDED_WELL = 0


def pauses(seconds):
    """
    A receiver's success that comes late.
    """

    async def behave(writer):
        await asyncio.sleep(seconds)
        await answers()(writer)

    return behave


def rows_of(folder):
    with closing(sqlite3.connect(folder / "uns.db")) as database:
        database.row_factory = sqlite3.Row
        return {row["id"]: row for row in database.execute("SELECT * FROM uns_notifications")}


def calls_without_result(folder):
    with closing(sqlite3.connect(folder / "uns.db")) as database:
        kinds = Counter(kind for (kind,) in database.execute("SELECT kind FROM uns_events"))
    return kinds["CHANNEL_ATTEMPT_STARTED"] - kinds["CHANNEL_ATTEMPT_RESULT"]


async def stopped_under_load(folder, receiver, *, prefer="", **settings):
    """
    The crowd, the exit status and the seconds it took of a service that was told to stop at work.
    """
    to = {"channels": {"primary": ["WEBHOOK"]}, "targets": {"WEBHOOK": {"url": receiver.url()}}}
    policies = policy_folder(folder / "policies", a_document(**to))
    plain = {**KEYS, "UNS_POLICY_DIR": str(policies), "UNS_EGRESS_ALLOW": LOOPBACK}
    starting = serving(folder, **plain, **settings)
    service, url = await asyncio.to_thread(starting.__enter__)
    try:
        async with Crowd(int(url.rpartition(":")[2]), OPERATOR, clients=32, prefer=prefer) as crowd:
            await until_accepted(crowd, 64)
            service.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            status = await asyncio.to_thread(service.ended, STOP_SECONDS + 5)
            took = time.monotonic() - began
    finally:
        await asyncio.to_thread(starting.__exit__, None, None, None)
    return crowd, status, took


@pytest.mark.parametrize(
    ("prefer", "wait"),
    [("respond-async", "5"), ("", "0.2"), ("", "30")],
    ids=["no-waits", "short-waits", "long-waits"],
)
async def test_a_service_told_to_stop_answers_everybody_and_finishes_what_it_began(tmp_path, prefer, wait):
    """
    Given a crowd and a slow channel, when the service is told to stop, then it ends well within ten
    seconds, no request was cut off, all that was accepted is on record, and no call is left open.
    """
    async with receiving(pauses(0.5)) as receiver:
        crowd, status, took = await stopped_under_load(
            tmp_path, receiver, prefer=prefer, UNS_SEND_WAIT_SECONDS=wait
        )
    rows, left = rows_of(tmp_path), Counter()
    heard = Counter(msgspec.json.decode(request.body)["data"]["id"] for request in receiver.requests)
    for row in rows.values():
        left[row["status"], row["lease_token"] is not None] += 1

    assert ENDED_WELL == status
    assert STOP_SECONDS > took
    assert [] == crowd.cut
    assert {202} == set(crowd.answers.values())
    assert crowd.refused  # the load went on until the end
    assert set(crowd.accepted.values()) == set(rows)
    assert {("DELIVERED", False), ("PENDING", False)} >= set(left)
    assert 0 == calls_without_result(tmp_path)
    assert {id for id, row in rows.items() if row["status"] == "DELIVERED"} == set(heard)
    assert {1} == set(heard.values())


async def test_a_channel_that_never_answers_does_not_keep_the_service(tmp_path):
    """
    Given calls that outlast every grace, when the service is told to stop, then it still ends well
    within ten seconds, no request was cut off, and nothing accepted is lost.
    """
    async with receiving(hangs()) as receiver:
        crowd, status, took = await stopped_under_load(tmp_path, receiver, UNS_SEND_WAIT_SECONDS="0.2")
    rows = rows_of(tmp_path)

    assert (ENDED_WELL, []) == (status, crowd.cut)
    assert STOP_SECONDS > took
    assert set(crowd.accepted.values()) == set(rows)
    assert {"PENDING"} == {row["status"] for row in rows.values()}
