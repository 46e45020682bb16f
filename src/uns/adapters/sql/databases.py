"""
What a store asks of its database, and the two there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from uns.adapters.sql import sqlite
from uns.adapters.sql.faults import Fault
from uns.adapters.sql.sqlite import begin_immediate
from uns.adapters.sql.statements import Statements
from uns.adapters.sql.tx import Cursor, GroupTx
from uns.ports.errors import StoreUnavailable
from uns.ports.sources import Clock

T = TypeVar("T")
S = TypeVar("S", bound=Statements)
Connection = Any  # of SQLAlchemy's pool, over one of the driver's
Immutable = dict[tuple[type, str], Any]

_compiled: dict[tuple[str, type[Statements]], Statements] = {}


class Database(Protocol):
    """
    Connections, transactions and faults of one kind of database.

    Args:
        error: the base of the driver's errors.
        shared: there is one connection for all.
    """

    error: type[Exception]
    shared: bool

    def begin(self, connection: Connection, meanwhile: Callable[[], None]) -> Cursor:
        """
        A cursor for one writing transaction; ``meanwhile`` comes before a wait.
        """
        ...

    def group(self, cursor: Cursor, immutable: Immutable, meanwhile: Callable[[], None]) -> GroupTx:
        """
        The transaction that ``begin`` began; where it did not, ``prefetch`` does.
        """
        ...

    def roll_back(self, cursor: Cursor) -> None:
        """
        End the transaction, whatever became of it. What the driver raises means: lost.
        """
        ...

    def begin_reading(self, connection: Connection, immutable: Immutable) -> GroupTx:
        """
        A transaction that only reads, on a snapshot.
        """
        ...

    def reading(self, read: Callable[[], T]) -> T:
        """
        What ``read`` returns, asked again where that helps.
        """
        ...

    def fault_of(self, error: BaseException) -> Fault | None: ...

    def unavailable(self, error: BaseException) -> StoreUnavailable:
        """
        One clear sentence for a database that does not work.
        """
        ...


class Sqlite:
    """
    SQLite: one writer at a time holds the lock of the whole file.
    """

    def __init__(self, engine: sa.Engine, clock: Clock) -> None:
        self.error: type[Exception] = engine.dialect.loaded_dbapi.Error
        self.shared = isinstance(engine.pool, sa.StaticPool)
        self.fault_of = sqlite.fault_of
        self._clock = clock
        self._sql = compiled(engine.dialect, Statements)
        self._name = sqlite.place(engine.url)

    def begin(self, connection: Connection, meanwhile: Callable[[], None]) -> Cursor:
        cursor = connection.cursor()
        try:
            begin_immediate(cursor, waiting=meanwhile)
        except BaseException:
            cursor.close()  # a statement left open would keep the connection, and its lock, alive
            raise
        return cursor

    def group(self, cursor: Cursor, immutable: Immutable, meanwhile: Callable[[], None]) -> GroupTx:
        return GroupTx(cursor, self._sql, self._clock.now(), immutable, meanwhile)

    def roll_back(self, cursor: Cursor) -> None:
        if cursor.connection.in_transaction:
            cursor.execute("ROLLBACK")
        cursor.close()

    def begin_reading(self, connection: Connection, immutable: Immutable) -> GroupTx:
        cursor = connection.cursor()
        if not self.shared:
            cursor.execute("BEGIN")
        return GroupTx(cursor, self._sql, self._clock.now(), immutable)

    def reading(self, read: Callable[[], T]) -> T:
        return sqlite.patiently(read)

    def unavailable(self, error: BaseException) -> StoreUnavailable:
        return sqlite.explained(error, self._name) or StoreUnavailable(
            f"the database {self._name} does not answer: {error}"
        )


def database_of(engine: sa.Engine, clock: Clock | None) -> Database:
    """
    The database behind an engine.

    Args:
        clock: where ``now`` comes from; None, on PostgreSQL alone, for the database's own.
    """
    if engine.dialect.name == "postgresql":
        from uns.adapters.sql.postgres_database import Postgres  # most processes have no use for it

        return Postgres(engine, clock)
    if clock is None:
        raise ValueError("SQLite has no clock of its own")
    return Sqlite(engine, clock)


def compiled(dialect: sa.Dialect, kind: type[S]) -> S:
    """
    The texts for a dialect, shared by all stores of a process: they take as long as many commits.
    """
    known = _compiled.get((dialect.name, kind))
    if not isinstance(known, kind):
        known = _compiled[(dialect.name, kind)] = kind(dialect)
    return known
