"""
Bodies are decoded strictly, by the same rules whoever sends them.
"""

import json
import time

import pytest

from uns.entrypoints.http.bodies import (
    INLINE_BYTES,
    MAX_DEPTH,
    AckBody,
    EmptyBody,
    ReloadBody,
    decoded,
    decoded_aside,
)
from uns.ports.errors import Rejected

ANY = dict


def nested(depth, inner=b"1"):
    """
    An object that is ``depth`` deep, itself the first.
    """
    return b'{"a":' + b"[" * (depth - 1) + inner + b"]" * (depth - 1) + b"}"


def refused(body, kind=AckBody):
    """
    Path and sentence of the refusal.
    """
    with pytest.raises(Rejected) as caught:
        decoded(body, kind)
    (fault,) = caught.value.errors
    return fault["path"], fault["message"]


@pytest.mark.parametrize("body", [b"", b" ", b"\n", b"{}", b" { } "])
def test_an_absent_body_is_an_empty_object(body):
    """
    For those whose every field may be absent.
    """
    assert (AckBody(), EmptyBody()) == (decoded(body, AckBody), decoded(body, EmptyBody))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "The body is not valid JSON"),
        (b"nonsense", "The body is not valid JSON"),
        (b'{"metadata": {}} {}', "The body is not valid JSON"),
        (b"{'metadata': {}}", "The body is not valid JSON"),
        (b'{"metadata": {},}', "The body is not valid JSON"),
        (b'{"metadata": {"x": NaN}}', "The body is not valid JSON"),
        (b'{"metadata": {"x": Infinity}}', "The body is not valid JSON"),
        (b'{"metadata": {"x": -Infinity}}', "The body is not valid JSON"),
        (b'{"metadata": {"x": 01}}', "The body is not valid JSON"),
        (b'\xef\xbb\xbf{"metadata": {}}', "The body is not valid JSON"),
        (b'{"metadata": {"x": "\xff"}}', "The body is not valid JSON"),
        (b'{"metadata": {"x": "\xed\xa0\xbd"}}', "The body is not valid JSON"),
        (b'{"metadata": {"x": "\\ud83d"}}', "The body is not valid JSON"),
        ('{"metadata": {}}'.encode("utf-16"), "The body is not valid JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b'"text"', "Expected `object`, got `str`"),
        (b"1", "Expected `object`, got `int`"),
    ],
)
def test_what_is_no_json_object_is_refused(body, told):
    """
    The sentence says what is wrong; the fault is the body's.
    """
    path, message = refused(body)

    assert ("", True) == (path, message.startswith(told))


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"metadata": []}, "metadata"),
        ({"metadata": None}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"acked_by": 1}, "acked_by"),
        ({"metdata": {}}, "metdata"),
        ({"METADATA": {}}, "METADATA"),
        ({"metadata": {"x": "\0"}}, "metadata.x"),
        ({"metadata": {"x": 2**64}}, "metadata.x"),
    ],
)
def test_a_field_that_is_wrong_is_named(body, path):
    """
    Types are strict, and no field is unknown.
    """
    assert path == refused(json.dumps(body).encode())[0]


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"9" * 400, b"9" * 5000])
def test_a_number_that_nobody_can_hold_is_refused(number):
    """
    Neither infinity nor an error of ours is made of it.
    """
    assert refused(b'{"metadata": {"x": %s}}' % number)[0].startswith("metadata")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"metadata": {}, "metadata": {}}', "metadata"),
        (b'{"metadata": {"a": 1, "b": 2, "a": 1}}', "a"),
        (b'{"metadata": {"x": [{"k": 1, "k": 2}]}}', "k"),
        (b'{"acked_by": "ann", "acked\\u005fby": "bob"}', "acked_by"),
        (b'{"metadata": {"": 1, "": 2}}', ""),
    ],
)
def test_a_field_twice_is_refused(body, name):
    """
    Decoders disagree about which one counts: whoever looked at the body before may have seen another.
    """
    assert (name, f'the field "{name}" is there more than once') == refused(body)


def test_equal_names_in_different_objects_are_no_fault():
    """
    Nor is a name that is another's value.
    """
    body = {"metadata": {"a": {"a": ["a", {"a": "a"}]}, "b": {"a": 1}}}

    assert body["metadata"] == decoded(json.dumps(body).encode(), AckBody).metadata


@pytest.mark.parametrize(
    ("depth", "fits"), [(MAX_DEPTH - 1, True), (MAX_DEPTH, True), (MAX_DEPTH + 1, False), (100_000, False)]
)
@pytest.mark.parametrize("inner", [b"1", b'"]]]}}}"', b'"\\"[[["', b'"\\\\"'])
def test_a_body_is_up_to_40_deep(depth, fits, inner):
    """
    Brackets inside text do not count, however it is escaped.
    """
    body = nested(depth, inner)
    if fits:
        assert decoded(body, ANY)
    else:
        assert ("", "The body is nested more than 40 deep") == refused(body, ANY)


def test_wide_is_not_deep():
    """
    Thousands of objects side by side are no nesting.
    """
    body = json.dumps({"a": [{"b": [{}]}] * 5000}).encode()

    assert 5000 == len(decoded(body, ANY)["a"])


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"a":' * 50_000, b"[{" * 50_000, b"}" * 100_000, b"]" * 50]
)
def test_brackets_that_do_not_match_are_no_json(body):
    """
    However many there are, the decoder says so, and nothing overflows.
    """
    with pytest.raises(Rejected):
        decoded(body, ANY)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * 600_000 + b"1]",
        b"[" * 39 + b"[]," * 600_000 + b"1" + b"]" * 39,
        b"[" * 41 + b'"",' * 600_000 + b"1" + b"]" * 41,
        b"[" * 41 + b'"' + b'\\"' * 900_000 + b'"' + b"]" * 41,
        b"[" * 41 + b'"' + b"\\\\" * 900_000 + b'"' + b"]" * 41,
        b"[" * 1_000_000 + b"]" * 1_000_000,
        b"[" + (b"[" * 39 + b"]" * 39 + b",") * 26_000 + b"1]",
        b"[[]," * 500_000 + b"1" + b"]" * 500_000,
    ],
    ids=["flat", "full", "strings", "quotes", "backslashes", "deep", "towers", "comb"],
)
def test_no_body_of_two_megabytes_takes_long(body):
    """
    Whoever may send cannot keep the process busy with one body.
    """
    begun = time.thread_time()
    with pytest.raises(Rejected):
        decoded(body, AckBody)

    assert time.thread_time() - begun < 0.5


@pytest.mark.parametrize("size", [10, INLINE_BYTES, INLINE_BYTES + 1])
async def test_a_large_body_is_decoded_aside(size):
    """
    The same verdicts, in a thread where it would hold up the event loop.
    """
    body = b'{"a":"' + b"x" * (size - 8) + b'"}'
    assert size == len(body)

    assert size - 8 == len((await decoded_aside(body, ANY))["a"])
    with pytest.raises(Rejected):
        await decoded_aside(body[:-1], ANY)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"policy_dir": ""},
        {"policy_dir": 1},
        {"policy_dir": "a\0b"},
        {"policy_dir": "a\nb"},
        {"policy_dir": "x" * 4097},
        {"policy_dir": "x", "allow_gaps": "true"},
        {"policy_dir": "x", "allow_gaps": 1},
        {"policy_dir": "x", "allow_gaps": None},
    ],
)
def test_a_reload_names_one_folder(body):
    """
    Text on one line, and a boolean that is one.
    """
    assert refused(json.dumps(body).encode(), ReloadBody)[0] in {"policy_dir", "allow_gaps"}
