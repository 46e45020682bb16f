"""
Strict conversion of plain values into structs: no type is guessed, no key is passed over.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from uns.ports.checks import fault, quoted
from uns.ports.errors import Rejected

T = TypeVar("T")

_WHERE = re.compile(r"(?P<what>.*) - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_INDEX = re.compile(r"\[(\d+)\]")


def convert(value: Any, to: type[T], path: str = "") -> T:
    """
    ``value`` (what JSON or YAML has) as a ``to``, judged by the annotations of ``to`` alone.

    Raises:
        Rejected: its ``path`` is that of the first fault found, below ``path``. The message never
            repeats a value, for values may be secret; a wrong word of a closed vocabulary excepted.
    """
    try:
        return msgspec.convert(value, to, strict=True)
    except msgspec.ValidationError as error:
        raise _fault(str(error), path) from None


def _fault(message: str, path: str) -> Rejected:
    found = _WHERE.fullmatch(message)
    what, below = (found["what"], _INDEX.sub(r".\1", found["path"])) if found else (message, "")
    # A missing or unknown key is the fault of the key, not of the object around it.
    if missing := _MISSING.fullmatch(what):
        return fault(_joined(path, below, missing[1]), "is missing")
    if unknown := _UNKNOWN.fullmatch(what):
        return fault(_joined(path, below, quoted(unknown[1])), "is not a key that is known here")
    sentence = quoted(f"{what[:1].lower()}{what[1:]}".replace("`", ""), 200)
    at = _joined(path, below)
    return fault(at, f"is wrong: {sentence}") if at else Rejected(sentence)


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)
