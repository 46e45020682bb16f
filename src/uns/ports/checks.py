"""
What the fields of an inbound command may hold, the same at every door and on every database.

A check takes a value and its dotted path. It hands back the value as it is to be stored (text
for a ``StrEnum``, a ``UUID`` for its text, a copy of a JSON object) or raises ``Rejected`` with a
sentence that begins with the path. A command names its checks in one table and runs them with
``hold``, so a value is judged alike whether it was decoded from JSON or built in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from math import isfinite
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from uns.ports.errors import Rejected

Check = Callable[[object, str], object]

JSON_BYTES = 65_536
JSON_DEPTH = 32
_INTEGERS = range(-(2**63), 2**64)
_STORABLE = "must be valid Unicode without NUL"

# DEL belongs to the controls as C0 and C1 do; U+2028 and U+2029 end a line in many renderers.
_NOT_ON_A_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DOTTED = re.compile(r"[a-z0-9_]+(?:\.[a-z0-9_]+)*")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_ESCAPED_NUL = b"\\u0000"
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS = b"0" * 19  # 18 digits always fit into 64 bits


def hold(struct: Struct, checks: Mapping[str, Check]) -> None:
    """
    Run every field's check, and keep what it hands back.
    """
    for name, check in checks.items():
        value = getattr(struct, name)
        checked = check(value, name)
        if checked is not value:
            force_setattr(struct, name, checked)


def fault(path: str, predicate: str) -> Rejected:
    """
    The refusal of the value at ``path``: a sentence that has the path as its subject.
    """
    return Rejected(f"{path} {predicate}", path=path)


def within(path: str, inner: Rejected) -> Rejected:
    """
    A part's refusal, as the whole that holds the part at ``path`` tells it.
    """
    if not path:
        return inner
    if not inner.path:
        return Rejected(f"{path}: {inner}", path=path, code=inner.code)
    whole = f"{path}.{inner.path}"
    return Rejected(f"{whole}{str(inner).removeprefix(inner.path)}", path=whole, code=inner.code)


def quoted(words: str, limit: int = 80) -> str:
    """
    A caller's own words, cut short and made safe to print in a message or a path.
    """
    cut = words if len(words) <= limit else f"{words[:limit]}..."
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cut)


def optional(check: Check) -> Check:
    """
    The same check for a field that may be None.
    """
    return lambda value, path: None if value is None else check(value, path)


def line(limit: int) -> Check:
    """
    Text of 1 to ``limit`` code points on one line: no control characters, no line separators.
    """

    def check(value: object, path: str) -> str:
        text = _text(value, path, limit)
        # Everything refused is unprintable, though not the other way round (a joiner in an emoji).
        if not text.isprintable() and (found := _NOT_ON_A_LINE.search(text)):
            raise fault(path, f"must be one line of valid text, without U+{ord(found.group()):04X}")
        return text

    return check


def name(limit: int) -> Check:
    """
    A line that is not blank: who somebody is.
    """
    line_of = line(limit)

    def check(value: object, path: str) -> object:
        if not str(words := line_of(value, path)).strip():
            raise fault(path, "must not be blank")
        return words

    return check


def text(limit: int) -> Check:
    """
    Text of 1 to ``limit`` code points, line breaks included, that every database can hold.
    """

    def check(value: object, path: str) -> str:
        whole = _text(value, path, limit)
        if not _storable(whole):
            raise fault(path, _STORABLE)
        return whole

    return check


def dotted(limit: int) -> Check:
    """
    A name of ``[a-z0-9_]+`` parts joined by dots, up to ``limit`` characters.
    """

    def check(value: object, path: str) -> str:
        name = _text(value, path, limit)
        if not _DOTTED.fullmatch(name):
            raise fault(path, "must be parts of a-z, 0-9 and _ joined by single dots")
        return name

    return check


def word(vocabulary: type[StrEnum]) -> Check:
    """
    A member of a closed vocabulary, or its exact text.
    """
    members = {member.value: member for member in vocabulary}
    predicate = f"must be one of {', '.join(members)}"

    def check(value: object, path: str) -> StrEnum:
        if type(value) is vocabulary:
            return value
        if not isinstance(value, str) or (member := members.get(value)) is None:
            raise fault(path, predicate)
        return member

    return check


def flag(value: object, path: str) -> bool:
    """
    A boolean, and nothing that merely counts as one.
    """
    if value is True or value is False:
        return value
    raise fault(path, f"must be true or false, not {type(value).__name__}")


def identifier(value: object, path: str) -> UUID:
    """
    A UUID, or its text with or without hyphens.
    """
    if isinstance(value, UUID):
        return value
    if isinstance(value, str):
        try:
            return msgspec.convert(value, UUID)  # the reader that decodes requests, not a kinder one
        except ValueError:  # a lone surrogate fails as UnicodeEncodeError
            pass
    raise fault(path, "must be a UUID")


def json_object(value: object, path: str) -> dict[str, Any]:
    """
    A private copy of a JSON object: up to 64 KiB encoded, 32 levels deep, itself the first.

    Values are what JSON has: objects with text keys, lists, text, finite numbers, booleans, null;
    no tuples, dates or sets. Integers must fit into 64 bits, signed or unsigned; text must be
    valid Unicode without NUL.
    """
    if not isinstance(value, dict):
        raise fault(path, f"must be a JSON object, not {type(value).__name__}")
    if not value:
        return {}
    if not (through := _through_json(value)):
        raise _first_fault(value, path, 1) or fault(path, "may hold nothing but JSON")
    encoded, copy = through
    if len(encoded) > JSON_BYTES:
        raise fault(path, f"must be at most {JSON_BYTES} bytes of JSON, not {len(encoded)}")
    # Over-inclusive and cheap: most objects are cleared without a walk in Python.
    if (
        encoded.count(b"{") + encoded.count(b"[") > JSON_DEPTH
        or _ESCAPED_NUL in encoded
        or _MANY_DIGITS in encoded.translate(_DIGITS_AS_ZERO)
    ) and (found := _first_fault(copy, path, 1)):
        raise found
    return copy


def _through_json(value: dict[Any, Any]) -> tuple[bytes, dict[str, Any]] | None:
    """
    The encoded object and what it decodes to; None if that is not what went in.
    """
    try:
        encoded = _encode(value)
        copy: dict[str, Any] = _decode(encoded)
        return (encoded, copy) if copy == value else None  # tuples, dates, NaN and number keys change
    except (TypeError, ValueError, RecursionError):
        return None


def _text(value: object, path: str, limit: int) -> str:
    if not isinstance(value, str):
        raise fault(path, f"must be text, not {type(value).__name__}")
    if not 1 <= len(value) <= limit:
        raise fault(path, f"must have 1 to {limit} characters, not {len(value)}")
    return value if type(value) is str else str.__str__(value)


def _storable(words: str) -> bool:
    """
    Whether every database can hold ``words``: no NUL, no lone surrogate.
    """
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in words


def _first_fault(value: object, path: str, depth: int) -> Rejected | None:
    """
    Where a JSON value breaks the rules of ``json_object``, depth first; None if it keeps them.
    """
    if isinstance(value, dict | list):
        if depth > JSON_DEPTH:
            return fault(path, f"is nested more than {JSON_DEPTH} levels deep")
        return _fault_inside(value, path, depth)
    if isinstance(value, str):
        return None if _storable(value) else fault(path, _STORABLE)
    if isinstance(value, float):
        return None if isfinite(value) else fault(path, "must be a finite number")
    if isinstance(value, int):
        return None if int(value) in _INTEGERS else fault(path, "must fit into 64 bits")
    return None if value is None else fault(path, f"must be JSON, not {type(value).__name__}")


def _fault_inside(value: dict[Any, Any] | list[Any], path: str, depth: int) -> Rejected | None:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        if isinstance(value, dict):
            if not isinstance(key, str):
                return fault(path, f"must have text keys, not {type(key).__name__}")
            if not _storable(key):
                return fault(path, f"has a key that {_STORABLE}")
        if found := _first_fault(part, f"{path}.{quoted(str(key))}", depth + 1):
            return found
    return None
