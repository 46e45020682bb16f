"""
The only sources of time, identity and chance.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

_OWN = 30
_PART = 0x100


class Clock(Protocol):
    """
    The wall clock of this process.
    """

    def now(self) -> float:
        """
        Unix seconds. May step backwards; never assume that it is monotonic.
        """
        ...


class Chance(Protocol):
    """
    Where jitter comes from.
    """

    def fraction(self) -> float:
        """
        A number drawn uniformly from 0 <= x < 1.
        """
        ...


class NewId(Protocol):
    """
    A source of ids that no other process draws.
    """

    def __call__(self) -> str:
        """
        A fresh UUIDv7 in text form.
        """
        ...


class Ids(Struct, frozen=True, gc=False):
    """
    A block of 2^24 ids that one drawn UUIDv7 reserves for one plan.

    A plan may run twice (its first COMMIT's answer can be lost), so all ids it writes must be
    fixed before it runs. ``nth`` replaces the last six hexadecimal digits of the base by the index.
    What is before them, the time stamp and the counter of RFC 9562 (method 1), no other draw of
    this process shares, and another process's only by a chance of 2^-42 in the same millisecond.
    SQL stores build the same ids in set-based inserts.
    """

    base: str
    offset: int = 0

    def nth(self, index: int) -> str:
        """
        The ``index``-th id of the block, 0 <= index < 2^24.
        """
        return f"{self.base[:_OWN]}{self.offset + index:06x}"

    def part(self, number: int) -> Ids:
        """
        The ``number``-th part of the block, of 256 ids: one for each row of a batch.
        """
        return Ids(self.base, self.offset + number * _PART)
