"""
Signals within one process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from uns.ports.decision import Signal
from uns.ports.pubsub import Listener

_log = logging.getLogger(__name__)


class InProcessPubSub:
    """
    Calls every listener in the publishing thread.
    """

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def publish(self, signals: Sequence[Signal]) -> None:
        for listener in self._listeners:
            try:
                listener(signals)
            except Exception:  # a deaf listener must not fail the commit it was told of
                _log.exception("a signal listener failed")

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        def hear(signals: Sequence[Signal]) -> None:  # one for each subscription of a listener
            listener(signals)

        with self._lock:
            self._listeners = (*self._listeners, hear)

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = tuple(known for known in self._listeners if known is not hear)

        return unsubscribe

    def close(self) -> None:
        pass
