"""
Requests that are given as JSON, in a file or on standard input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from uns.entrypoints.cli.exits import Usage

STANDARD_INPUT = "-"


def request_in(file: str) -> bytes:
    """
    The JSON in ``file``, unread but for whether it is JSON: what it must say is the ledger's to judge.

    Raises:
        Usage: it cannot be read, or is no JSON.
    """
    name = "standard input" if file == STANDARD_INPUT else file
    try:
        content = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Usage(f"--file {name} cannot be read: {reason}") from None
    try:
        msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Usage(f"{name} is not valid JSON: {error}") from None
    return content
