"""
Lists: a page of items, and an opaque cursor that stays right while rows are added.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, NoReturn

import msgspec
from litestar.params import QueryParameter
from msgspec import MsgspecError, Struct

from uns.ports.errors import Rejected

MAX_LIMIT = 200
DEFAULT_LIMIT = 50

Limit = Annotated[int, QueryParameter(ge=1, le=MAX_LIMIT)]

Position = tuple[float, str]
"""Where a page ends: the last row's instant and id. The next one begins after it."""

START: Position = (0.0, "")

_CHECK_BYTES = 6


class Page(Struct, frozen=True, kw_only=True):
    """
    Some items, and where the next ones begin (None: there are none).
    """

    items: Sequence[dict[str, Any]]
    next_cursor: str | None


class Listing(Struct, frozen=True):
    """
    One list: its name, so that its cursors are of no use elsewhere, and the instant it is sorted by.
    """

    name: str
    instant: str

    def page(self, rows: Sequence[dict[str, Any]], limit: int) -> Page:
        """
        The first ``limit`` of ``rows``, which hold one more when there is a next page.
        """
        items = rows[:limit]
        if len(rows) <= limit:
            return Page(items=items, next_cursor=None)
        position = msgspec.json.encode((items[-1][self.instant], items[-1]["id"]))
        return Page(items=items, next_cursor=urlsafe_b64encode(self._check(position) + position).decode())

    def after(self, cursor: str | None) -> Position:
        """
        Where to go on.

        Raises:
            Rejected: the cursor is not one that a page of this list ended with.
        """
        if cursor is None:
            return START
        try:
            raw = urlsafe_b64decode(cursor)
            check, position = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
            if check != self._check(position) or urlsafe_b64encode(raw).decode() != cursor:
                _refuse()
            return msgspec.json.decode(position, type=Position)
        except (MsgspecError, NotBase64, ValueError):
            _refuse()

    def _check(self, position: bytes) -> bytes:
        # No secret: a cursor opens nothing. It is only to be the one that was given out.
        return blake2b(position, digest_size=_CHECK_BYTES, person=self.name.encode()[:16]).digest()


def _refuse() -> NoReturn:
    raise Rejected("cursor is not one of this list", path="cursor") from None
