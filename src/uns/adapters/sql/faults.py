"""
Faults of a database told apart: what is to blame, and what may be done about it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from uns.ports.errors import Stale, StoreRefused
from uns.ports.store import Wants


class Fault(Enum):
    """
    What an error of a driver means to a transaction.
    """

    CLASH = auto()
    """A row was there that an insert took for absent."""
    REFUSED = auto()
    """The values of one plan cannot be stored."""
    AGAIN = auto()
    """The database took the side of another transaction: nothing was written."""
    DOWN = auto()
    """The database does not work, or not in time."""


FaultOf = Callable[[BaseException], Fault | None]
"""None: the error is not the database's."""


class Refused(Exception):
    """
    A statement failed before COMMIT was sent: nothing was written, and one plan is to blame.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class NeedMore(Exception):
    """
    A plan asked for a lock that is not to be waited for, given those that its group holds.

    The group begins again, and takes ``wants`` with the others, in order.
    """

    def __init__(self, wants: Wants) -> None:
        super().__init__(str(wants))
        self.wants = wants


def sinking(error: Exception, fault_of: FaultOf) -> BaseException:
    """
    What a failed write means, whichever plan's read made the group write.

    ``Stale`` where a row was there that the insert took for absent, ``Refused`` where the values
    do not go onto the wire; faults of the database as they are.
    """
    fault = fault_of(error)
    if fault is Fault.CLASH:
        return Stale(str(error))
    if fault is not None or isinstance(error, Stale | NeedMore):
        return error
    return refused(error, fault)


def refused(error: Exception, fault: Fault | None) -> Refused:
    """
    The end of one plan, whose own values or code are to blame, so that others can go on without it.
    """
    if fault is None and not isinstance(error, UnicodeError | OverflowError):
        return Refused(error)
    because = StoreRefused(f"the database refused the values: {error}")
    because.__cause__ = error
    return Refused(because)
