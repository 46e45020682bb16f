"""
The SQL store: groups of plans under one commit, faults told apart, reads beside the writer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa

from uns.adapters.sql.faults import Refused, refusal, unavailable
from uns.adapters.sql.sqlite import begin_immediate, patiently, place
from uns.adapters.sql.statements import Statements
from uns.adapters.sql.tx import GroupTx, PlanTx
from uns.ports.decision import Signal
from uns.ports.errors import Closed, Stale, StoreUnavailable, UnsError
from uns.ports.sources import Clock
from uns.ports.store import Plan, idle

T = TypeVar("T")

_TRIES = 5
_SNAPSHOTS_KEPT = 64

_log = logging.getLogger(__name__)
_compiled: dict[str, Statements] = {}


class SqlStore:
    """
    Plans on a SQLite database.

    One writer at a time: ``transact`` and ``transact_many`` serialise. ``read`` runs beside them
    on its own connection, except in memory, where there is only one.

    Args:
        engine: see ``uns.adapters.sql.sqlite.sqlite_engine``.
        clock: where ``tx.now`` comes from, read after the write lock is held.
        publish: told the signals of a group once it is committed.
    """

    def __init__(
        self,
        engine: sa.Engine,
        clock: Clock,
        *,
        publish: Callable[[Sequence[Signal]], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._publish = publish
        self._sql = _statements(engine.dialect)
        self._name = place(engine.url)
        self._immutable: dict[tuple[type, str], Any] = {}
        self._writer: Any = None
        self._writing = threading.Lock()
        self._shared = isinstance(engine.pool, sa.StaticPool)
        self._closed = False

    def transact(self, plan: Plan[T]) -> T:
        reply = self.transact_many([plan])[0]
        if isinstance(reply, BaseException):
            raise reply
        answer: T = reply
        return answer

    def transact_many(self, plans: Sequence[Plan[Any]], meanwhile: Callable[[], None] = idle) -> list[Any]:
        try:
            with self._writing:
                replies, signals = self._group(plans, meanwhile)
        except Refused as fault:
            return self._halves(plans, fault)
        except UnsError as error:  # nothing is known of the whole group
            return [error] * len(plans)
        if signals:
            self._publish(signals)
        return replies

    def read(self, plan: Plan[T]) -> T:
        try:
            return patiently(partial(self._read, plan))
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise unavailable(error, self._name) from error

    def close(self) -> None:
        with self._writing:
            if self._closed:
                return
            self._closed = True
            if self._writer is not None:
                self._writer.close()
            self._engine.dispose()

    def _halves(self, plans: Sequence[Plan[Any]], fault: Refused) -> list[Any]:
        # Nothing was committed. One poisoned plan must fail alone: find it by halving.
        if len(plans) == 1:
            return [fault.error]
        middle = len(plans) // 2
        return self.transact_many(plans[:middle]) + self.transact_many(plans[middle:])

    def _group(
        self, plans: Sequence[Plan[Any]], meanwhile: Callable[[], None]
    ) -> tuple[list[Any], list[Signal]]:
        for _ in range(_TRIES):
            cursor = self._begin(meanwhile)
            try:
                group = GroupTx(cursor, self._sql, self._clock.now(), self._immutable, meanwhile)
                group.prefetch([plan.wants for plan in plans])
                replies = [self._attempt(plan, group) for plan in plans]
                group.flush()
            except Stale:
                self._roll_back(cursor)
                continue
            except Refused:
                self._roll_back(cursor)
                raise
            except BaseException as error:
                self._roll_back(cursor)
                raise refusal(error, self._name) from error
            meanwhile()
            self._commit(cursor)
            return replies, group.signals
        raise Refused(StoreUnavailable("a row kept moving under the transaction"))

    def _attempt(self, plan: Plan[Any], group: GroupTx) -> Any:
        # Only a fault of the database may sink the group; any other error is the plan's own.
        tx = PlanTx(group)
        try:
            reply = plan.run(tx)
        except (Stale, Refused, self._engine.dialect.loaded_dbapi.Error):
            raise
        except Exception as error:
            return error
        group.merge(tx)
        return reply

    def _begin(self, meanwhile: Callable[[], None]) -> Any:
        if self._closed:
            raise Closed
        if len(self._immutable) > _SNAPSHOTS_KEPT:
            self._immutable.clear()
        cursor = None
        try:
            if self._writer is None:
                self._writer = self._engine.raw_connection()
            cursor = self._writer.cursor()
            begin_immediate(cursor, waiting=meanwhile)
        except self._engine.dialect.loaded_dbapi.Error as error:
            self._drop_writer(cursor)
            raise unavailable(error, self._name) from error
        return cursor

    def _commit(self, cursor: Any) -> None:
        try:
            cursor.execute("COMMIT")
        except self._engine.dialect.loaded_dbapi.Error as error:
            # Whether it was committed is unknown: the callers run the same plans again.
            self._roll_back(cursor)
            raise unavailable(error, self._name) from error
        cursor.close()

    def _roll_back(self, cursor: Any) -> None:
        try:
            if self._writer.driver_connection.in_transaction:
                cursor.execute("ROLLBACK")
            cursor.close()
        except self._engine.dialect.loaded_dbapi.Error:
            _log.exception("rollback failed; the connection is given up")
            self._drop_writer(cursor)

    def _drop_writer(self, cursor: Any = None) -> None:
        with suppress(self._engine.dialect.loaded_dbapi.Error):
            if cursor is not None:
                cursor.close()  # a statement left open would keep the connection, and its lock, alive
        if self._writer is not None and not self._shared:
            self._writer.invalidate()
            self._writer = None

    def _read(self, plan: Plan[T]) -> T:
        with self._reader() as cursor:
            group = GroupTx(cursor, self._sql, self._clock.now(), self._immutable)
            return plan.run(PlanTx(group, read_only=True))

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        if self._closed:
            raise Closed
        if self._shared:
            with self._writing:
                if self._writer is None:
                    self._writer = self._engine.raw_connection()
                yield self._writer.cursor()
            return
        connection = self._engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            yield cursor
        finally:
            connection.rollback()
            connection.close()


def _statements(dialect: sa.Dialect) -> Statements:
    # One set of texts serves all stores of a process: compiling them takes as long as many commits.
    known = _compiled.get(dialect.name)
    if known is None:
        known = _compiled[dialect.name] = Statements(dialect)
    return known
