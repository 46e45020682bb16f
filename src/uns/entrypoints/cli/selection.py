"""
Which dead letters a command is about: ``--where type=ask.* --older-than 10m``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from uns.entrypoints.cli.exits import Usage

COLUMNS = {
    "type": "notification_type",
    "source": "source",
    "principal": "principal",
    "policy": "policy_id",
    "agent": "agent_id",
    "priority": "priority",
    "correlation": "correlation_id",
}
"""What can be asked for, and the column that it is."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)


class Selection(Struct, frozen=True, kw_only=True):
    """
    Those that match every pattern and were accepted at least ``older_than`` seconds ago.
    """

    patterns: tuple[tuple[str, str], ...] = ()
    older_than: float | None = None

    def __bool__(self) -> bool:
        return bool(self.patterns) or self.older_than is not None

    def takes(self, row: dict[str, Any], now: float) -> bool:
        """
        Whether a stored row is among them. A pattern may hold ``*`` and ``?``.
        """
        return row["accepted_at"] + (self.older_than or 0.0) <= now and all(
            fnmatchcase(str(row[column] or ""), pattern) for column, pattern in self.patterns
        )


def selection(where: Sequence[str], older_than: str | None) -> Selection:
    """
    What the options say.

    Raises:
        Usage: one of them cannot be read.
    """
    return Selection(patterns=tuple(map(_pattern, where)), older_than=_seconds(older_than))


def _pattern(condition: str) -> tuple[str, str]:
    name, equals, pattern = condition.partition("=")
    if not equals or name not in COLUMNS:
        raise Usage(f"--where {condition}: write NAME=PATTERN, with one of {', '.join(COLUMNS)}")
    return COLUMNS[name], pattern


def _seconds(age: str | None) -> float | None:
    if age is None:
        return None
    found = _AGE.fullmatch(age)
    if found is None:
        raise Usage(f"--older-than {age}: write a number and one of s, m, h, d, like 10m")
    return float(found[1]) * _UNITS[found[2]]
