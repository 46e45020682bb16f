"""
Logs: one JSON object a line on standard error, or plain text on a terminal.
"""

from __future__ import annotations

import json
import logging
import sys

import msgspec
import structlog

_SHARED: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def set_up_logs() -> None:
    """
    Send everything that is logged, by whatever library, through one form.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering()],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)


def _rendering() -> list[structlog.types.Processor]:
    if sys.stderr.isatty():
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]


def _json(value: object, **_: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (ValueError, OverflowError):  # a text that is not Unicode, an integer beyond 64 bits
        return json.dumps(value, default=str)
