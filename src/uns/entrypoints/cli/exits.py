"""
How a command ends: the exit statuses, and which error means which.
"""

from __future__ import annotations

from enum import IntEnum
from http import HTTPStatus

from uns.ports.errors import UnsError


class Exit(IntEnum):
    """
    The exit statuses of every command.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    INTERRUPTED = 130
    """What shells expect of a command that Ctrl-C ended."""


class Usage(Exception):
    """
    The command, its environment or its input is wrong; nothing was tried.
    """


class Failed(Exception):
    """
    It could not be done. The message says what to do about it.
    """


def status_of(error: Exception) -> Exit:
    """
    The exit status that tells of ``error``.
    """
    match error:
        case Usage():
            return Exit.USAGE
        case UnsError() if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return Exit.REFUSED
        case _:
            return Exit.FAILED
