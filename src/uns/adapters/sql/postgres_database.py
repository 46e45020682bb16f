"""
A PostgreSQL database as a store uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from uns.adapters.sql import postgres
from uns.adapters.sql.databases import Connection, Immutable, compiled
from uns.adapters.sql.locking_statements import LockingStatements
from uns.adapters.sql.locking_tx import LockingTx
from uns.adapters.sql.postgres_tx import PostgresTx
from uns.adapters.sql.statements import Statements
from uns.adapters.sql.tx import Cursor, GroupTx
from uns.ports.errors import StoreUnavailable
from uns.ports.sources import Clock

T = TypeVar("T")

DIALECT = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
"""What texts are compiled for that go to the server as they are (``psycopg.RawCursor``)."""


class Postgres:
    """
    PostgreSQL: writers in any number of processes, each with the locks it needs.

    Args:
        clock: None for the database's own.
    """

    shared = False

    def __init__(self, engine: sa.Engine, clock: Clock | None) -> None:
        self.error: type[Exception] = psycopg.Error
        self.fault_of = postgres.fault_of
        self._engine = engine
        self._clock = clock
        self._lent = not postgres.prepares(engine)
        self._writing = compiled(DIALECT, LockingStatements)
        self._reading = compiled(DIALECT, Statements)
        self._name = postgres.place(engine.url)
        self._planning: Connection = None
        self._plans = postgres.Plans()

    def begin(self, connection: Connection, meanwhile: Callable[[], None]) -> Cursor:
        meanwhile()  # every step from here on waits for the server
        cursor = psycopg.RawCursor(connection.driver_connection)
        if connection is not self._planning:
            self._planning, self._plans = connection, postgres.Plans()
        elif not self._lent and self._plans.outdated():
            cursor.execute("DISCARD PLANS")
        return cursor

    def group(self, cursor: Cursor, immutable: Immutable, _: Callable[[], None]) -> GroupTx:
        return LockingTx(cursor, self._writing, self._clock, immutable, lent=self._lent)

    def roll_back(self, cursor: Cursor) -> None:
        cursor.connection.rollback()
        cursor.close()

    def begin_reading(self, connection: Connection, immutable: Immutable) -> GroupTx:
        cursor = psycopg.RawCursor(connection.driver_connection)
        tx = PostgresTx(cursor, self._reading, self._clock, immutable, lent=self._lent)
        tx.begin_reading()
        return tx

    def reading(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except self.error as error:
            if not postgres.lost(error):
                raise
        # A connection that lay idle while the server went away. So did others: begin with new ones.
        self._engine.dispose()
        return read()

    def unavailable(self, error: BaseException) -> StoreUnavailable:
        return StoreUnavailable(f"the database {self._name} does not answer: {postgres.told(error)}")
