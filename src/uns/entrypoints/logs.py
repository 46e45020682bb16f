"""
Logs: one JSON object a line on standard error, or plain text on a terminal.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from types import TracebackType
from typing import TextIO

import msgspec
import structlog

_SHARED: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]

_log = logging.getLogger(__name__)


def set_up_logs() -> None:
    """
    Send everything that is logged, warned of or caught by nobody, in whatever library, through one form.
    """
    handler = _Lines(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering()],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    _take_over(root.manager)
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    logging.captureWarnings(True)
    sys.excepthook = _on_uncaught
    threading.excepthook = _on_uncaught_in_thread
    sys.unraisablehook = _on_unraisable


class _Lines(logging.StreamHandler[TextIO]):
    """
    Writes a line for every record, for one that cannot be formed as well.
    """

    def format(self, record: logging.LogRecord) -> str:
        try:
            return super().format(record)
        except Exception as fault:  # logging's own complaint would take many lines, and tell the values
            where, what = f"{record.pathname}:{record.lineno}", type(fault).__name__
            told = "a line of %s cannot be formed: %s"
            return super().format(
                logging.LogRecord(record.name, logging.ERROR, "", 0, told, (where, what), None)
            )


def _take_over(manager: logging.Manager) -> None:
    # A server that runs the application has set up its own loggers by then.
    for logger in manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True


def _rendering() -> list[structlog.types.Processor]:
    if sys.stderr.isatty():
        # Its usual tracebacks show the values of variables, keys and secrets among them.
        return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]


def _json(value: object, **_: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (ValueError, OverflowError):  # a text that is not Unicode, an integer beyond 64 bits
        return json.dumps(value, default=str)


def _on_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("the process ends by an exception that nobody caught", exc_info=(kind, error, trace))


def _on_uncaught_in_thread(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None and not isinstance(caught.exc_value, SystemExit):
        info = (caught.exc_type, caught.exc_value, caught.exc_traceback)
        _log.error("a thread ends by an exception that nobody caught", exc_info=info)


def _on_unraisable(caught: sys.UnraisableHookArgs) -> None:
    error = caught.exc_value
    info = (caught.exc_type, error, caught.exc_traceback) if error is not None else None
    _log.error("an exception that nobody can catch was passed over", exc_info=info)
