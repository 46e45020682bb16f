"""
Broadcast of hints. The database is the truth: a lost signal only costs latency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from uns.ports.decision import Signal

Listener = Callable[[Sequence[Signal]], None]


class PubSub(Protocol):
    """
    Carries signals between the parts of a process, and between processes.

    After a time in which signals of other processes may have been missed, listeners hear one of
    each kind with an empty subject: anything may have happened, so look again. An empty subject
    may also stand for many of one kind.
    """

    def publish(self, signals: Sequence[Signal]) -> None:
        """
        Broadcast; never raises and never blocks on a slow listener.
        """
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """
        Call ``listener`` (from any thread, quickly) until the returned function is called.
        """
        ...

    def close(self) -> None:
        """
        Send what waits, soon, and leave. Does nothing the second time.
        """
        ...
