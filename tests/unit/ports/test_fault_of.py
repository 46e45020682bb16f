"""
Refusals of bodies: whatever cannot be a request is a fault with a place and printable words.
"""

import json

import msgspec
import pytest

from uns.ports.errors import Rejected
from uns.ports.requests import AutonomyContextRequest, SendNotificationRequest, fault_of

REQUIRED = {
    "notification_type": "system.alert",
    "intent": "OPERATIONAL",
    "title": "Disk full",
    "message": "The disk of db1 is full.",
    "source": "pay",
    "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": "018f5e6a-7c1b-7d00-8000-000000000001"},
}


def from_body(body):
    try:
        return msgspec.json.decode(body, type=SendNotificationRequest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise fault_of(error) from error


BODIES = [
    (b"", ""),
    (b"[]", ""),
    (b"null", ""),
    (b'{"title": "x"', ""),
    (b"\xef\xbb\xbf{}", ""),
    (b'{"title": "\xff"}', ""),
    (b'{"title": "\\ud83d"}', ""),
    (b'{"metadata": {"x": NaN}}', ""),
    (b'{"metadata": {"x": Infinity}}', ""),
    (b'{"irreversible": NaN}', ""),
    (b'{"metadata": {"x": 1e999}}', "metadata.*"),
    (b'{"metadata": {"x": [%s]}}' % (b"9" * 5000), "metadata.*.0"),
    (b'{"metadata": ' + b'{"x":' * 2000 + b"1" + b"}" * 2001, ""),
    (b"{}", "notification_type"),
    (b'{"titel": "x"}', "titel"),
    (b'{"a` - at `$.title\\n": 1}', "a` - at `$.title\N{REPLACEMENT CHARACTER}"),
    (b'{"intent": "` - at `$.title`"}', "intent"),
    (b'{"%s": 1}' % (b"x" * 9999), f"{'x' * 80}..."),
]


@pytest.mark.parametrize(("body", "path"), BODIES)
def test_what_is_no_request_is_refused_in_printable_words(body, path):
    """
    Malformed bodies, unknown fields and numbers out of range become a short, printable refusal.
    """
    with pytest.raises(Rejected) as refused:
        from_body(body)

    assert refused.value.path == path
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 320
    assert json.loads(msgspec.json.encode(refused.value.errors)) == refused.value.errors


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("intent", "operational", "SAFETY, GOVERNANCE, OPERATIONAL, INFORMATIONAL"),
        ("delivery_mode", "SURE", "GUARANTEED, BEST_EFFORT"),
        ("priority", "", "HIGH, NORMAL, LOW"),
        ("autonomy_context.autonomy_mode", "live", "LIVE, SHADOW, PREVIEW"),
    ],
)
def test_an_unknown_word_is_refused_with_those_there_are(name, value, words):
    """
    Given a word that its field does not know, when it comes as JSON, then the refusal names those
    that it does, as it would in Python.
    """
    outer, _, inner = name.partition(".")
    given = REQUIRED[outer] | {inner: value} if inner else value
    with pytest.raises(Rejected) as refused:
        from_body(json.dumps(REQUIRED | {outer: given}).encode())

    assert (name, f"{name} must be one of {words}") == (refused.value.path, str(refused.value))
    with pytest.raises(Rejected) as here:
        SendNotificationRequest(**(REQUIRED | {outer: given}))
    assert str(refused.value) == str(here.value)


POISON = [
    ("title", "\ud83d"),
    ("title", "a\0b"),
    ("message", "a\0b"),
    ("message", "\udead"),
    ("metadata", {"x": float("nan")}),
    ("metadata", {"x": float("-inf")}),
    ("metadata", {"x": "\ud83d"}),
    ("metadata", {"x": "\0"}),
    ("metadata", {"\0": 1}),
    ("metadata", {"x": int("9" * 400)}),
    ("metadata", {"x": int("9" * 4000) * 10**4000}),
]


@pytest.mark.parametrize(("name", "value"), POISON)
def test_no_poison_gets_in_through_python(name, value):
    """
    What JSON or a database cannot hold is refused with its place, though Python can hold it.
    """
    with pytest.raises(Rejected) as refused:
        SendNotificationRequest(**(REQUIRED | {name: value}))

    assert refused.value.path.split(".")[0] == name


@pytest.mark.parametrize("body", [b'{"x": "\\u0000"}', b'{"\\u0000": 1}', b'{"x": %s}' % (b"9" * 400)])
def test_no_poison_gets_in_through_json(body):
    """
    What decodes well but no database could hold alike is refused with its place.
    """
    with pytest.raises(Rejected) as refused:
        from_body(json.dumps(REQUIRED).encode()[:-1] + b', "metadata": ' + body + b"}")

    assert refused.value.path.startswith("metadata")


def test_a_refusal_passes_through():
    """
    What is a refusal already stays what it is.
    """
    refusal = Rejected("title is dull", path="title")

    assert fault_of(refusal) is refusal


class Envelope(msgspec.Struct):
    context: AutonomyContextRequest | None = None
    names: list[str] = []
    counts: dict[str, int] = {}
    checked: "Checked | None" = None


class Checked(msgspec.Struct):
    whole: int

    def __post_init__(self):
        raise Rejected("The parts do not fit together")


PLACES = [
    (b'{"context": {"autonomy_mode": "LIVE"}}', "context.agent_id", "context.agent_id is required"),
    (b'{"names": ["a", 1]}', "names.1", "names.1: Expected `str`, got `int`"),
    (b'{"counts": {"a": "b"}}', "counts.*", "counts.*: Expected `int`, got `str`"),
    (b'{"checked": {"whole": 1}}', "checked", "checked: The parts do not fit together"),
    (b"[]", "", "Expected `object`, got `array`"),
]


@pytest.mark.parametrize(("body", "path", "sentence"), PLACES)
def test_a_fault_is_named_by_its_place(body, path, sentence):
    """
    Places inside lists, maps and parts become one dotted path that the sentence begins with.
    """
    with pytest.raises(msgspec.ValidationError) as wrong:
        msgspec.json.decode(body, type=Envelope)

    assert fault_of(wrong.value).errors == [{"path": path, "message": sentence}]
