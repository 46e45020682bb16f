"""
What ``Runtime`` refuses: with a code, with the field, and with nothing written.
"""

import asyncio
import sqlite3
from contextlib import closing

import msgspec
import pytest

from kit.builders import AGENT, a_request
from kit.runtimes import PRINCIPAL, a_document
from uns import AutonomyContextRequest, Rejected, SendNotificationRequest
from uns.ports.errors import NoPolicy


@pytest.fixture
def everything(tmp_path):
    """
    All rows of the database, table by table.
    """

    def everything():
        with closing(sqlite3.connect(tmp_path / "uns.db")) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {t: connection.execute(f'SELECT * FROM "{t}"').fetchall() for (t,) in tables}

    return everything


@pytest.fixture
def id(runtime, in_force):
    """
    A delivered notification that awaits an answer.
    """
    in_force(runtime, a_document(require_ack=True))
    return asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).notification_id


INTAKE = {
    "accept": lambda runtime, request, principal: runtime.accept(request, principal=principal),
    "send": lambda runtime, request, principal: asyncio.run(runtime.send(request, principal=principal)),
    "simulate": lambda runtime, request, principal: runtime.simulate(request, principal=principal),
}
NAMELESS = [None, 7, b"ann", "", " ", "\u00a0", "\t", "a\nb", "a\0", "a" * 256, "\ud83d", ["ann"]]


@pytest.mark.parametrize("call", INTAKE.values(), ids=INTAKE)
def test_intake_needs_a_principal(call, runtime, everything):
    """
    Given no principal, a blank or an overlong one, when a request is put in, then it is refused
    and nothing is written.
    """
    before = everything()
    for principal in NAMELESS:
        with pytest.raises(ValueError, match=r"^principal ") as refused:
            call(runtime, a_request(), principal)
        assert ("validation_error", 422, "principal") == (
            refused.value.code,
            refused.value.status,
            refused.value.path,
        )
    with pytest.raises(TypeError):
        runtime.accept(a_request())

    assert before == everything()


ACTED = {
    "acknowledge": lambda runtime, id, actor: runtime.acknowledge(id, actor=actor),
    "dismiss": lambda runtime, id, actor: runtime.acknowledge(id, actor=actor, dismiss=True),
    "withdraw": lambda runtime, id, actor: runtime.withdraw(id, actor=actor),
    "replay": lambda runtime, id, actor: runtime.replay(id, actor=actor),
    "resolve_failure": lambda runtime, id, actor: runtime.resolve_failure(id, actor=actor),
}


@pytest.mark.parametrize("call", ACTED.values(), ids=ACTED)
def test_whoever_acts_has_a_name(call, runtime, id, everything):
    """
    Given no actor, a blank or an overlong one, when something is done in its name, then it is
    refused and nothing is written.
    """
    before = everything()
    for actor in NAMELESS:
        with pytest.raises(ValueError, match=r"^actor ") as refused:
            call(runtime, id, actor)
        assert ("validation_error", 422, "actor") == (
            refused.value.code,
            refused.value.status,
            refused.value.path,
        )

    assert before == everything()


def nested(depth):
    return {"a": nested(depth - 1)} if depth > 1 else {}


NOT_JSON = [
    ([], "metadata"),
    ("{}", "metadata"),
    ({1: 2}, "metadata"),
    ({"a": float("nan")}, "metadata.a"),
    ({"a": {"b": [1, float("inf")]}}, "metadata.a.b.1"),
    ({"a": "\0"}, "metadata.a"),
    ({"a": "\ud83d"}, "metadata.a"),
    ({"\0": 1}, "metadata"),
    ({"a": 2**64}, "metadata.a"),
    ({"a": (1,)}, "metadata.a"),
    ({"a": {1}}, "metadata.a"),
    ({"a": object()}, "metadata.a"),
    ({"a": "x" * 65_536}, "metadata"),
    (nested(33), "metadata" + ".a" * 32),
]


@pytest.mark.parametrize(("metadata", "path"), NOT_JSON)
def test_answers_carry_json_or_nothing(metadata, path, runtime, id, everything):
    """
    Given metadata that is no JSON object of a bearable size, when an answer brings it, then the
    answer is refused with the path, and nothing is written.
    """
    before = everything()
    with pytest.raises(ValueError, match=r"^metadata") as refused:
        runtime.acknowledge(id, actor="ann", metadata=metadata)

    assert ("validation_error", path) == (refused.value.code, refused.value.path)
    assert before == everything()


CONTEXT = {"autonomy_mode": "LIVE", "agent_id": AGENT}
BAD_FIELDS = [
    ("title", "", "title"),
    ("title", "a" * 201, "title"),
    ("title", "two\nlines", "title"),
    ("title", 7, "title"),
    ("message", "", "message"),
    ("message", "a" * 65_537, "message"),
    ("message", "\0", "message"),
    ("source", "", "source"),
    ("source", "a" * 256, "source"),
    ("intent", "URGENT", "intent"),
    ("intent", "operational", "intent"),
    ("notification_type", "System.Alert", "notification_type"),
    ("notification_type", "a..b", "notification_type"),
    ("irreversible", "false", "irreversible"),
    ("irreversible", 0, "irreversible"),
    ("require_ack", 1, "require_ack"),
    ("priority", "URGENT", "priority"),
    ("delivery_mode", "SOMETIMES", "delivery_mode"),
    ("idempotency_key", "", "idempotency_key"),
    ("idempotency_key", "k" * 256, "idempotency_key"),
    ("dedup_key", "", "dedup_key"),
    ("correlation_id", "\ud83d", "correlation_id"),
    ("autonomy_context", None, "autonomy_context"),
    ("autonomy_context", {}, "autonomy_context.autonomy_mode"),
    ("autonomy_context", CONTEXT | {"agent_id": "nobody"}, "autonomy_context.agent_id"),
    ("autonomy_context", CONTEXT | {"autonomy_mode": "ON"}, "autonomy_context.autonomy_mode"),
    ("autonomy_context", CONTEXT | {"plan_id": 7}, "autonomy_context.plan_id"),
    ("autonomy_context", CONTEXT | {"mood": "good"}, "autonomy_context.mood"),
    ("metadata", {"a": float("nan")}, "metadata.a"),
    ("metadata", None, "metadata"),
]


@pytest.mark.parametrize(("name", "value", "path"), BAD_FIELDS)
def test_a_bad_field_is_named(name, value, path):
    """
    Given a value that its field may not have, when a request is made of it, then the error names
    the field's path, and says it in the first words.
    """
    with pytest.raises(ValueError, match=f"^{path} ") as refused:
        a_request(**{name: value})

    assert ("validation_error", path) == (refused.value.code, refused.value.path)
    assert isinstance(refused.value, Rejected)


def test_a_field_there_is_not_is_refused_too():
    """
    Given a misspelt or a missing field, when a request is made, then that is an error.
    """
    with pytest.raises(TypeError, match="titel"):
        a_request(titel="t")
    with pytest.raises(TypeError, match="title"):
        SendNotificationRequest(notification_type="a.b", intent="SAFETY", message="m", source="s")
    with pytest.raises(TypeError):
        AutonomyContextRequest(autonomy_mode="LIVE")


@pytest.mark.parametrize("call", INTAKE.values(), ids=INTAKE)
@pytest.mark.parametrize("namespace", ["uns", "governance", "chain", "schedule"])
def test_the_services_own_types_are_the_services(namespace, call, runtime, everything):
    """
    Given a type of a reserved namespace, when a producer asks for it, then it is refused, and
    nothing is written; a name that only begins alike passes.
    """
    before = everything()
    with pytest.raises(Rejected, match=r"^notification_type ") as refused:
        call(runtime, a_request(notification_type=f"{namespace}.alert"), PRINCIPAL)

    assert ("validation_error", "notification_type") == (refused.value.code, refused.value.path)
    assert before == everything()
    call(runtime, a_request(notification_type=f"{namespace}x.alert"), PRINCIPAL)
    call(runtime, a_request(notification_type=namespace), PRINCIPAL)


PROTECTED = ["email_to", "slack_channel", "pagerduty_routing_key", "uns_resolution"]


@pytest.mark.parametrize("call", INTAKE.values(), ids=INTAKE)
@pytest.mark.parametrize("key", PROTECTED)
def test_metadata_does_not_steer_channels(key, call, runtime, everything):
    """
    Given a metadata key that an adapter would obey, when a producer sends it, then it is refused
    and nothing is written; deeper inside it is mere data.
    """
    before = everything()
    with pytest.raises(Rejected, match=f"^metadata.{key} is protected") as refused:
        call(runtime, a_request(metadata={"a": 1, key: "x"}), PRINCIPAL)

    assert f"metadata.{key}" == refused.value.path
    assert before == everything()
    call(runtime, a_request(metadata={"a": {key: "x"}}), PRINCIPAL)


OVERRIDES = [
    ("delivery_mode", "BEST_EFFORT", "GUARANTEED"),
    ("require_ack", True, False),
    ("priority", "HIGH", "NORMAL"),
]


@pytest.mark.parametrize("call", INTAKE.values(), ids=INTAKE)
@pytest.mark.parametrize(("name", "wish", "settled"), OVERRIDES)
def test_a_producer_cannot_override_the_policy(name, wish, settled, call, runtime, everything):
    """
    Given a wish that contradicts the policy, when a producer sends it, then it is refused and
    nothing is written; a wish for what the policy says anyway passes.
    """
    before = everything()
    with pytest.raises(Rejected, match=f"^{name} must be ") as refused:
        call(runtime, a_request(**{name: wish}), PRINCIPAL)

    assert name == refused.value.path
    assert before == everything()
    call(runtime, a_request(**{name: settled}), PRINCIPAL)


@pytest.mark.parametrize("call", INTAKE.values(), ids=INTAKE)
def test_without_a_policy_nothing_is_accepted(call, runtime, in_force, everything):
    """
    Given no policy for a type, when it is put in, then it is refused as such and nothing is written.
    """
    in_force(runtime, a_document(notification_type="system.alert", intent="SAFETY"))
    before = everything()
    for request, error, code in [
        (a_request(notification_type="other"), NoPolicy, "no_policy"),
        (a_request(), Rejected, "validation_error"),
    ]:
        with pytest.raises(error) as refused:
            call(runtime, request, PRINCIPAL)
        assert (code, 422) == (refused.value.code, refused.value.status)

    assert before == everything()


def test_a_refusal_does_not_use_up_the_key(runtime, in_force):
    """
    Given a request that was refused, when the fault is mended and the key comes again, then it is
    the first of its key.
    """
    refused = a_request(idempotency_key="k", require_ack=True)
    with pytest.raises(Rejected):
        runtime.accept(refused, principal=PRINCIPAL)
    in_force(runtime, a_document(require_ack=True))

    assert not runtime.accept(refused, principal=PRINCIPAL).idempotent_replay
    assert runtime.accept(refused, principal=PRINCIPAL).idempotent_replay


def test_a_replay_is_answered_whatever_the_policy_says_now(runtime, in_force):
    """
    Given a stored request, when it comes again under a policy that would refuse it, then it is the
    replay it was.
    """
    request = a_request(idempotency_key="k", require_ack=False)
    first = runtime.accept(request, principal=PRINCIPAL)
    for document in (a_document(require_ack=True), a_document(notification_type="other")):
        in_force(runtime, document)
        again = runtime.accept(request, principal=PRINCIPAL)

        assert (first.notification_id, True) == (again.notification_id, again.idempotent_replay)


def test_simulating_has_no_side_effects(runtime, everything, channel):
    """
    Given a request, when it is simulated, then nothing is written or sent, and the same request is
    new when it comes, with the settings and the dedup key that were foretold.
    """
    before = everything()
    simulated = runtime.simulate(a_request(idempotency_key="k"), principal=PRINCIPAL)
    assert before == everything()
    assert [] == channel.calls
    accepted = runtime.accept(a_request(idempotency_key="k"), principal=PRINCIPAL)

    row = runtime.get(accepted.notification_id)
    assert not accepted.idempotent_replay
    assert (row["dedup_key"], row["effective_hash"], row["policy_id"]) == (
        simulated.dedup_key,
        simulated.effective_hash,
        simulated.policy_id,
    )
    assert row["effective"] == msgspec.to_builtins(simulated.effective) | {
        "channels": row["effective"]["channels"],
        "responders": [],
        "escalation": [],
    }


READS = {
    "get": lambda runtime, id: runtime.get(id),
    "events": lambda runtime, id: runtime.events(id),
    "response": lambda runtime, id: runtime.response(id),
    "dead_letters": lambda runtime, id: runtime.dead_letters(),
    "exhausted_callbacks": lambda runtime, id: runtime.exhausted_callbacks(),
    "wait": lambda runtime, id: asyncio.run(runtime.wait(id, timeout=0)),
    "expire": lambda runtime, id: runtime.expire(),
    "run_once": lambda runtime, id: asyncio.run(runtime.run_once()),
    "deliver_callbacks": lambda runtime, id: asyncio.run(runtime.deliver_callbacks()),
    "resolve_failure": lambda runtime, id: runtime.resolve_failure(id, actor="ann"),
    "dispatch": lambda runtime, id: asyncio.run(runtime.dispatch(id)),
}


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_looking_changes_nothing(call, runtime, id, everything):
    """
    Given a ledger with nothing to do, when somebody looks or a worker comes round, then not a
    single row changes.
    """
    before = everything()
    call(runtime, id)

    assert before == everything()
