"""
B01: a worker killed in the middle of a send leaves nothing claimed for ever and nothing uncounted.
"""

import asyncio

import pytest

from kit.builders import a_request
from kit.children import Fatal, Noted, noted, send_and_die, work, work_mortally
from kit.processes import dies_in
from kit.runtimes import LEASE_SECONDS, PRINCIPAL, a_document, kinds_of

JUST = 0.001


@pytest.fixture
def notes(tmp_path):
    return tmp_path / "notes"


@pytest.fixture
def fatal(notes):
    """
    The adapters of a worker that dies of its first call.
    """
    return {"PAGER": Noted(notes, fatal=True)}


def standing(row):
    return row["status"], row["dead_letter"], row["attempts"]


def until_the_lease_ends(runtime, clock, id):
    """
    Let the lease run out, after seeing that nobody claims the row an instant earlier.
    """
    ends = runtime.get(id)["lease_until"]
    clock.set(ends - JUST)
    assert 0 == asyncio.run(runtime.run_once())
    clock.set(ends)


@pytest.mark.parametrize("face", ["dispatch", "run_once", "worker"])
def test_a_notification_that_kills_its_worker_ends_in_the_dead_letters(
    face, url, clock, runtime, channel, fatal, notes
):
    """
    B01: given an adapter that kills its process, when three workers have died of it, then each
    claim was counted and the fourth ends it as a dead letter without a call.
    """
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    arguments = (id,) if face == "dispatch" else ()
    for attempt in (1, 2, 3):
        assert dies_in(work, url, clock.now(), fatal, face, *arguments)
        assert ("PENDING", False, attempt) == standing(runtime.get(id))
        until_the_lease_ends(runtime, clock, id)
    assert 1 == asyncio.run(runtime.run_once())

    assert ("FAILED", True, 3) == standing(runtime.get(id))
    assert "lease expired on the final attempt" == runtime.get(id)["outcome"]["error_message"]
    assert 3 == kinds_of(runtime, id).count("ATTEMPT_STARTED")
    assert [str(id)] * 3 == noted(notes)
    assert [] == channel.calls


def test_its_attempts_begin_anew_when_it_is_replayed(url, clock, runtime, channel, in_force, fatal):
    """
    B01: given a dead letter that killed its worker, when it is replayed, then it is sent once more.
    """
    in_force(runtime, a_document(max_attempts=1))
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    assert dies_in(work, url, clock.now(), fatal, "run_once")
    clock.advance(LEASE_SECONDS)
    asyncio.run(runtime.run_once())
    assert ("FAILED", True, 1) == standing(runtime.get(id))
    runtime.replay(id, actor="ann")
    asyncio.run(runtime.run_once())

    assert ("DELIVERED", False, 2) == standing(runtime.get(id))
    assert [1] == [message.attempt for message in channel.calls]


def test_the_sender_may_be_the_one_that_dies(url, clock, runtime, channel, fatal):
    """
    B01: given a process that dies within its own ``send``, when the lease has run out, then another
    worker delivers what was accepted, with the same token and told that it may be a repetition.
    """
    assert dies_in(send_and_die, url, clock.now(), fatal)
    clock.advance(LEASE_SECONDS)
    assert 1 == asyncio.run(runtime.run_once())

    (call,) = channel.calls
    row = runtime.get(call.notification.id)
    assert ("DELIVERED", False, 2) == standing(row)
    assert f"{row['id']}:1:PAGER" == call.idempotency_token
    started = [e["payload"] for e in runtime.events(row["id"]) if e["kind"] == "ATTEMPT_STARTED"]
    assert [False, True] == [payload["recovery_may_repeat_provider_effect"] for payload in started]


def test_best_effort_has_one_attempt_a_lost_one_included(url, clock, runtime, in_force, channel, fatal):
    """
    B01: given BEST_EFFORT, when its worker has died, then it ends FAILED without a second call and
    without a dead letter.
    """
    in_force(runtime, a_document(delivery_mode="BEST_EFFORT"))
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    assert dies_in(work, url, clock.now(), fatal, "run_once")
    until_the_lease_ends(runtime, clock, id)
    asyncio.run(runtime.run_once())

    assert ("FAILED", False, 1) == standing(runtime.get(id))
    assert [] == channel.calls


def test_those_behind_it_inherit_and_are_sent(url, clock, runtime, in_force, channel, fatal):
    """
    B01: given a follower of a notification that killed its worker for the last time, when it ends,
    then the follower is promoted and delivered.
    """
    in_force(runtime, a_document(dedup_window_seconds=300, max_attempts=1))
    leader, follower = (runtime.accept(a_request(), principal=PRINCIPAL).notification_id for _ in range(2))
    assert dies_in(work, url, clock.now(), fatal, "run_once")
    clock.advance(LEASE_SECONDS)
    asyncio.run(runtime.run_once())
    asyncio.run(runtime.run_once())

    assert ("FAILED", True, 1) == standing(runtime.get(leader))
    assert ("DELIVERED", False, 1) == standing(runtime.get(follower))


MORTAL = [("dispatch", 1), ("dispatch", 2), ("run_once", 1), ("run_once", 2), ("run_once", 3)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("face", "dies_at"), MORTAL)
def test_a_kill_at_any_commit_is_recovered_from(face, dies_at, after, url, clock, runtime, channel, notes):
    """
    B01: given a process killed before or after any of its commits, when the lease has run out,
    then another worker ends the obligation, and it was sent at most twice.
    """
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    arguments = (id,) if face == "dispatch" else ()
    assert dies_in(work_mortally, url, clock.now(), notes, face, dies_at, after, *arguments)
    clock.advance(LEASE_SECONDS)
    asyncio.run(runtime.run_once())

    assert "DELIVERED" == runtime.get(id)["status"]
    assert 1 <= len(noted(notes)) + len(channel.calls) <= 2
    assert runtime.get(id)["attempts"] == kinds_of(runtime, id).count("ATTEMPT_STARTED")


def test_a_callback_that_kills_its_process_ends_too(url, clock, open_runtime, in_force, notes):
    """
    B01: given a callback that kills its process, when three have died of it, then it waits for an
    operator with an error, and is not called a fourth time.
    """
    called = []
    runtime = open_runtime(callback=called.append)
    in_force(runtime, a_document(require_ack=True, channels={"primary": ["LOG"]}))
    id = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).notification_id
    runtime.acknowledge(id, actor="ann")
    for attempt in (1, 2, 3):
        assert dies_in(work, url, clock.now(), {"callback": Fatal()}, "deliver_callbacks")
        assert attempt == runtime.events(id)[-1]["callback_attempts"]
        clock.advance(30)
    asyncio.run(runtime.deliver_callbacks())

    (waiting,) = runtime.exhausted_callbacks()
    assert ("ACKED", 3, True) == (waiting["kind"], waiting["callback_attempts"], waiting["callback_pending"])
    assert waiting["callback_error"]
    assert [] == called
