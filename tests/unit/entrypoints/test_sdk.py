"""
``Runtime`` as its users meet it: what goes in, what comes out, and when.
"""

import asyncio
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

import msgspec
import pytest

from kit.builders import AGENT, a_request
from kit.channels import ScriptedChannel
from kit.runtimes import LEASE_SECONDS, PRINCIPAL, a_document, kinds_of
from uns import ChannelResult, Conflict, Rejected, SimpleAdapterRegistry
from uns.responses import AckResponse, Projection, SendNotificationResponse, SimulationResponse

WINDOW = 300.0

pytestmark = pytest.mark.parametrize("url", ["file", "memory"], indirect=True)


@pytest.fixture
def coalescing(runtime, in_force):
    """
    The runtime under a policy with a dedup window and answers.
    """
    in_force(runtime, a_document(dedup_window_seconds=WINDOW, require_ack=True))
    return runtime


def send(runtime, **fields):
    return asyncio.run(runtime.send(a_request(**fields), principal=PRINCIPAL))


def accept(runtime, **fields):
    return runtime.accept(a_request(**fields), principal=PRINCIPAL)


def only_json(value):
    """
    Whether ``value`` is made of nothing but the plain types that JSON has, subclasses not counted.
    """
    if type(value) is dict:
        return all(type(key) is str and only_json(part) for key, part in value.items())
    if type(value) is list:
        return all(map(only_json, value))
    return value is None or type(value) in {str, int, float, bool}


def test_reads_give_plain_dictionaries(coalescing, in_force, open_runtime):
    """
    ``get``, ``events`` and ``dead_letters`` give text ids, float times and text states only.
    """
    id = send(coalescing).notification_id
    coalescing.acknowledge(id, actor="ann", metadata={"a": [1]})
    row, events = coalescing.get(id), coalescing.events(id)

    assert all(map(only_json, (row, events)))
    assert (str(id), str(id), "DELIVERED", "ACKED") == (
        row["id"],
        row["notification_id"],
        row["status"],
        row["ack_status"],
    )
    assert {float} == {
        type(row[name]) for name in ("accepted_at", "delivered_at", "deadline", "responded_at")
    }
    assert ["ACCEPTED", "ATTEMPT_STARTED", "CHANNEL_ATTEMPT_STARTED"] == [e["kind"] for e in events[:3]]
    assert {float} == {type(event["at"]) for event in events}


def test_dead_letters_are_plain_too(open_runtime, in_force):
    """
    Dead letters are rows in plain types, oldest first, with what blocks their replay.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(False)}, max_attempts=1)
    in_force(runtime, a_document())
    ids = [str(send(runtime).notification_id) for _ in range(3)]
    letters = runtime.dead_letters()

    assert only_json(letters)
    assert ids == [letter["id"] for letter in letters]
    assert {("FAILED", True, None, None)} == {
        (letter["status"], letter["dead_letter"], letter["replay_blocked_by"], letter["replay_block_reason"])
        for letter in letters
    }


def test_there_is_no_end_to_the_list_of_dead_letters(open_runtime, in_force):
    """
    Given more dead letters than a page of the store, when they are listed, then each is there once,
    although many were accepted at one instant.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(ChannelResult(False, retryable=False))})
    in_force(runtime, a_document())
    ids = [str(accept(runtime).notification_id) for _ in range(203)]
    while asyncio.run(runtime.run_once()):
        pass

    assert sorted(ids) == [letter["id"] for letter in runtime.dead_letters()]


REPLIES = {
    "accept": (SendNotificationResponse, lambda runtime, id: accept(runtime)),
    "send": (SendNotificationResponse, lambda runtime, id: send(runtime)),
    "simulate": (SimulationResponse, lambda runtime, id: runtime.simulate(a_request(), principal=PRINCIPAL)),
    "acknowledge": (AckResponse, lambda runtime, id: runtime.acknowledge(id, actor="ann")),
    "response": (Projection, lambda runtime, id: runtime.response(id)),
    "wait": (Projection, lambda runtime, id: asyncio.run(runtime.wait(id, timeout=0))),
    "withdraw": (SendNotificationResponse, lambda runtime, id: runtime.withdraw(id, actor="ann")),
}


@pytest.mark.parametrize(("type_", "call"), REPLIES.values(), ids=REPLIES)
def test_replies_are_frozen_structs(type_, call, coalescing):
    """
    Replies are frozen, with UUIDs, aware datetimes in UTC and states that are ``StrEnum``.
    """
    reply = call(coalescing, send(coalescing).notification_id)

    assert type_ is type(reply)
    with pytest.raises(AttributeError):
        reply.notification_id = None
    for name, value in msgspec.structs.asdict(reply).items():
        if value is None:
            continue
        if name.endswith("_id") and name not in {"policy_id", "agent_id"}:
            assert UUID is type(value), name
        elif name.endswith("_at"):
            assert timedelta(0) == value.utcoffset(), name
        elif "status" in name:
            assert isinstance(value, StrEnum), name


def test_ids_may_be_uuids_or_text(coalescing):
    """
    An id is taken as UUID or as text, and is a UUIDv7.
    """
    id = send(coalescing).notification_id

    assert (UUID, 7) == (type(id), id.version)
    for form in (id, str(id), str(id).upper(), id.hex, id.urn):
        assert str(id) == coalescing.get(form)["id"]
        assert coalescing.response(form).notification_id == id
        assert 5 == len(coalescing.events(form))


UNKNOWN = [
    UUID(int=7),
    str(UUID(int=7)),
    "",
    "nonsense",
    "7",
    " ",
    "\0",
    "\ud83d",
    None,
    7,
    b"\0" * 16,
    "01a22e60-1083-707f-9579-c8195265540e'--",
]
RAISING = {
    "get": lambda runtime, id: runtime.get(id),
    "events": lambda runtime, id: runtime.events(id),
    "response": lambda runtime, id: runtime.response(id),
    "wait": lambda runtime, id: asyncio.run(runtime.wait(id)),
    "acknowledge": lambda runtime, id: runtime.acknowledge(id, actor="ann"),
    "dismiss": lambda runtime, id: runtime.acknowledge(id, actor="ann", dismiss=True),
    "withdraw": lambda runtime, id: runtime.withdraw(id, actor="ann"),
    "replay": lambda runtime, id: runtime.replay(id, actor="ann"),
    "rearm_callback": lambda runtime, id: runtime.rearm_callback(id),
}
SILENT = {
    "dispatch": lambda runtime, id: asyncio.run(runtime.dispatch(id)),
    "resolve_failure": lambda runtime, id: runtime.resolve_failure(id, actor="ann"),
}


@pytest.mark.parametrize("call", RAISING.values(), ids=RAISING)
def test_an_unknown_id_is_a_key_error(call, runtime):
    """
    Given an id that is unknown, or is none at all, when something is asked of it, then that is a
    ``KeyError`` with the code of HTTP's 404.
    """
    for id in UNKNOWN:
        with pytest.raises(KeyError) as refused:
            call(runtime, id)
        assert ("not_found", 404) == (refused.value.code, refused.value.status)
        assert str(refused.value).endswith("not found.") or str(refused.value).endswith("not found")


@pytest.mark.parametrize("call", SILENT.values(), ids=SILENT)
def test_an_unknown_id_is_false_where_the_answer_is_yes_or_no(call, runtime):
    """
    Given an id that is unknown, or is none at all, when it is dispatched or resolved, then the
    answer is False.
    """
    assert {False} == {call(runtime, id) for id in UNKNOWN}


def test_accepting_leaves_the_sending_to_a_worker(coalescing, channel):
    """
    Given a request, when it is accepted, then it is PENDING and its own owner, and nothing is sent.
    """
    accepted = accept(coalescing)

    assert ("PENDING", False, "accepted") == (accepted.status, accepted.idempotent_replay, accepted.message)
    assert accepted.notification_id == accepted.obligation_owner_id
    assert ["ACCEPTED"] == kinds_of(coalescing, accepted.notification_id)
    assert [] == channel.calls


def test_what_comes_again_follows_or_is_satisfied(coalescing, clock, channel):
    """
    Given a pending leader, then a delivered one, when its content comes again within the window,
    then it is a follower, then a satisfied duplicate, and nothing is sent for either.
    """
    leader, follower = accept(coalescing), send(coalescing)
    assert ("PENDING", leader.notification_id, True) == (
        follower.status,
        follower.obligation_owner_id,
        follower.ack_inherited,
    )
    assert 1 == asyncio.run(coalescing.run_once())
    duplicate = send(coalescing)

    assert ("DEDUPLICATED", leader.notification_id) == (duplicate.status, duplicate.obligation_owner_id)
    assert "DEDUPLICATED" == coalescing.get(follower.notification_id)["status"]
    assert 1 == len(channel.calls)


def test_a_request_is_stored_whole(runtime):
    """
    Given every field of a request, when it is stored, then all of it is there, and what was
    resolved for it.
    """
    fields = {
        "irreversible": True,
        "idempotency_key": "k",
        "dedup_key": "d",
        "correlation_id": "c",
        "metadata": {"a": [1, 2.5, None, True, {"b": "é"}]},
    }
    row = runtime.get(accept(runtime, **fields).notification_id)

    stored = row["notification"]
    assert fields == {name: stored[name] for name in fields} | {"metadata": {"a": stored["metadata"]["a"]}}
    assert ["base"] == [step["step"] for step in stored["metadata"]["uns_resolution"]["steps"]]
    assert (PRINCIPAL, "pay", "system.alert", "OPERATIONAL", AGENT, "LIVE", "c") == tuple(
        row[name]
        for name in (
            "principal",
            "source",
            "notification_type",
            "intent",
            "agent_id",
            "autonomy_mode",
            "correlation_id",
        )
    )


def test_a_channel_is_given_the_notification_and_how_to_call(open_runtime, in_force):
    """
    A channel sees the request's fields and the id, the operator's target, the token, the number
    of the attempt in its cycle and the time it has.
    """
    channel = ScriptedChannel(False, True)
    runtime = open_runtime({"PAGER": channel}, retry_seconds=0)
    in_force(runtime, a_document(targets={"PAGER": {"room": 7}}))
    id = str(send(runtime, metadata={"a": 1}, correlation_id="c").notification_id)
    asyncio.run(runtime.run_once())

    first, second = channel.calls
    assert (id, "disk is filling up", "/var is at 91 %", "c") == (
        first.notification.id,
        first.notification.title,
        first.notification.message,
        first.notification.correlation_id,
    )
    assert 1 == first.notification.metadata["a"]
    assert UUID(AGENT) == first.notification.autonomy_context.agent_id
    assert {"room": 7} == first.target
    assert (f"{id}:1:PAGER", f"{id}:1:PAGER") == (first.idempotency_token, second.idempotency_token)
    assert (1, 2) == (first.attempt, second.attempt)
    assert 10.0 == pytest.approx(first.deadline)


def test_what_a_channel_said_is_in_the_timeline(open_runtime, in_force):
    """
    Given what a provider answered, when the timeline is read, then it is there.
    """
    said = ChannelResult(True, message_id="m-1", metadata={"ts": "1.2"})
    runtime = open_runtime({"PAGER": ScriptedChannel(said)})
    in_force(runtime, a_document())
    sent = send(runtime)

    (result,) = (
        e["payload"] for e in runtime.events(sent.notification_id) if e["kind"] == "CHANNEL_ATTEMPT_RESULT"
    )
    assert ("PAGER", True, "m-1", {"ts": "1.2"}) == (
        result["channel"],
        result["success"],
        result["message_id"],
        result["metadata"],
    )


def test_adapters_may_be_registered_later(open_runtime, in_force, channel):
    """
    Given a runtime that is at work, when an adapter is registered, then policies may name its
    channel, and it is called.
    """
    registry = SimpleAdapterRegistry()
    runtime = open_runtime(registry)
    with pytest.raises(Rejected, match="PAGER"):
        in_force(runtime, a_document())
    registry.register("PAGER", channel)
    in_force(runtime, a_document())

    assert "DELIVERED" == send(runtime).status
    registry.register("PAGER", other := ScriptedChannel())
    send(runtime)
    assert (1, 1) == (len(channel.calls), len(other.calls))


@pytest.mark.parametrize("succeeds", [True, False])
def test_sending_returns_after_its_one_attempt(succeeds, open_runtime, in_force):
    """
    Given a policy that would be tried for hours, when it is sent, then it returns once its first
    attempt has settled, never after a backoff.
    """
    channel = ScriptedChannel(succeeds)
    runtime = open_runtime({"PAGER": channel}, max_attempts=20, retry_seconds=3600)
    in_force(runtime, a_document())
    sent = asyncio.run(asyncio.wait_for(runtime.send(a_request(), principal=PRINCIPAL), 5))

    assert ("DELIVERED" if succeeds else "PENDING") == sent.status
    assert (("PAGER",), () if succeeds else ("PAGER",)) == (sent.channels_attempted, sent.channels_failed)
    assert 1 == len(channel.calls)
    assert "DELIVERY_RESULT" == kinds_of(runtime, sent.notification_id)[-1]


class Closed:
    """
    A channel that does not answer before it is opened.
    """

    def __init__(self):
        self.called = asyncio.Event()
        self.open = asyncio.Event()

    async def send(self, message):
        self.called.set()
        await self.open.wait()
        return ChannelResult(True)


async def test_what_needs_no_attempt_returns_at_once(open_runtime, in_force):
    """
    Given a leader whose channel does not answer yet, when a follower, a replay and later a
    duplicate are sent, then each returns at once, without a call.
    """
    channel = Closed()
    runtime = open_runtime({"PAGER": channel})
    in_force(runtime, a_document(dedup_window_seconds=WINDOW))

    async def send(key):
        request = a_request(idempotency_key=key)
        return await asyncio.wait_for(runtime.send(request, principal=PRINCIPAL), 5)

    leading = asyncio.ensure_future(send("leader"))
    await channel.called.wait()
    follower, replay = await send("follower"), await send("leader")
    assert ("PENDING", True, "PENDING", True) == (
        follower.status,
        follower.ack_inherited,
        replay.status,
        replay.idempotent_replay,
    )
    channel.open.set()
    leader = await leading
    channel.open.clear()
    duplicate, again = await send("duplicate"), await send("follower")

    assert ("DELIVERED", "DEDUPLICATED") == (leader.status, duplicate.status)
    assert (True, "DEDUPLICATED") == (again.idempotent_replay, again.status)


def test_the_default_budget_is_three_attempts_from_one_second(open_runtime, in_force, clock):
    """
    Given a runtime with the documented defaults, when every attempt fails, then the second comes
    after 1 s, the third 2 s later (up to a fifth more of jitter), and there is no fourth.
    """
    channel = ScriptedChannel(False)
    runtime = open_runtime({"PAGER": channel})
    in_force(runtime, a_document())
    id = send(runtime).notification_id
    for calls, seconds in [(1, 1.0), (2, 2.0)]:
        due = runtime.get(id)["next_attempt"]
        assert seconds <= due - clock.now() <= 1.2 * seconds
        clock.set(due - 0.001)
        assert 0 == asyncio.run(runtime.run_once())
        assert calls == len(channel.calls)
        clock.set(due)
        assert 1 == asyncio.run(runtime.run_once())
    clock.advance(86_400)

    assert ("FAILED", True, 3) == (
        runtime.get(id)["status"],
        runtime.get(id)["dead_letter"],
        runtime.get(id)["attempts"],
    )
    assert 0 == asyncio.run(runtime.run_once())


def test_the_policys_budget_counts_before_the_runtimes(open_runtime, in_force):
    """
    Given a policy with a number of attempts, when it is sent, then that number counts.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(False)}, max_attempts=9)
    in_force(runtime, a_document(max_attempts=1))

    assert "FAILED" == send(runtime).status


def test_dispatching_is_true_once_an_outcome_is_committed(open_runtime, in_force):
    """
    Given attempts that fail, fail for good and succeed, when each is dispatched, then the answer is
    True whatever came of it.
    """
    channel = ScriptedChannel(False, ChannelResult(False, retryable=False), True)
    runtime = open_runtime({"PAGER": channel})
    in_force(runtime, a_document())
    ids = [accept(runtime).notification_id for _ in range(3)]

    assert [True] * 3 == [asyncio.run(runtime.dispatch(id)) for id in ids]
    assert ["PENDING", "FAILED", "DELIVERED"] == [runtime.get(id)["status"] for id in ids]


def unclaimable(runtime, clock, what):
    """
    The id of a notification that cannot be claimed now.
    """
    match what:
        case "delivered":
            return send(runtime).notification_id
        case "follower":
            accept(runtime)
            return accept(runtime).notification_id
        case "duplicate":
            send(runtime)
            return send(runtime).notification_id
        case "withdrawn":
            id = accept(runtime).notification_id
            runtime.withdraw(id, actor="ann")
            return id


@pytest.mark.parametrize("what", ["delivered", "follower", "duplicate", "withdrawn"])
def test_dispatching_is_false_where_nothing_is_to_be_sent(what, coalescing, clock, channel):
    """
    Given a notification that is no pending leader, when it is dispatched, then the answer is False
    and nothing of it changes.
    """
    id = unclaimable(coalescing, clock, what)
    before, calls = (coalescing.get(id), coalescing.events(id)), len(channel.calls)

    assert asyncio.run(coalescing.dispatch(id)) is False
    assert before == (coalescing.get(id), coalescing.events(id))
    assert calls == len(channel.calls)


@pytest.mark.parametrize(("early", "claimed"), [(0.001, False), (0.0, True), (-0.001, True)])
def test_dispatching_waits_for_the_backoff(early, claimed, open_runtime, in_force, clock):
    """
    Given a failed attempt, when it is dispatched before its next one is due, then the answer is
    False; from that instant on it is attempted.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(False)})
    in_force(runtime, a_document())
    id = send(runtime).notification_id
    clock.set(runtime.get(id)["next_attempt"] - early)

    assert claimed is asyncio.run(runtime.dispatch(id))


def test_a_dead_letter_is_not_dispatched(open_runtime, in_force, clock):
    """
    Given a dead letter, when it is dispatched, then the answer is False, until it is replayed.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(False, True)}, max_attempts=1)
    in_force(runtime, a_document())
    id = send(runtime).notification_id
    clock.advance(86_400)
    assert asyncio.run(runtime.dispatch(id)) is False
    runtime.replay(id, actor="ann")

    assert asyncio.run(runtime.dispatch(id)) is True
    assert "DELIVERED" == runtime.get(id)["status"]


async def test_a_lease_that_is_held_is_not_dispatched(open_runtime, in_force):
    """
    Given a call in flight, when the same notification is dispatched, then the answer is False.
    """
    channel = Closed()
    runtime = open_runtime({"PAGER": channel})
    in_force(runtime, a_document())
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    first = asyncio.ensure_future(runtime.dispatch(id))
    await channel.called.wait()
    assert await runtime.dispatch(id) is False
    channel.open.set()

    assert await first is True


async def test_a_lease_that_was_lost_is_false(open_runtime, in_force, clock):
    """
    Given a call that outlives its lease while another dispatch takes over, when it returns, then
    its answer is False, and what the other one settled stands.
    """

    class Overtaken(ScriptedChannel):
        async def send(self, message):
            if not self.calls:
                await super().send(message)
                clock.advance(LEASE_SECONDS)
                assert await runtime.dispatch(message.notification.id) is True
                return ChannelResult(False)
            return await super().send(message)

    runtime = open_runtime({"PAGER": Overtaken()})
    in_force(runtime, a_document())
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id

    assert await runtime.dispatch(id) is False
    assert ("DELIVERED", 2) == (runtime.get(id)["status"], runtime.get(id)["attempts"])
    assert "LEASE_LOST" in kinds_of(runtime, id)


def test_a_round_attempts_what_is_due_and_sweeps(open_runtime, in_force, clock):
    """
    Given due notifications, ones that are not, an overdue answer and a due callback, when a round
    is run, then it attempts a hundred at most, times out, says how many it attempted, and leaves
    the callbacks to others.
    """
    called = []

    async def callback(event):
        called.append(event)

    runtime = open_runtime({"PAGER": ScriptedChannel()}, callback=callback)
    in_force(runtime, a_document(require_ack=True, ack_timeout_minutes=1))
    asked = send(runtime).notification_id
    clock.advance(60)
    for _ in range(102):
        accept(runtime)

    assert [100, 2, 0] == [asyncio.run(runtime.run_once()) for _ in range(3)]
    assert "TIMED_OUT" == runtime.get(asked)["ack_status"]
    assert [] == called


def test_an_answer_is_recorded(coalescing, clock):
    """
    Given a delivered notification, when it is acknowledged or dismissed, then the reply says by
    whom and when, and so do its row and its timeline.
    """
    for n, dismiss in enumerate((False, True)):
        id = send(coalescing, title=f"alert {n}").notification_id
        clock.advance(1.5)
        reply = coalescing.acknowledge(id, actor="ann", dismiss=dismiss, metadata={"ticket": 7})

        word = "DISMISSED" if dismiss else "ACKED"
        assert (id, word, "ann", {"ticket": 7}) == (*msgspec.structs.astuple(reply)[:3], reply.metadata)
        assert clock.now() == reply.acked_at.timestamp() == coalescing.get(id)["responded_at"]
        assert (word, {"actor": "ann", "metadata": {"ticket": 7}}) == (
            coalescing.events(id)[-1]["kind"],
            coalescing.events(id)[-1]["payload"],
        )
        assert word == coalescing.response(id).effective_ack_status


NOT_ASKED = ["requires no answer", "is not delivered yet", "failed"]


@pytest.mark.parametrize("what", NOT_ASKED)
def test_what_awaits_no_answer_takes_none(what, open_runtime, in_force):
    """
    Given a notification that awaits no answer, when it is acknowledged, then that is a conflict.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(what != "failed")}, max_attempts=1)
    in_force(runtime, a_document(require_ack=what != "requires no answer"))
    id = (accept if what == "is not delivered yet" else send)(runtime).notification_id
    with pytest.raises(Conflict) as refused:
        runtime.acknowledge(id, actor="ann")

    assert ("conflict", 409) == (refused.value.code, refused.value.status)
    assert None is runtime.get(id)["ack_status"]


@pytest.fixture
def failed(open_runtime, in_force):
    """
    A runtime whose channel fails once, and the id of its dead letter.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(False, True)}, max_attempts=1)
    in_force(runtime, a_document(dedup_window_seconds=WINDOW))
    return runtime, send(runtime).notification_id


def test_a_replay_begins_a_new_cycle(failed, clock):
    """
    Given a dead letter, when it is replayed, then it is pending in its next cycle with its history
    kept, and is delivered by the next round.
    """
    runtime, id = failed
    assert runtime.replay(id, actor="ann") is None
    row = runtime.get(id)
    assert ("PENDING", False, 2, 0, 1) == tuple(
        row[name] for name in ("status", "dead_letter", "cycle", "cycle_attempts", "attempts")
    )
    asyncio.run(runtime.run_once())

    assert ("DELIVERED", 2) == (runtime.get(id)["status"], runtime.get(id)["attempts"])
    assert {"actor": "ann", "cycle": 2, "cumulative_attempts": 1} == next(
        e["payload"] for e in runtime.events(id) if e["kind"] == "REPLAY_REQUESTED"
    )
    assert [] == runtime.dead_letters()


def test_only_a_dead_letter_can_be_replayed(failed):
    """
    Given a notification that is no dead letter, or one whose successor lives, when it is replayed,
    then that is a conflict, with the reason that the list shows, and nothing changes.
    """
    runtime, id = failed
    successor = accept(runtime).notification_id
    (letter,) = runtime.dead_letters()
    assert (str(successor), "SUCCESSOR_PENDING") == (
        letter["replay_blocked_by"],
        letter["replay_block_reason"],
    )
    for other, by, reason in [
        (id, str(successor), "SUCCESSOR_PENDING"),
        (successor, None, "NOT_DEAD_LETTERED"),
    ]:
        before = runtime.get(other)
        with pytest.raises(Conflict) as refused:
            runtime.replay(other, actor="ann")
        assert (by, reason) == (refused.value.replay_blocked_by, refused.value.reason)
        assert before == runtime.get(other)


def test_a_replay_makes_its_row_the_owner_again(open_runtime, in_force):
    """
    Given a dead letter whose heir failed too, when it is replayed, then both resolve to it, and the
    heir's replay is blocked by it.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(False)}, max_attempts=1)
    in_force(runtime, a_document(dedup_window_seconds=WINDOW))
    leader, heir = (accept(runtime).notification_id for _ in range(2))
    for _ in range(2):
        asyncio.run(runtime.run_once())
    assert [heir, heir] == [runtime.response(id).obligation_owner_id for id in (leader, heir)]
    runtime.replay(leader, actor="ann")

    assert [leader, leader] == [runtime.response(id).obligation_owner_id for id in (leader, heir)]
    with pytest.raises(Conflict) as refused:
        runtime.replay(heir, actor="ann")
    assert str(leader) == refused.value.replay_blocked_by


def test_a_failure_is_resolved_once(failed):
    """
    Given a dead letter, when it is resolved, then the answer is True the first time and False from
    then on; its status and history stay.
    """
    runtime, id = failed

    assert [True, False] == [runtime.resolve_failure(form, actor="ann") for form in (id, str(id))]
    row = runtime.get(id)
    assert ("FAILED", False) == (row["status"], row["dead_letter"])
    assert "PAGER" in row["outcome"]["channels_failed"]
    assert ("FAILURE_RESOLVED", {"actor": "ann"}) == (
        runtime.events(id)[-1]["kind"],
        runtime.events(id)[-1]["payload"],
    )
    assert [] == runtime.dead_letters()


def test_what_has_not_failed_is_not_resolved(coalescing):
    """
    Given a notification that is pending or delivered, when it is resolved, then the answer is False
    and nothing changes.
    """
    for id in (accept(coalescing).notification_id, send(coalescing, title="other").notification_id):
        before = coalescing.get(id), coalescing.events(id)

        assert coalescing.resolve_failure(id, actor="ann") is False
        assert before == (coalescing.get(id), coalescing.events(id))


def test_what_is_not_delivered_yet_ends_when_withdrawn(coalescing, channel):
    """
    Given a pending leader and its followers, when the leader is withdrawn, then all of them end
    FAILED without a dead letter, nothing is handed on, and nothing is ever sent.
    """
    leader, *followers = (accept(coalescing).notification_id for _ in range(3))
    withdrawn = coalescing.withdraw(leader, actor="ann")
    assert (leader, "FAILED", "failed: withdrawn") == (
        withdrawn.notification_id,
        withdrawn.status,
        withdrawn.message,
    )
    rows = [coalescing.get(id) for id in (leader, *followers)]
    assert {("FAILED", False, None)} == {
        (row["status"], row["dead_letter"], row["dedup_successor_id"]) for row in rows
    }
    assert {str(leader)} == {row["dedup_owner_id"] for row in rows[1:]}
    assert "WITHDRAWN" == kinds_of(coalescing, leader)[-1]
    assert 0 == asyncio.run(coalescing.run_once())

    assert [] == channel.calls
    assert coalescing.withdraw(leader, actor="bob") == withdrawn


def test_what_awaits_an_answer_is_dismissed_when_withdrawn(coalescing):
    """
    Given a delivered notification that awaits an answer, when it is withdrawn, then it stays
    delivered, and is dismissed by who withdrew it.
    """
    id = send(coalescing).notification_id
    first, again = (coalescing.withdraw(id, actor=actor) for actor in ("ann", "bob"))

    row = coalescing.get(id)
    assert ("DELIVERED", "DISMISSED", "ann", {"withdrawn": True}) == tuple(
        row[name] for name in ("status", "ack_status", "actor", "response_metadata")
    )
    assert first == again
    assert ["DISMISSED", "WITHDRAWN"] == kinds_of(coalescing, id)[-2:]


@pytest.mark.parametrize("what", ["answered", "timed out", "in need of no answer", "dead letter"])
def test_what_has_ended_cannot_be_withdrawn(what, open_runtime, in_force, clock):
    """
    Given an obligation that has ended, when it is withdrawn, then that is a conflict, and nothing
    changes.
    """
    runtime = open_runtime({"PAGER": ScriptedChannel(what != "dead letter")}, max_attempts=1)
    in_force(runtime, a_document(require_ack=what != "in need of no answer"))
    id = send(runtime).notification_id
    if what == "answered":
        runtime.acknowledge(id, actor="ann")
    if what == "timed out":
        clock.advance(86_400)
        runtime.expire()
    before = runtime.get(id), runtime.events(id)
    with pytest.raises(Conflict):
        runtime.withdraw(id, actor="ann")

    assert before == (runtime.get(id), runtime.events(id))


async def test_what_is_being_sent_can_be_withdrawn(open_runtime, in_force):
    """
    Given a call in flight, when its notification is withdrawn, then what the call comes to is on
    record, and settles nothing.
    """
    channel = Closed()
    runtime = open_runtime({"PAGER": channel})
    in_force(runtime, a_document())
    id = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    calling = asyncio.ensure_future(runtime.dispatch(id))
    await channel.called.wait()
    runtime.withdraw(id, actor="ann")
    channel.open.set()
    assert await calling is False

    assert ("FAILED", False) == (runtime.get(id)["status"], runtime.get(id)["dead_letter"])
    assert ["WITHDRAWN", "CHANNEL_ATTEMPT_RESULT", "LEASE_LOST"] == kinds_of(runtime, id)[-3:]
