"""
What really happened outside the ledger, whatever the ledger came to believe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from uns.ports.rows import Event


class Call(Struct, eq=False):
    """
    One channel call, as the provider saw it. Times are the loop's; ``ended`` None: still open.

    ``limit`` is how many seconds the caller allows.
    """

    id: str
    channel: str
    token: str
    process: str
    started: float
    limit: float
    ended: float | None = None
    delivered: bool = False
    rude: bool = False


class Told(Struct, eq=False):
    """
    One callback call.
    """

    event_id: str
    at: float
    went_well: bool


class Violation(AssertionError):
    """
    The ledger broke a promise. The message says which, and how the run came to it.
    """


class Truth:
    """
    The record of one run: the outside world, a trace of everything, and what occurred how often.

    Args:
        stop: ends the run.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self.calls: list[Call] = []
        self.told: list[Told] = []
        self.accepted: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.broken: str | None = None
        self._trace: list[tuple[float, str, str, Any]] = []
        self._names: dict[str, str] = {}

    def note(self, at: float, who: str, what: str, about: Any = "") -> None:
        """
        Add a line to the trace. It becomes text only if somebody reads it.
        """
        self._trace.append((at, who, what, about))

    def violated(self, what: str) -> None:
        """
        A promise was broken; the first one counts, the run ends there.
        """
        if self.broken is None:
            self.broken = what
            self._stop()

    def name(self, id: str) -> str:
        """
        A short name for a long id.
        """
        return self._names.setdefault(id, f"n{len(self._names) + 1}")

    def story(self, last: int = 120) -> str:
        """
        The end of the trace, one line for each thing that happened.
        """
        lines = [self._line(*entry) for entry in self._trace]
        left_out = [f"... {len(lines) - last} lines before"] if len(lines) > last else []
        return "\n".join(left_out + lines[-last:])

    def _line(self, at: float, who: str, what: str, about: Any) -> str:
        return f"{at:9.3f}  {who:<10} {what} {self._text(about)}".rstrip()

    def _text(self, about: Any) -> str:
        if isinstance(about, Event):
            details = {key: self._short(value) for key, value in about.details.items() if key in _TELLING}
            told = " ".join(f"{key}={value}" for key, value in details.items())
            return f"{self.name(about.notification_id)} {told}"
        if isinstance(about, tuple):
            return " ".join(self._text(part) for part in about)
        return str(self._short(about))

    def _short(self, value: Any) -> Any:
        if isinstance(value, str) and value in self._names:
            return self._names[value]
        if isinstance(value, str) and len(value) == _ID_LENGTH:
            return f"#{value[15:18]}{value[20:23]}".replace("#0000", "#").replace("#00", "#")
        return msgspec.json.encode(value).decode() if isinstance(value, dict) else value


_ID_LENGTH = 36
_TELLING = (
    "owner_id",
    "generation",
    "successor_id",
    "lease_token",
    "channel",
    "success",
    "status",
    "attempt",
    "cycle",
    "dead_letter",
    "settled_by",
    "rate_limited",
    "actor",
    "count",
)
