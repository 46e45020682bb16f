"""
Rows to parameters and back, one registry entry per stored type.

Reading never fails for what somebody did to a row: one bad row would take down every batch it is
in. Its settings then read as ``UNREADABLE``, an unknown word as the plain text it is.

Hot and cold: the columns before ``hot_from`` are written once and are in no UPDATE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Any, get_args, get_type_hints

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import astuple

from uns.adapters.sql import schema
from uns.ports.policy import (
    UNREADABLE,
    Effective,
    PolicyAuthority,
    PolicyContent,
    PolicyRecord,
    PolicyRevision,
    SnapshotRecord,
)
from uns.ports.rows import AckAudit, Copy, DedupWindow, DeliveryAudit, Event, Link, Notification, Outcome

Converter = Callable[[Any], Any]
_COLUMN_NAMES = {"body": "notification"}
_EFFECTIVES_KEPT = 1024
_SPOILT = Outcome(error_message="the stored outcome cannot be read")


class Stored:
    """
    How one row type lies in its table.
    """

    def __init__(self, kind: type[Struct], table: sa.Table, keys: int = 1, hot_from: str = "") -> None:
        self.kind = kind
        self.table = table
        self.fields = kind.__struct_fields__
        self.columns = [table.c[_COLUMN_NAMES.get(name, name)] for name in self.fields]
        self.keys = keys
        self._only_key = attrgetter(self.fields[0])
        self.hot_from = self.fields.index(hot_from) if hot_from else keys
        hints = get_type_hints(kind)
        self._to_column = dict(_converters(hints, self.fields, _to_column))
        self._to_field = [(self.fields[n], c) for n, c in _converters(hints, self.fields, _to_field)]
        self.unguarded = {n for n, name in enumerate(self.fields) if _is_json(hints[name])}

    def encode(self, row: Any) -> list[Any]:
        """
        The column values of ``row``, in column order.
        """
        values = list(astuple(row))
        for n, convert in self._to_column.items():
            values[n] = convert(values[n])
        return values

    def encode_only(self, row: Any, wanted: Sequence[int]) -> list[Any]:
        """
        The values of some columns of ``row``, by index.
        """
        values, convert = astuple(row), self._to_column
        return [convert[n](values[n]) if n in convert else values[n] for n in wanted]

    def decode(self, values: Sequence[Any]) -> Any:
        """
        The row of one result line.
        """
        fields = dict(zip(self.fields, values))  # noqa: B905 - both as the table has them
        for name, convert in self._to_field:
            fields[name] = convert(fields[name])
        return self.kind(**fields)

    def moved(self, before: Any, after: Any) -> tuple[int, ...]:
        """
        The indexes of the hot columns in which two images of a row differ.
        """
        pairs = zip(astuple(before)[self.hot_from :], astuple(after)[self.hot_from :])  # noqa: B905 - as long
        return tuple(
            [n for n, (old, new) in enumerate(pairs, self.hot_from) if old is not new and old != new]
        )

    def key_of(self, row: Any) -> str:
        """
        The primary key in one text.
        """
        if self.keys == 1:
            key: str = self._only_key(row)
            return key
        return "/".join(getattr(row, name) for name in self.fields[: self.keys])


def _converters(
    hints: dict[str, Any], fields: Sequence[str], choose: Callable[[Any], Converter | None]
) -> list[tuple[int, Converter]]:
    chosen = [(n, choose(hints[name])) for n, name in enumerate(fields)]
    return [(n, convert) for n, convert in chosen if convert is not None]


def _to_column(hint: Any) -> Converter | None:
    if hint is Effective:
        return _effective_text
    if _is_json(hint):
        return _json_text
    if _word(hint) is not None:
        return _text_of
    return int if hint is bool else None


def _to_field(hint: Any) -> Converter | None:
    if hint is Effective:
        return _effective_of
    if _is_json(hint):
        return _json_reader(hint)
    if (word := _word(hint)) is not None:
        words: dict[str, StrEnum] = {str(w): w for w in word}
        return lambda text: words.get(text, text)
    return bool if hint is bool else None


def _is_json(hint: Any) -> bool:
    return hint in (Outcome, Effective, tuple[str, ...])


def _word(hint: Any) -> type[StrEnum] | None:
    kinds = (hint, *get_args(hint))
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, StrEnum)), None)


def _json_reader(hint: Any) -> Converter:
    decode = msgspec.json.Decoder(hint).decode
    spoilt = _SPOILT if hint is Outcome else ()

    def read(text: str) -> Any:
        try:
            return decode(text)
        except msgspec.MsgspecError:
            return spoilt

    return read


def _text_of(word: StrEnum | None) -> str | None:
    return None if word is None else str(word)


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class _Effectives:
    """
    Few effective settings serve many rows: each text is decoded, and each struct encoded, once.
    """

    def __init__(self) -> None:
        self._by_text: dict[str, Effective] = {}
        self._by_id: dict[int, tuple[Effective, str]] = {}
        self._decode = msgspec.json.Decoder(Effective).decode

    def of(self, text: str) -> Effective:
        found = self._by_text.get(text)
        if found is None:
            if len(self._by_text) >= _EFFECTIVES_KEPT:
                self._by_text.clear()
            found = self._by_text[text] = self._read(text)
        return found

    def _read(self, text: str) -> Effective:
        try:
            return self._decode(text)
        except msgspec.MsgspecError:
            return UNREADABLE

    def text(self, effective: Effective) -> str:
        # The struct is kept with its text, so that its id() cannot pass to another one.
        held = self._by_id.get(id(effective))
        if held is None:
            if len(self._by_id) >= _EFFECTIVES_KEPT:
                self._by_id.clear()
            held = self._by_id[id(effective)] = (effective, msgspec.json.encode(effective).decode())
        return held[1]


_effectives = _Effectives()
_effective_of = _effectives.of
_effective_text = _effectives.text

STORED: dict[type, Stored] = {
    stored.kind: stored
    for stored in (
        Stored(Notification, schema.notifications, hot_from="status"),
        Stored(DedupWindow, schema.dedup),
        Stored(Event, schema.events, hot_from="callback_pending"),
        Stored(Copy, schema.copies, keys=2),
        Stored(DeliveryAudit, schema.delivery_audits),
        Stored(AckAudit, schema.ack_audits),
        Stored(PolicyAuthority, schema.policy_authority),
        Stored(SnapshotRecord, schema.policy_snapshots),
        Stored(PolicyContent, schema.policy_contents),
        Stored(PolicyRevision, schema.policy_revisions),
        Stored(PolicyRecord, schema.policies),
    )
}
LINK = Stored(Link, schema.notifications)
"""The lineage view of a notification: read, never written."""
