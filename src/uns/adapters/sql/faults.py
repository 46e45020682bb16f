"""
Database faults told apart: refused for what the plan wants, or simply no answer.
"""

from __future__ import annotations

import sqlite3

from uns.adapters.sql.sqlite import explained
from uns.ports.errors import Stale, StoreRefused, StoreUnavailable

_CLASHES = frozenset({sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE})


class Refused(Exception):
    """
    A statement failed before COMMIT was sent: nothing was written, and one plan is to blame.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def sinking(error: Exception) -> BaseException:
    """
    What a failed write means, whichever plan's read made the group write.

    ``Stale`` where a row was there that the insert took for absent, ``Refused`` where the values
    do not go onto the wire; faults of the database as they are.
    """
    match error:
        case sqlite3.IntegrityError() if error.sqlite_errorcode in _CLASHES:
            return Stale(str(error))
        case sqlite3.Error() | Stale():
            return error
        case _:
            return _refused(error)


def refusal(error: BaseException, name: str) -> BaseException:
    """
    What a fault before COMMIT means for the group.

    ``Refused`` where a plan's own values or code are to blame, so that the others can go on
    without it; ``StoreUnavailable`` where the database does not work; anything that is no
    ordinary error as it is.
    """
    match error:
        case sqlite3.OperationalError() | sqlite3.InternalError():
            return unavailable(error, name)
        case Exception():
            return _refused(error)
        case _:
            return error


def _refused(error: Exception) -> Refused:
    if not isinstance(error, sqlite3.Error | UnicodeError | OverflowError):
        return Refused(error)
    refused = StoreRefused(f"the database refused the values: {error}")
    refused.__cause__ = error
    return Refused(refused)


def unavailable(error: BaseException, name: str) -> StoreUnavailable:
    """
    One clear sentence for a database, called ``name``, that does not work.
    """
    return explained(error, name) or StoreUnavailable(f"the database {name} does not answer: {error}")
