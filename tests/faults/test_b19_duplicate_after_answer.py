"""
B19: whatever comes again after the answer leaves the answer as it is.
"""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from kit.builders import a_request
from kit.runtimes import PRINCIPAL, a_document
from uns import Conflict

METADATA = {"ticket": "OPS-7", "notes": ["seen", None]}


@pytest.fixture
def runtime(runtime, in_force):
    in_force(runtime, a_document(require_ack=True, dedup_window_seconds=300, ack_timeout_minutes=60))
    return runtime


@pytest.fixture
def leader(runtime, clock):
    """
    The id of a delivered notification that Ann has acknowledged.
    """
    sent = asyncio.run(runtime.send(a_request(idempotency_key="first"), principal=PRINCIPAL))
    clock.advance(5)
    runtime.acknowledge(sent.notification_id, actor="ann", metadata=METADATA)
    return sent.notification_id


def answer_of(runtime, id):
    row = runtime.get(id)
    return row["ack_status"], row["actor"], row["responded_at"], row["response_metadata"]


def audits(tmp_path):
    with closing(sqlite3.connect(tmp_path / "uns.db")) as connection:
        return connection.execute("SELECT new_status, acked_by FROM ack_audit_records").fetchall()


def again(runtime, clock, **fields):
    clock.advance(1)
    return asyncio.run(runtime.send(a_request(**fields), principal=PRINCIPAL))


def test_duplicates_inherit_the_answer(runtime, clock, leader, channel, tmp_path):
    """
    B19: given an acknowledged notification, when it comes five times more within its window, then
    each is a duplicate that shows the answer as inherited, and the answer itself is untouched.
    """
    answered = answer_of(runtime, leader)
    followers = [again(runtime, clock) for _ in range(5)]

    assert {("DEDUPLICATED", None, "ACKED", True, leader)} == {
        (f.status, f.ack_status, f.effective_ack_status, f.ack_inherited, f.obligation_owner_id)
        for f in followers
    }
    assert ("ACKED", "ann", clock.now() - 5, METADATA) == answered == answer_of(runtime, leader)
    assert [("ACKED", "ann")] == audits(tmp_path)
    assert 1 == len(channel.calls)


def test_its_own_retry_shows_it(runtime, clock, leader):
    """
    B19: given an acknowledged notification, when its own request comes again, then the replay
    shows the answer and changes nothing of it.
    """
    answered = answer_of(runtime, leader)
    replay = again(runtime, clock, idempotency_key="first")

    assert (leader, True, "ACKED") == (replay.notification_id, replay.idempotent_replay, replay.ack_status)
    assert answered == answer_of(runtime, leader)


FACES = {
    "acknowledge": lambda runtime, id: runtime.acknowledge(id, actor="bob"),
    "dismiss": lambda runtime, id: runtime.acknowledge(id, actor="ann", dismiss=True),
    "withdraw": lambda runtime, id: runtime.withdraw(id, actor="bob"),
}


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_follower_cannot_be_answered(face, runtime, clock, leader, tmp_path):
    """
    B19: given a duplicate of an acknowledged notification, when somebody answers the duplicate,
    then it is a conflict that names the owner, and nothing changes.
    """
    answered, follower = answer_of(runtime, leader), again(runtime, clock).notification_id
    before = runtime.get(follower), runtime.events(follower), runtime.events(leader)
    with pytest.raises(Conflict) as refused:
        face(runtime, follower)

    assert str(leader) == refused.value.obligation_owner_id
    assert answered == answer_of(runtime, leader)
    assert before == (runtime.get(follower), runtime.events(follower), runtime.events(leader))
    assert [("ACKED", "ann")] == audits(tmp_path)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_nor_can_the_owner_be_answered_otherwise(face, runtime, leader, tmp_path):
    """
    B19: given an acknowledged notification, when somebody else answers, or Ann does otherwise, then
    it is a conflict, and the answer stands.
    """
    answered = answer_of(runtime, leader)
    with pytest.raises(Conflict):
        face(runtime, leader)

    assert answered == answer_of(runtime, leader)
    assert [("ACKED", "ann")] == audits(tmp_path)


def test_repeating_ones_own_answer_gives_the_first_again(runtime, clock, leader, tmp_path):
    """
    B19: given an acknowledged notification, when Ann acknowledges it again with other metadata,
    then she gets her first answer, and there is no second event or audit record.
    """
    clock.advance(60)
    reply = runtime.acknowledge(leader, actor="ann", metadata={"other": 1})

    assert ("ACKED", "ann", METADATA) == (reply.ack_status, reply.acked_by, reply.metadata)
    assert clock.now() - 60 == reply.acked_at.timestamp()
    assert [("ACKED", "ann")] == audits(tmp_path)
    assert 1 == [event["kind"] for event in runtime.events(leader)].count("ACKED")


@pytest.mark.parametrize(("after", "leads"), [(299.999, False), (300.0, True), (300.001, True)])
def test_a_new_generation_asks_anew(after, leads, runtime, clock, leader, channel):
    """
    B19: given an acknowledged notification, when it comes again at the end of its window or later,
    then it is an obligation of its own, which nobody has answered, and the old answer stands.
    """
    answered = answer_of(runtime, leader)
    clock.set(runtime.get(leader)["delivered_at"] + after)
    sent = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL))

    assert (leads, not leads) == (sent.obligation_owner_id == sent.notification_id, sent.ack_inherited)
    assert ("PENDING" if leads else "ACKED") == sent.effective_ack_status
    assert answered == answer_of(runtime, leader)
    assert 1 + leads == len(channel.calls)
