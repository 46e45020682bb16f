"""
The SQL store: groups of plans under one commit, faults told apart, reads beside the writer.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa

from uns.adapters.sql.databases import database_of
from uns.adapters.sql.faults import Fault, NeedMore, Refused, refused
from uns.adapters.sql.tx import GroupTx, PlanTx
from uns.ports.decision import Signal
from uns.ports.errors import Closed, Stale, StoreUnavailable, UnsError
from uns.ports.sources import Clock
from uns.ports.store import Plan, Wants, idle

T = TypeVar("T")

_TRIES = 5
_PAUSE_SECONDS = 0.005
_SNAPSHOTS_KEPT = 64

_log = logging.getLogger(__name__)


class SqlStore:
    """
    Plans on a SQLite or PostgreSQL database.

    One writer at a time: ``transact`` and ``transact_many`` serialise. ``read`` runs beside them
    on its own connection, except in memory, where there is only one.

    Args:
        engine: see ``uns.adapters.sql.sqlite`` and ``uns.adapters.sql.postgres``.
        clock: where ``tx.now`` comes from, read after the locks are held; None for the database's
            own, which SQLite has not.
        publish: told the signals of a group once it is committed.
    """

    def __init__(
        self,
        engine: sa.Engine,
        clock: Clock | None,
        *,
        publish: Callable[[Sequence[Signal]], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._publish = publish
        self._database = database_of(engine, clock)
        self._immutable: dict[tuple[type, str], Any] = {}
        self._writer: Any = None
        self._writing = threading.Lock()
        self._closed = False

    def transact(self, plan: Plan[T]) -> T:
        reply = self.transact_many([plan])[0]
        if isinstance(reply, BaseException):
            raise reply
        answer: T = reply
        return answer

    def transact_many(self, plans: Sequence[Plan[Any]], meanwhile: Callable[[], None] = idle) -> list[Any]:
        if len(plans) > 1 and any(plan.wants.activates for plan in plans):
            return [answer for run in _apart(plans) for answer in self.transact_many(run, meanwhile)]
        try:
            with self._writing:
                replies, signals = self._group(plans, meanwhile)
        except Refused as fault:
            meanwhile()  # its transactions may wait long, and one after the other
            return self._halves(plans, fault)
        except UnsError as error:  # nothing is known of the whole group
            return [error] * len(plans)
        if signals:
            self._publish(signals)
        return replies

    def read(self, plan: Plan[T]) -> T:
        try:
            return self._database.reading(partial(self._read, plan))
        except self._database.error as error:
            raise self._database.unavailable(error) from error

    def close(self) -> None:
        with self._writing:
            if self._closed:
                return
            self._closed = True
            if self._writer is not None:
                if not self._database.shared:
                    self._writer.detach()  # its pool may be gone: see ``Database.reading``
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
        wants = [plan.wants for plan in plans]
        for tried in range(_TRIES):
            cursor = self._begin(meanwhile)
            try:
                group, replies = self._run(plans, wants, cursor, meanwhile)
            except Stale:
                self._roll_back(cursor)
                continue
            except NeedMore as need:
                self._roll_back(cursor)
                wants.append(need.wants)
                continue
            except BaseException as error:
                self._roll_back(cursor)
                if self._database.fault_of(error) is not Fault.AGAIN:
                    raise self._refusal(error) from error
                time.sleep(_PAUSE_SECONDS * tried * random.random())  # noqa: S311 - jitter, not a secret
                continue
            meanwhile()
            self._commit(cursor)
            return replies, group.signals
        raise Refused(StoreUnavailable("a row kept moving under the transaction"))

    def _run(
        self,
        plans: Sequence[Plan[Any]],
        wants: Sequence[Wants],
        cursor: Any,
        meanwhile: Callable[[], None],
    ) -> tuple[GroupTx, list[Any]]:
        group = self._database.group(cursor, self._immutable, meanwhile)
        group.prefetch(wants)
        replies = [self._attempt(plan, group) for plan in plans]
        group.flush()
        return group, replies

    def _refusal(self, error: BaseException) -> BaseException:
        """
        What a fault before COMMIT means for the group.

        ``Refused`` where a plan's own values or code are to blame, so that the others can go on
        without it; ``StoreUnavailable`` where the database does not work; anything that is no
        ordinary error as it is.
        """
        fault = self._database.fault_of(error)
        if fault is Fault.DOWN:
            return self._database.unavailable(error)
        if isinstance(error, Refused) or not isinstance(error, Exception):
            return error
        return refused(error, fault)

    def _attempt(self, plan: Plan[Any], group: GroupTx) -> Any:
        # Only a fault of the database may sink the group; any other error is the plan's own.
        tx = PlanTx(group)
        try:
            reply = plan.run(tx)
        except (Stale, NeedMore, Refused, self._database.error):
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
        try:
            if self._writer is None:
                self._writer = self._engine.raw_connection()
            return self._database.begin(self._writer, meanwhile)
        except self._database.error as error:
            self._drop_writer()
            raise self._database.unavailable(error) from error

    def _commit(self, cursor: Any) -> None:
        try:
            cursor.execute("COMMIT")
        except self._database.error as error:
            # Whether it was committed is unknown: the callers run the same plans again.
            self._roll_back(cursor)
            raise self._database.unavailable(error) from error
        cursor.close()

    def _roll_back(self, cursor: Any) -> None:
        try:
            self._database.roll_back(cursor)
        except self._database.error:
            _log.debug("the connection is given up", exc_info=True)
            self._drop_writer(cursor)

    def _drop_writer(self, cursor: Any = None) -> None:
        with suppress(self._database.error):
            if cursor is not None:
                cursor.close()  # a statement left open would keep the connection, and its lock, alive
        if self._writer is not None and not self._database.shared:
            self._writer.invalidate()
            self._writer = None

    def _read(self, plan: Plan[T]) -> T:
        with self._reader() as connection:
            group = self._database.begin_reading(connection, self._immutable)
            return plan.run(PlanTx(group, read_only=True))

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        if self._closed:
            raise Closed
        if self._database.shared:
            with self._writing:
                if self._writer is None:
                    self._writer = self._engine.raw_connection()
                yield self._writer
            return
        connection = self._engine.raw_connection()
        try:
            yield connection
        finally:
            connection.close()


def _apart(plans: Sequence[Plan[Any]]) -> Iterator[list[Plan[Any]]]:
    """
    The same plans in order, in runs; each that activates policies is alone.
    """
    run: list[Plan[Any]] = []
    for plan in plans:
        if plan.wants.activates and run:
            yield run
            run = []
        run.append(plan)
        if plan.wants.activates:
            yield run
            run = []
    if run:
        yield run
