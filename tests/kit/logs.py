"""
What setting up logs changes of a process, put back.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logs_as_they_were() -> Iterator[None]:
    """
    Within it logs may be set up as a service does; after it they are as before.
    """
    root = logging.getLogger()
    before = root.handlers[:], root.level
    others = {
        logger: (logger.handlers[:], logger.propagate, logger.level)
        for logger in root.manager.loggerDict.values()
        if isinstance(logger, logging.Logger)
    }
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers, root.level = before
        for logger, (handlers, propagate, level) in others.items():
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
