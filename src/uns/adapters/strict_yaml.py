"""
YAML read without guessing: one document, every key once, every scalar what it plainly is.

ruamel scans and parses YAML 1.2; what its events mean is decided here, for three reasons. Keys and
values keep their line numbers, so that a fault can be told where it stands. A plain scalar that
some YAML takes for a number or date and another for text (``010``, ``1_000``, ``1:30``,
``2026-10-01``) is refused, not guessed at. And size, depth and aliases are bounded before anything
is built from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from uns.ports.checks import quoted
from uns.ports.documents import Origin
from uns.ports.errors import Rejected

DEPTH = 32
NODES = 10_000
_EXACT = 2**53 - 1  # beyond it JSON readers disagree about integers

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.inf|\.nan", re.IGNORECASE)
_DOUBTFUL = re.compile(
    r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?([eE][-+]?[0-9]+)?"  # 010, 1_000, +5, 1., 1:30
    r"|[-+]?\.[0-9][0-9_]*([eE][-+]?[0-9]+)?"  # .5
    r"|[-+]?0(x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"
)


class Document(Struct, frozen=True):
    """
    What a file says, in plain values, and where.
    """

    value: Any
    origin: Origin


def read(text: str, file: str) -> Document:
    """
    The one YAML document in ``text``.

    Raises:
        Rejected: it is not plain YAML 1.2; the message names ``file`` and line, and repeats no
            value: one may be secret.
    """
    reader = _Reader(file, YAML(typ="safe", pure=True).parse(text))
    try:
        value = reader.document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark is not None else 0
        raise reader.refusal(line, "", f"is not YAML: {error.problem or error.context}") from None
    except YAMLError:  # a character that YAML does not have; the reader knows no line
        raise reader.refusal(None, "", "has a character that YAML does not allow") from None
    return Document(value, reader.origin)


class _Reader:
    """
    Builds plain values from parser events, each at its dotted path.
    """

    def __init__(self, file: str, events: Iterator[Event]) -> None:
        self.origin = Origin(file, {})
        self._events = events
        self._nodes = 0
        self._anchors: dict[str, tuple[Any, int]] = {}

    def document(self) -> Any:
        next(self._events)  # the start of the stream
        start = next(self._events)
        if not isinstance(start, DocumentStartEvent):
            raise self.refusal(None, "", "is empty")
        if start.version not in {None, (1, 2)}:
            raise self.refusal(start.start_mark.line, "", "is written for another YAML than 1.2")
        value = self._node(next(self._events), "", 1)
        next(self._events)  # the end of the document
        after = next(self._events)
        if isinstance(after, DocumentStartEvent):
            raise self.refusal(after.start_mark.line, "", "has a second document; write one policy a file")
        return value

    def refusal(self, line: int | None, path: str, predicate: str) -> Rejected:
        """
        A fault at a ``line`` counted from 0, as the parser does.
        """
        where = f"{self.origin.file}, line {line + 1}" if line is not None else self.origin.file
        return Rejected(f"{where}: {path} {predicate}" if path else f"{where} {predicate}", path=path)

    def _node(self, event: Event, path: str, depth: int) -> Any:
        line = event.start_mark.line
        self.origin.lines.setdefault(path, line + 1)  # that of the key, where there is one
        self._count(1, line, path)
        if isinstance(event, AliasEvent):
            return self._alias(event, path)
        assert isinstance(event, ScalarEvent | CollectionStartEvent)  # noqa: S101 - the parser's grammar
        if event.tag is not None:
            raise self.refusal(line, path, "has a tag; values here are plain")
        if depth > DEPTH:
            raise self.refusal(line, path, f"is nested more than {DEPTH} levels deep")
        before = self._nodes
        value = self._value(event, path, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - before + 1)
        return value

    def _value(self, event: ScalarEvent | CollectionStartEvent, path: str, depth: int) -> Any:
        if isinstance(event, ScalarEvent):
            return self._scalar(event, path)
        return (
            self._mapping(path, depth)
            if isinstance(event, MappingStartEvent)
            else self._sequence(path, depth)
        )

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key, line = self._key(event, path), event.start_mark.line
            at = f"{path}.{quoted(key)}".lstrip(".")
            if key in found:
                earlier = self.origin.lines[at]
                raise self.refusal(line, at, f"is a duplicate key: it stands on line {earlier} already")
            self.origin.lines[at] = line + 1
            found[key] = self._node(next(self._events), at, depth + 1)
        return found

    def _sequence(self, path: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            found.append(self._node(event, f"{path}.{len(found)}".lstrip("."), depth + 1))
        return found

    def _key(self, event: Event, path: str) -> str:
        key = None
        if isinstance(event, ScalarEvent) and event.tag is None and event.anchor is None:
            key = self._scalar(event, path)
        if not isinstance(key, str):
            raise self.refusal(event.start_mark.line, path, "has a key that is not plain text")
        return key

    def _alias(self, event: AliasEvent, path: str) -> Any:
        line = event.start_mark.line
        if event.anchor not in self._anchors:
            raise self.refusal(line, path, "is an alias of nothing that ended before it")
        value, size = self._anchors[event.anchor]
        self._count(size, line, path)
        return value

    def _count(self, nodes: int, line: int, path: str) -> None:
        self._nodes += nodes
        if self._nodes > NODES:
            raise self.refusal(line, path, f"is more than {NODES} values into the file, aliases written out")

    def _scalar(self, event: ScalarEvent, path: str) -> Any:
        text, line = event.value, event.start_mark.line
        if not event.implicit[0]:  # quoted, or a block
            return self._text(text, line, path)
        if text in _WORDS:
            return _WORDS[text]
        if _NUMBER.fullmatch(text):
            return self._number(text, line, path)
        if _NOT_FINITE.fullmatch(text):
            raise self.refusal(line, path, "is not a finite number")
        if _DOUBTFUL.fullmatch(text):
            raise self.refusal(
                line, path, "is a number or date to some readers of YAML; quote it or write it out"
            )
        return self._text(text, line, path)

    def _number(self, text: str, line: int, path: str) -> int | float:
        number = float(text)
        if not isfinite(number):
            raise self.refusal(line, path, "is not a finite number")
        if _INTEGER.fullmatch(text):
            if abs(number) > _EXACT:
                raise self.refusal(line, path, "is an integer too large to be exact")
            return int(text)
        return number

    def _text(self, text: str, line: int, path: str) -> str:
        if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
            raise self.refusal(line, path, "must be valid Unicode without NUL")
        return text
