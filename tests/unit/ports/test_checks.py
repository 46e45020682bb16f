"""
JSON objects in commands: kept exactly, or refused with the place of the fault.
"""

import json
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from math import isfinite
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uns.ports.checks import JSON_BYTES, JSON_DEPTH, json_object
from uns.ports.errors import Rejected

Mine = StrEnum("Mine", {"A": "a"})
Mine_ = Enum("Mine_", {"A": "a"})
One = IntEnum("One", {"ONE": 1})


class Words(str):
    __slots__ = ()


def sized(size):
    return {"k": "x" * (size - len(b'{"k":""}'))}


def nested(depth, wrap):
    value = {}
    for _ in range(depth - 2):
        value = wrap(value)
    return {"k": value}


def through_json(metadata):
    return json_object(msgspec.json.decode(json.dumps(metadata).encode()), "metadata")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"": ""},
        {"a": [None, True, 0, -1, 1.5, "x", {}, []]},
        {"text": "\x01\x7f\x85\u2028\U0001f600\ufffe"},
        {"escaped": "\\u0000", "digits": "9" * 400},
        {"least": -(2**63), "most": 2**64 - 1},
        {"tiny": 5e-324, "huge": 1.7976931348623157e308, "beyond_2_53": 2**53 + 1},
        {"many": [[] for _ in range(100)]},
        sized(JSON_BYTES),
        nested(JSON_DEPTH, lambda inner: [inner]),
        nested(JSON_DEPTH, lambda inner: {"k": inner}),
    ],
)
def test_an_object_within_the_limits_is_kept(value):
    """
    At the limits of size, depth and 64 bits an object is kept as it is, types included.
    """
    kept = json_object(value, "metadata")

    assert json.dumps(kept) == json.dumps(value)
    assert json.dumps(through_json(value)) == json.dumps(value)


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        (sized(JSON_BYTES + 1), "metadata", "at most 65536 bytes of JSON, not 65537"),
        ({"k": "\u00e9" * (JSON_BYTES // 2)}, "metadata", "bytes"),
        (nested(JSON_DEPTH + 1, lambda inner: [inner]), f"metadata.k{'.0' * 31}", "32 levels"),
        (nested(JSON_DEPTH + 1, lambda inner: {"k": inner}), f"metadata{'.k' * 32}", "32 levels"),
        ({"a": [1, {"b": "\0"}]}, "metadata.a.1.b", "without NUL"),
        ({"a": {"b\0": 1}}, "metadata.a", "has a key"),
        ({"a": -(2**63) - 1}, "metadata.a", "64 bits"),
        ({"a": 2**64}, "metadata.a", "64 bits"),
        ({"a": [10**400]}, "metadata.a.0", "64 bits"),
        ({"x" * 99: 2**64}, f"metadata.{'x' * 80}...", "64 bits"),
    ],
)
def test_an_object_past_a_limit_is_refused_alike_in_python_and_json(value, path, why):
    """
    One past a limit the refusal names the same place, whichever way the object came.
    """
    for judge in (json_object, lambda value, _: through_json(value)):
        with pytest.raises(Rejected, match=why) as refused:
            judge(value, "metadata")

        assert refused.value.path == path
        assert str(refused.value).startswith(path)


CYCLE = {}
CYCLE["k"] = CYCLE


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"a": {"b": float("nan")}}, "metadata.a.b", "finite"),
        ({"a": float("-inf")}, "metadata.a", "finite"),
        ({"a": "\ud800"}, "metadata.a", "valid Unicode"),
        ({"a": {"\udfff": 1}}, "metadata.a", "has a key"),
        ({1: "a"}, "metadata", "text keys, not int"),
        ({None: "a"}, "metadata", "text keys, not NoneType"),
        ({"a": (1, 2)}, "metadata.a", "not tuple"),
        ({"a": {1}}, "metadata.a", "not set"),
        ({"a": b"x"}, "metadata.a", "not bytes"),
        ({"a": Decimal(1)}, "metadata.a", "not Decimal"),
        ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "metadata.a", "not datetime"),
        ({"a": UUID(int=1)}, "metadata.a", "not UUID"),
        ({"a": Mine_.A}, "metadata.a", "not Mine_"),
        ({"a": object()}, "metadata.a", "not object"),
        ({"a": Words("x")}, "metadata", "nothing but JSON"),
        (CYCLE, f"metadata{'.k' * 32}", "32 levels"),
        (nested(100_000, lambda inner: [inner]), f"metadata.k{'.0' * 31}", "32 levels"),
        ([], "metadata", "not list"),
        ("{}", "metadata", "not str"),
        (None, "metadata", "not NoneType"),
    ],
)
def test_what_json_does_not_have_is_refused(value, path, why):
    """
    Values that only Python has are refused, not converted: JSON could not say the same.
    """
    with pytest.raises(Rejected, match=why) as refused:
        json_object(value, "metadata")

    assert refused.value.path == path


def test_what_is_json_in_another_dress_is_kept_plain():
    """
    Ordered dicts and the producer's own text and number enums become what JSON calls them.
    """
    kept = json_object(OrderedDict({Mine.A: Mine.A, "n": One.ONE}), "metadata")

    assert json.dumps(kept) == '{"a": "a", "n": 1}'
    assert [type(part) for part in (kept, *kept, *kept.values())] == [dict, str, str, str, int]


def test_a_caller_cannot_change_what_was_checked():
    """
    The object kept is a copy all the way down: changing the caller's own afterwards does nothing.
    """
    mine, empty = {"a": {"b": [1]}}, {}
    kept, bare = json_object(mine, "metadata"), json_object(empty, "metadata")
    mine["a"]["b"].append(float("nan"))
    mine["c"] = empty["c"] = 1

    assert kept == {"a": {"b": [1]}}
    assert bare == {}


# No high surrogates: JSON reads a high one and a low one side by side as one proper character.
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\udc00\\"), max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.integers(2**62, 2**66) | st.floats() | TEXT
OBJECTS = st.dictionaries(
    TEXT,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=4,
)


def lawful(value):
    if isinstance(value, dict):
        return all(map(lawful, value)) and all(map(lawful, value.values()))
    if isinstance(value, list):
        return all(map(lawful, value))
    if isinstance(value, str):
        return not {"\0", "\udc00"} & set(value)
    if isinstance(value, float):
        return isfinite(value)
    return not isinstance(value, int) or -(2**63) <= value < 2**64


@given(OBJECTS)
def test_an_object_is_refused_or_survives_unchanged(value):
    """
    Any JSON object either breaks a rule and is refused, or comes back from storage as it went in.
    """
    if not lawful(value):
        with pytest.raises(Rejected, match=r"^metadata"):
            json_object(value, "metadata")
        return
    kept = json_object(value, "metadata")

    assert json.dumps(msgspec.json.decode(msgspec.json.encode(kept))) == json.dumps(value)


@given(OBJECTS)
def test_python_and_json_agree(value):
    """
    The same object gets the same verdict in Python and from a JSON body.
    """

    def verdict(judge):
        try:
            return json.dumps(judge())
        except (Rejected, msgspec.DecodeError):
            return "refused"

    assert verdict(lambda: json_object(value, "metadata")) == verdict(lambda: through_json(value))
