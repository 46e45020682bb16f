"""
Being told to stop: signals, and a last resort.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType

END_SECONDS = 9.5
"""Within the ten seconds after which whoever sent the signal may kill."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


def stop_while_starting() -> None:
    """
    Until somebody else takes the signals over, they end the process at once, with status 0.
    """
    for number in SIGNALS:
        signal.signal(number, _leave)


def end_by(seconds: float = END_SECONDS) -> None:
    """
    End the process in ``seconds``, whatever then still runs.

    A channel adapter of somebody else's may refuse to be cancelled. What it was about is on record,
    and whoever works next goes on with it.
    """
    timer = threading.Timer(seconds, _die)
    timer.daemon = True
    timer.start()


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


def _die() -> None:
    _log.error("something did not end in time; it was left behind")
    os._exit(1)
