"""
B04: where one channel failed, a retry does not repeat the channels that had succeeded.
"""

import asyncio

import pytest

from kit.builders import a_request
from kit.channels import ScriptedChannel
from kit.children import Noted, noted, work
from kit.processes import dies_in
from kit.runtimes import LEASE_SECONDS, PRINCIPAL, a_document
from uns import ChannelResult

BOTH = {"primary": ["PAGER", "RADIO"], "require": "all"}
FOR_GOOD = ChannelResult(False, error="no such room", retryable=False)


@pytest.fixture
def radio():
    """
    The second channel: it fails twice, then succeeds.
    """
    return ScriptedChannel(False, False, True)


@pytest.fixture
def both(open_runtime, in_force, channel, radio):
    """
    A runtime whose notifications need PAGER (which succeeds) and RADIO.
    """
    runtime = open_runtime({"PAGER": channel, "RADIO": radio})
    in_force(runtime, a_document(channels=BOTH))
    return runtime


def attempt(runtime, clock):
    """
    Let the longest backoff pass, and attempt what is due.
    """
    clock.advance(300)
    return asyncio.run(runtime.run_once())


def test_only_what_failed_is_sent_again(both, clock, channel, radio):
    """
    B04: given A that succeeds and B that fails twice, when it is retried until it is delivered,
    then A was called once and B three times.
    """
    id = asyncio.run(both.send(a_request(), principal=PRINCIPAL)).notification_id
    while attempt(both, clock):
        pass

    row = both.get(id)
    assert ("DELIVERED", 3) == (row["status"], row["attempts"])
    assert (1, 3) == (len(channel.calls), len(radio.calls))
    assert ["PAGER", "RADIO"] == row["outcome"]["channels_succeeded"]
    assert [] == row["outcome"]["channels_failed"]
    assert {f"{id}:1:RADIO"} == {message.idempotency_token for message in radio.calls}


def test_between_the_attempts_it_says_what_is_missing(both, clock):
    """
    B04: given A that succeeded and B that failed, when somebody looks, then the notification is
    PENDING, A counts as succeeded and B as failed, after each attempt.
    """
    sent = asyncio.run(both.send(a_request(), principal=PRINCIPAL))
    assert ("PENDING", ("PAGER",), ("RADIO",)) == (sent.status, sent.channels_succeeded, sent.channels_failed)
    attempt(both, clock)

    row = both.get(sent.notification_id)
    assert "PENDING" == row["status"]
    assert ["PAGER"] == row["outcome"]["channels_succeeded"]
    assert ["RADIO"] == row["outcome"]["channels_failed"]


def test_a_replay_does_not_repeat_it_either(open_runtime, in_force, clock, channel):
    """
    B04: given a dead letter of which A had been sent, when it is replayed and B succeeds, then A
    was called once in its whole life.
    """
    radio = ScriptedChannel(False, False, False, True)
    runtime = open_runtime({"PAGER": channel, "RADIO": radio})
    in_force(runtime, a_document(channels=BOTH))
    id = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).notification_id
    while attempt(runtime, clock):
        pass
    assert runtime.get(id)["dead_letter"]
    runtime.replay(id, actor="ann")
    attempt(runtime, clock)

    row = runtime.get(id)
    assert ("DELIVERED", 2, 4) == (row["status"], row["cycle"], row["attempts"])
    assert (1, 4) == (len(channel.calls), len(radio.calls))
    assert f"{id}:2:RADIO" == radio.calls[-1].idempotency_token
    assert ["PAGER", "RADIO"] == row["outcome"]["channels_succeeded"]


def test_nor_does_the_worker_after_one_that_was_killed(url, both, clock, channel, tmp_path):
    """
    B04: given A that succeeded and B that kills its worker, when another worker takes over, then
    neither of the two called A again.
    """
    notes = tmp_path / "notes"
    id = asyncio.run(both.send(a_request(), principal=PRINCIPAL)).notification_id
    clock.advance(300)
    adapters = {"PAGER": Noted(notes), "RADIO": Noted(notes, fatal=True)}
    assert dies_in(work, url, clock.now(), adapters, "run_once")
    clock.advance(LEASE_SECONDS)
    asyncio.run(both.run_once())

    assert 1 == len(channel.calls)
    assert [str(id)] == noted(notes)
    assert 3 == both.get(id)["attempts"]


def test_successes_that_suffice_end_it_without_a_call(open_runtime, in_force, clock, channel):
    """
    B04: given an attempt of which everything but its settlement was recorded, when the lease has
    run out, then it ends delivered and no channel is called again.
    """

    class Asleep(ScriptedChannel):
        async def send(self, message):
            clock.advance(LEASE_SECONDS)
            return await super().send(message)

    runtime = open_runtime({"PAGER": channel, "RADIO": (asleep := Asleep())})
    in_force(runtime, a_document(channels=BOTH))
    id = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).notification_id
    assert "PENDING" == runtime.get(id)["status"]
    assert 1 == asyncio.run(runtime.run_once())

    assert ("DELIVERED", 1) == (runtime.get(id)["status"], runtime.get(id)["attempts"])
    assert (1, 1) == (len(channel.calls), len(asleep.calls))


REQUIRES = [
    ("any", [True, False], "DELIVERED", 1, 0),
    ("any", [False, False], "DELIVERED", 1, 1),
    ("all", [True, True], "DELIVERED", 1, 0),
    ("all", [True, False], "PENDING", 1, 0),
    ("all", [False, False], "DELIVERED", 1, 1),
    ("all", [True, FOR_GOOD], "FAILED", 1, 0),
]


@pytest.mark.parametrize(("require", "answers", "status", "attempts", "fallbacks"), REQUIRES)
def test_a_partial_success_counts_as_the_policy_says(
    require, answers, status, attempts, fallbacks, open_runtime, in_force
):
    """
    B04: ``require`` speaks of the primaries; fallbacks are called, and suffice, only where none of
    them succeeded; what can never meet it ends at once.
    """
    pager, radio, fax = ScriptedChannel(answers[0]), ScriptedChannel(answers[1]), ScriptedChannel()
    runtime = open_runtime({"PAGER": pager, "RADIO": radio, "FAX": fax})
    channels = {"primary": ["PAGER", "RADIO"], "fallback": ["FAX"], "require": require}
    in_force(runtime, a_document(channels=channels))
    sent = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL))

    assert (status, fallbacks) == (sent.status, len(fax.calls))
    assert attempts == runtime.get(sent.notification_id)["attempts"]
