"""
Requests: one verdict, whether a command is built in Python or decoded from JSON.
"""

import json
from enum import StrEnum
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from uns.ports.errors import Rejected
from uns.ports.requests import AutonomyContextRequest, SendNotificationRequest, fault_of
from uns.ports.vocabulary import AutonomyMode, DeliveryMode, NotificationIntent, Priority

AGENT = "018f5e6a-7c1b-7d00-8000-000000000001"
REQUIRED = {
    "notification_type": "system.alert",
    "intent": "OPERATIONAL",
    "title": "Disk full",
    "message": "The disk of db1 is full.",
    "source": "pay",
    "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": AGENT},
}
JOINER, SURROGATE = "\u200d", "\udead"


def in_python(fields):
    return SendNotificationRequest(**fields)


def over_json(fields):
    return from_body(json.dumps(fields).encode())


def from_body(body):
    try:
        return msgspec.json.decode(body, type=SendNotificationRequest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise fault_of(error) from error


@pytest.fixture(params=[in_python, over_json])
def door(request):
    return request.param


def test_plain_values_become_typed_ones(door):
    """
    Words, ids and the context arrive as the types that the core works with.
    """
    request = door(REQUIRED | {"priority": "HIGH", "delivery_mode": "GUARANTEED"})

    assert request.intent is NotificationIntent.OPERATIONAL
    assert request.priority is Priority.HIGH
    assert request.delivery_mode is DeliveryMode.GUARANTEED
    assert request.autonomy_context == AutonomyContextRequest(
        autonomy_mode=AutonomyMode.LIVE, agent_id=UUID(AGENT)
    )


def test_typed_values_are_kept():
    """
    A request built from typed values equals the one built from plain values.
    """
    context = AutonomyContextRequest(autonomy_mode=AutonomyMode.LIVE, agent_id=UUID(AGENT))
    typed = {"intent": NotificationIntent.OPERATIONAL, "autonomy_context": context}

    assert in_python(REQUIRED | typed) == in_python(REQUIRED)


def test_what_may_be_absent_has_the_documented_defaults(door):
    """
    Without optional fields a request is reversible, has no keys, overrides nothing and is bare.
    """
    request = door(REQUIRED)

    assert request.irreversible is False
    assert request.metadata == {}
    optional = ("idempotency_key", "dedup_key", "correlation_id", "delivery_mode", "require_ack", "priority")
    assert [getattr(request, name) for name in optional] == [None] * 6


LEGAL = [
    ("title", "x"),
    ("title", "x" * 200),
    ("title", "\U0001f600" * 200),
    ("title", f"caf\u00e9\u00a0\U0001f468{JOINER}\U0001f469"),
    ("message", "x"),
    ("message", "x" * 65_536),
    ("message", "two\r\nlines,\ta tab, \x07, \x85 and \u2028"),
    ("source", "x" * 255),
    ("idempotency_key", "x"),
    ("idempotency_key", "x" * 255),
    ("dedup_key", "x" * 255),
    ("correlation_id", "x" * 255),
    ("idempotency_key", None),
    ("dedup_key", None),
    ("correlation_id", None),
    ("notification_type", "a"),
    ("notification_type", "a_1.0._"),
    ("notification_type", "a" * 255),
    ("notification_type", "uns.alert"),
    ("irreversible", True),
    ("require_ack", False),
    ("require_ack", None),
    ("metadata", {"uns_resolution": []}),
]
ILLEGAL = [
    ("title", ""),
    ("title", "x" * 201),
    ("message", ""),
    ("message", "x" * 65_537),
    ("message", "\0"),
    ("source", ""),
    ("source", "x" * 256),
    ("idempotency_key", ""),
    ("idempotency_key", "x" * 256),
    ("dedup_key", ""),
    ("dedup_key", "x" * 256),
    ("correlation_id", ""),
    ("correlation_id", "x" * 256),
    *((name, 7) for name in ("title", "message", "source", "idempotency_key", "dedup_key", "correlation_id")),
    *((name, None) for name in (*REQUIRED, "irreversible", "metadata")),
    *(("notification_type", name) for name in ("", "A", "a-b", ".a", "a.", "a..b", "a b", "a\n", "\u00e9")),
    ("notification_type", "a" * 256),
    ("intent", "operational"),
    ("intent", ""),
    ("intent", 1),
    ("priority", "URGENT"),
    ("delivery_mode", "guaranteed"),
    ("irreversible", 1),
    ("irreversible", "true"),
    ("require_ack", 0),
    ("require_ack", "false"),
    ("autonomy_context", []),
    ("autonomy_context", AGENT),
    ("metadata", []),
    ("metadata", "{}"),
]
BREAKS_A_LINE = [
    "\0",
    "\n",
    "\r",
    "\t",
    "\x1f",
    "\x7f",
    "\x80",
    "\x85",
    "\x9f",
    "\u2028",
    "\u2029",
    SURROGATE,
]


@pytest.mark.parametrize(("name", "value"), LEGAL)
def test_values_at_the_limits_are_kept(door, name, value):
    """
    A value at or within its field's limits is stored exactly as given.
    """
    assert getattr(door(REQUIRED | {name: value}), name) == value


@pytest.mark.parametrize(("name", "value"), ILLEGAL)
def test_values_past_the_limits_are_refused_by_path(door, name, value):
    """
    A value one past a limit, or of another type, is refused with its field as the path.
    """
    with pytest.raises(Rejected) as refused:
        door(REQUIRED | {name: value})

    assert refused.value.path == name
    assert str(refused.value).startswith(name)
    assert refused.value.errors == [{"path": name, "message": str(refused.value)}]


@pytest.mark.parametrize("name", ["title", "source", "idempotency_key", "dedup_key", "correlation_id"])
@pytest.mark.parametrize("char", BREAKS_A_LINE)
def test_lines_hold_no_control_characters(name, char):
    """
    What ends a line, controls a terminal or is no character has no place in a title or a key.
    """
    with pytest.raises(ValueError, match=f"^{name} must be one line") as refused:
        in_python(REQUIRED | {name: f"a{char}b"})

    assert refused.value.path == name


CONTEXTS = [
    ({"agent_id": AGENT}, "autonomy_mode"),
    ({"autonomy_mode": "LIVE"}, "agent_id"),
    ({"autonomy_mode": "live", "agent_id": AGENT}, "autonomy_mode"),
    ({"autonomy_mode": "LIVE", "agent_id": "agent-7"}, "agent_id"),
    ({"autonomy_mode": "LIVE", "agent_id": f"{{{AGENT}}}"}, "agent_id"),
    ({"autonomy_mode": "LIVE", "agent_id": 7}, "agent_id"),
    ({"autonomy_mode": "LIVE", "agent_id": None}, "agent_id"),
    ({"autonomy_mode": "LIVE", "agent_id": AGENT, "plan_id": ""}, "plan_id"),
    ({"autonomy_mode": "LIVE", "agent_id": AGENT, "skip_snapshot_id": "x"}, "skip_snapshot_id"),
    ({"autonomy_mode": "LIVE", "agent_id": AGENT, "mood": "good"}, "mood"),
]


@pytest.mark.parametrize(("context", "path"), CONTEXTS)
def test_faults_inside_the_context_have_a_dotted_path(door, context, path):
    """
    A fault in the autonomy context is named by its field within its field.
    """
    with pytest.raises(Rejected) as refused:
        door(REQUIRED | {"autonomy_context": context})

    assert refused.value.path == f"autonomy_context.{path}"
    assert str(refused.value).startswith(f"autonomy_context.{path}")


@pytest.mark.parametrize("agent", [AGENT.upper(), AGENT.replace("-", "")])
def test_an_id_is_its_value_not_its_spelling(door, agent):
    """
    Letter case and hyphens of a UUID do not make another agent.
    """
    context = {"autonomy_mode": "LIVE", "agent_id": agent}

    assert door(REQUIRED | {"autonomy_context": context}) == in_python(REQUIRED)


@pytest.mark.parametrize("agent", [SURROGATE, b"0123456789abcdef", 1.5])
def test_a_context_built_alone_is_checked_too(agent):
    """
    The context is a command of its own, with its own paths.
    """
    with pytest.raises(Rejected, match=r"^agent_id must be a UUID$"):
        AutonomyContextRequest(autonomy_mode="LIVE", agent_id=agent)


def test_text_enums_are_stored_as_text():
    """
    A producer's own StrEnum counts as the text it is, and is stored as plain text.
    """
    mine = StrEnum("mine", {"ALERT": "system.alert", "TITLE": "Disk full"})
    request = in_python(REQUIRED | {"notification_type": mine.ALERT, "title": mine.TITLE})

    assert request == in_python(REQUIRED)
    assert type(request.notification_type) is type(request.title) is str


def test_a_changed_copy_is_checked():
    """
    A request made from another by replacing a field is held to the same rules.
    """
    with pytest.raises(Rejected, match=r"^title must have 1 to 200 characters, not 0$"):
        replace(in_python(REQUIRED), title="")


def test_an_unknown_argument_is_a_type_error():
    """
    In Python a misspelt argument fails as it does for any function.
    """
    with pytest.raises(TypeError, match="titel"):
        in_python(REQUIRED | {"titel": "x"})
