"""
Signals that wait to be sent to other processes. Never more than a message or so of them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from uns.ports.decision import Signal, SignalKind

MOST_SUBJECTS = 256

Batch = Mapping[SignalKind, Sequence[str]]
"""Subjects by kind, each once. An empty subject stands for any: whoever hears it looks for itself."""


class Outbox:
    """
    Filled from any thread. Holds a bounded amount, however long nobody takes from it.
    """

    def __init__(self) -> None:
        self._waiting: dict[SignalKind, dict[str, None]] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, signals: Sequence[Signal]) -> bool:
        """
        Whether these are the first to wait.
        """
        with self._lock:
            first = bool(signals) and not self._waiting
            for signal in signals:
                self._add(signal.kind, signal.subject)
        return first

    def take(self) -> Batch:
        """
        All that waits; from now on it waits no more.
        """
        with self._lock:
            taken, self._waiting = self._waiting, {}
        return {kind: tuple(subjects) for kind, subjects in taken.items()}

    def put_back(self, batch: Batch) -> None:
        """
        What was taken and could not be sent waits again, before what has come since.
        """
        with self._lock:
            since, self._waiting = self._waiting, {}
            for kinds in (batch, since):
                for kind, subjects in kinds.items():
                    for subject in subjects:
                        self._add(kind, subject)

    def _add(self, kind: SignalKind, subject: str) -> None:
        subjects = self._waiting.setdefault(kind, {})
        if kind is SignalKind.POLICIES:  # the last revision is the one in force
            subjects.clear()
        if "" in subjects:
            return
        subjects[subject] = None
        if not subject or len(subjects) > MOST_SUBJECTS:
            self._waiting[kind] = {"": None}
