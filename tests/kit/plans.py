"""
The smallest plans there are: put, change, tell, ask. And two ways of committing plans.
"""

from __future__ import annotations

from typing import Any

from uns.ports.decision import Change, Decision, Row
from uns.ports.queries import Query
from uns.ports.rows import Event
from uns.ports.store import Plan, Store, Tx


def put(*rows: Row) -> Plan[None]:
    """
    Insert rows; events are appended.
    """
    changes = tuple(Change(None, row) for row in rows if not isinstance(row, Event))
    return applied(Decision(None, changes, (), tuple(row for row in rows if isinstance(row, Event))))


def change(before: Row, after: Row) -> Plan[None]:
    """
    Move one row, which is read first, as plans do.
    """

    def run(tx: Tx) -> None:
        tx.get(type(before), key_of(before))
        tx.apply(Decision(None, (Change(before, after),)))

    return Plan(run)


def applied(decision: Decision[Any]) -> Plan[Any]:
    """
    Apply one decision.
    """
    return Plan(lambda tx: tx.apply(decision))


def got(kind: type[Any], key: str) -> Plan[Any]:
    """
    One row.
    """
    return Plan(lambda tx: tx.get(kind, key))


def asked(query: Query[Any]) -> Plan[list[Any]]:
    """
    The answer to one query.
    """
    return Plan(lambda tx: list(tx.find(query)))


def raising(error: BaseException, *rows: Row) -> Plan[None]:
    """
    Insert rows, and then raise.
    """
    inserts = put(*rows)

    def run(tx: Tx) -> None:
        inserts.run(tx)
        raise error

    return Plan(run)


def key_of(row: Any) -> str:
    """
    The primary key of a row, as ``Tx.get`` takes it.
    """
    fields = row.__struct_fields__
    return "/".join(getattr(row, name) for name in fields[: 2 if type(row).__name__ == "Copy" else 1])


class Commit:
    """
    Commits plans in one of two ways: each in a transaction of its own, or all in one.
    """

    def __init__(self, store: Store, *, grouped: bool) -> None:
        self.store = store
        self.grouped = grouped

    def __call__(self, *plans: Plan[Any]) -> Any:
        """
        The last plan's reply; what any of them raised is raised.
        """
        replies = self.outcomes(*plans)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return replies[-1]

    def outcomes(self, *plans: Plan[Any]) -> list[Any]:
        """
        What each plan came to: its reply, or the exception it raised.
        """
        if self.grouped:
            return self.store.transact_many(plans)
        return [self._alone(plan) for plan in plans]

    def _alone(self, plan: Plan[Any]) -> Any:
        try:
            return self.store.transact(plan)
        except Exception as error:
            return error
