"""
Transactions on PostgreSQL: what is asked for together goes out in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from uns.adapters.sql.faults import FaultOf
from uns.adapters.sql.locking_statements import LockingStatements
from uns.adapters.sql.postgres import SESSION, fault_of
from uns.adapters.sql.statements import Statement, Statements
from uns.adapters.sql.tx import Cursor, GroupTx, Key
from uns.ports.sources import Clock

_READ = Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
_SETTINGS = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in SESSION.items())
_SET_UP = Statement(f"SELECT {_SETTINGS}", ())

_PLAN_EACH = Statement("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)", ())

Take = Callable[[Cursor], object]


class PostgresTx(GroupTx):
    """
    A transaction that only reads: on a snapshot, and without locks.

    Args:
        clock: None for the database's own.
        lent: the session may be another one for each transaction.
    """

    fault_of: FaultOf = staticmethod(fault_of)

    def __init__(
        self,
        cursor: Cursor,
        sql: Statements,
        clock: Clock | None,
        immutable: dict[Key, Any],
        *,
        lent: bool,
    ) -> None:
        super().__init__(cursor, sql, 0.0, immutable)
        self._clock = clock
        self._lent = lent
        self._steps: list[tuple[str, tuple[Any, ...], Take]] = []

    def begin_reading(self) -> None:
        self._begin(_READ)
        self._ask(_PLAN_EACH)  # reads are few, and their sessions live long
        self._take_the_time()

    def query(self, statement: Statement, **values: Any) -> list[Any]:
        return super().query(statement, **sought(values))

    def _begin(self, statement: Statement) -> None:
        self._ask(statement)
        if self._lent:
            self._ask(_SET_UP)

    def _ask(self, statement: Statement, take: Take = bool, /, **values: Any) -> None:
        self._steps.append((statement.text, statement.arrange(values), take))

    def _take(self) -> None:
        """
        Run what was asked for, all in one go, and hand each answer to whom it is for.
        """
        steps, self._steps = self._steps, []
        another, connection = type(self._cursor), self._cursor.connection
        with connection.pipeline():
            cursors = [another(connection).execute(text, values) for text, values, _ in steps]
        for cursor, (_, _, take) in zip(cursors, steps, strict=True):
            take(cursor)

    def _take_the_time(self) -> None:
        """
        The same, and ``now`` after it: waiting for locks may have taken a while.
        """
        if self._clock is None:
            self._ask(LockingStatements.now, self._set_now)
            self._take()
        else:
            self._take()
            self.now = self._clock.now()

    def _set_now(self, cursor: Cursor) -> None:
        ((self.now,),) = cursor.fetchall()


def sought(values: Mapping[str, Any]) -> dict[str, Any]:
    """
    What is looked for, in a form that PostgreSQL takes.

    It stores no NUL, and refuses to look for one; nothing is found either with what stands for it.
    """
    return {name: _storable(value) if isinstance(value, str) else value for name, value in values.items()}


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd").replace("\\u0000", "\ufffd")
