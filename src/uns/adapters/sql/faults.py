"""
Database faults told apart: refused for what the plan wants, or simply no answer.
"""

from __future__ import annotations

import sqlite3

from uns.ports.errors import StoreRefused, StoreUnavailable

_SENTENCES = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then send again",
    sqlite3.SQLITE_READONLY: "the database is read-only; make its file and folder writable",
    sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened; does its folder exist?",
    sqlite3.SQLITE_NOTADB: "the file is not a uns database",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged; restore it from a backup",
    sqlite3.SQLITE_IOERR: "the disk does not answer",
}
_PRIMARY = 0xFF


class Refused(Exception):
    """
    A statement failed before COMMIT was sent: nothing was written, and one plan is to blame.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def refusal(error: BaseException) -> BaseException:
    """
    What a fault before COMMIT means for the group.

    ``Refused`` where a plan's own values or code are to blame, so that the others can go on
    without it; ``StoreUnavailable`` where the database does not work; anything that is no
    ordinary error as it is.
    """
    match error:
        case sqlite3.OperationalError() | sqlite3.InternalError():
            return unavailable(error)
        case sqlite3.Error() | UnicodeError() | OverflowError():
            refused = StoreRefused(f"the database refused the values: {error}")
            refused.__cause__ = error
            return Refused(refused)
        case Exception():
            return Refused(error)
        case _:
            return error


def unavailable(error: BaseException) -> StoreUnavailable:
    """
    One clear sentence for a database that does not work.
    """
    code = getattr(error, "sqlite_errorcode", None)
    sentence = _SENTENCES.get(code & _PRIMARY) if isinstance(code, int) else None
    return StoreUnavailable(sentence or f"the database does not answer: {error}")
