"""
Request bodies, decoded strictly: the framework's own decoding takes "true" for a boolean.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, TypeVar

import msgspec
from msgspec import MsgspecError, Struct

from uns.ports.checks import Check, flag, hold, json_object, line, quoted
from uns.ports.errors import Rejected
from uns.ports.requests import fault_of

T = TypeVar("T")

MAX_DEPTH = 40
PATH_CHARS = 4096
INLINE_BYTES = 65_536
"""Bodies up to this size are decoded in the event loop; others would hold it up."""

_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_RUN = b"[" * (MAX_DEPTH + 1)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class AckBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    What an answer may carry. A name must be the caller's own.
    """

    metadata: dict[str, Any] = {}
    acked_by: str | None = None
    dismissed_by: str | None = None

    def __post_init__(self) -> None:
        hold(self, {"metadata": json_object})


class ReloadBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Which folder to put in force.
    """

    policy_dir: str
    allow_gaps: bool = False

    def __post_init__(self) -> None:
        hold(self, _RELOAD)


class EmptyBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    ``{}``, which may be absent.
    """


_RELOAD: dict[str, Check] = {"policy_dir": line(PATH_CHARS), "allow_gaps": flag}


def decoded(body: bytes, kind: type[T]) -> T:
    """
    The body as ``kind``; an absent one is ``{}``.

    Raises:
        Rejected: it is malformed, too deep, not of the form of ``kind``, or has a field twice.
    """
    body = body.strip() or b"{}"
    if _too_deep(body):
        raise Rejected(f"The body is nested more than {MAX_DEPTH} deep")
    try:
        value = msgspec.json.decode(body, type=kind)
        if _may_be_ambiguous(body):
            _unambiguous(body.decode())
    except (MsgspecError, UnicodeError, RecursionError, Rejected) as error:
        raise fault_of(error) from error
    return value


async def decoded_aside(body: bytes, kind: type[T]) -> T:
    """
    ``decoded`` for the event loop: a large body is decoded in a thread.
    """
    if len(body) <= INLINE_BYTES:
        return decoded(body, kind)
    return await asyncio.to_thread(decoded, body, kind)


def _too_deep(body: bytes) -> bool:
    # Before any decoder sees it: recursion is how deep bodies do harm. And without a loop over its
    # characters: each round strips the innermost pairs off, which takes as many rounds as it is deep.
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return False
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    nesting = b"".join(unescaped.split(b'"')[::2]).translate(_ONE_KIND, _NO_BRACKETS)
    if nesting.count(b"[") != nesting.count(b"]"):  # malformed: for the decoder to say how
        return False
    for _ in range(MAX_DEPTH):
        if _RUN in nesting:
            return True
        nesting = nesting.replace(b"[]", b"")
    return bool(nesting)


def _may_be_ambiguous(body: bytes) -> bool:
    # A name that is there twice is a text that is there twice, unless one is spelled with an escape.
    texts = body.split(b'"')[1::2]
    return b"\\" in body or len(set(texts)) < len(texts)


def _pairs(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        twice = quoted(next(name for name in names if names.count(name) > 1))
        raise Rejected(f'the field "{twice}" is there more than once', path=twice)


# Decoders keep the last of two equal names, others the first: whoever looked at the body on its way
# may have seen another one. Numbers are of no interest here, and may be too long for Python.
_unambiguous = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=len, parse_float=len).decode
