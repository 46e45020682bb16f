"""
SQLite: an engine whose settings are one truth for every process, and patience with its locks.

SQLite's own waiting (``busy_timeout``) is off: it backs off in ever longer steps, so that one busy
process can keep another out for seconds. Whoever wants the lock asks again about every 0.5 ms.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext

from uns.adapters.sql.faults import Fault
from uns.ports.errors import StoreUnavailable
from uns.ports.store import idle

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.0005

_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_CLASHES = frozenset({sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE})
_PRIMARY = 0xFF  # an extended result code carries the primary one in its low byte

_REMEDIES = {
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: its directory must exist, and this user may write there",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database: name another file or move this one away",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
    sqlite3.SQLITE_READONLY: "is read-only: let this user write to it and to its directory",
    sqlite3.SQLITE_FULL: "cannot grow: make room on its disk",
    sqlite3.SQLITE_IOERR: "cannot be read or written: check its disk",
}

# FULL: a commit that was answered survives a power cut. A negative cache_size is in KiB.
# A checkpoint costs two flushes: after 32 MiB of log, not after SQLite's 4, many pages share one.
_SETTINGS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA cache_size=-32768",
    "PRAGMA wal_autocheckpoint=8192",
)


class Executes(Protocol):
    """
    A ``sqlite3`` connection or cursor.
    """

    def execute(self, sql: str, /) -> Any: ...


def sqlite_engine(url: str | sa.URL) -> sa.Engine:
    """
    An engine for ``sqlite:///file``, ``sqlite+pysqlite:///file`` or ``sqlite://`` (in memory).

    Nothing begins a transaction by itself: writers call ``begin_immediate``, and until then every
    statement stands alone. A connection that goes back to the pool is rolled back. In memory there
    is one connection for all threads, and they must take turns: each sees what another has not
    committed, and whoever gives it back rolls back the others too.

    A file that cannot serve raises ``StoreUnavailable`` with one sentence that says what to do,
    whichever statement meets it. Locks keep SQLAlchemy's error: see ``patiently``.
    """
    url = sa.make_url(url)
    if url.drivername not in {"sqlite", "sqlite+pysqlite"}:
        raise ValueError(f"not a SQLite URL: {url!r}")
    engine = sa.create_engine(
        url,
        poolclass=sa.StaticPool if _in_memory(url) else sa.QueuePool,
        connect_args={"timeout": 0, "isolation_level": None, "check_same_thread": False},
    )
    _listen(engine, place(url))
    return engine


def place(url: sa.URL) -> str:
    """
    Where a SQLite database is, for people to read.
    """
    if _in_memory(url):
        return "in memory"
    database = str(url.database)
    return database if database.startswith("file:") else str(Path(database).absolute())


def begin_immediate(
    connection: Executes, patience_seconds: float = PATIENCE_SECONDS, waiting: Callable[[], None] = idle
) -> None:
    """
    Begin a transaction that holds the write lock from its start.

    Args:
        waiting: called before each wait for the lock.

    Raises:
        StoreUnavailable: others held the lock for all of ``patience_seconds``. Nothing was begun.
    """
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"), patience_seconds, waiting)


def patiently(
    action: Callable[[], T],
    patience_seconds: float = PATIENCE_SECONDS,
    waiting: Callable[[], None] = idle,
) -> T:
    """
    What ``action`` returns, asked again for as long as a lock of SQLite's turns it away.

    Readers are turned away too, while another process recovers the file or closes it last. The
    last try is not before the patience ends.

    Raises:
        StoreUnavailable: each try until then met a lock.
    """
    ends = time.monotonic() + patience_seconds
    while True:
        try:
            return action()
        except (sqlite3.OperationalError, sa.exc.OperationalError) as error:
            if _code(error) not in _LOCKED:
                raise
            if time.monotonic() >= ends:
                raise StoreUnavailable(f"the database stayed locked for {patience_seconds:g} s") from error
        waiting()
        time.sleep(_PAUSE_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret


def _listen(engine: sa.Engine, name: str) -> None:
    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: Any, options: Any) -> sqlite3.Connection:
        try:
            return _open(name, *arguments, **options)
        except sqlite3.Error as error:
            if remedy := explained(error, name):
                raise remedy from error
            raise

    @event.listens_for(engine, "handle_error", retval=True)
    def explain(context: ExceptionContext) -> StoreUnavailable | None:
        return explained(context.original_exception, name)


def _open(name: str, /, *arguments: Any, **options: Any) -> sqlite3.Connection:
    connection: sqlite3.Connection = sqlite3.connect(*arguments, **options)
    try:
        _share(connection, name)
        for setting in _SETTINGS:
            patiently(partial(connection.execute, setting))
    except BaseException:
        connection.close()
        raise
    return connection


def _share(connection: sqlite3.Connection, name: str) -> None:
    # Processes that turn an empty file to WAL at once lock each other out.
    (mode,) = patiently(lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone())
    if mode not in {"wal", "memory"}:
        raise StoreUnavailable(f"the database {name} is on a disk that cannot share memory: use a local disk")


def fault_of(error: BaseException) -> Fault | None:
    """
    What an error of SQLite's means to a transaction.
    """
    match error:
        case sqlite3.IntegrityError() if error.sqlite_errorcode in _CLASHES:
            return Fault.CLASH
        case sqlite3.OperationalError() | sqlite3.InternalError():
            return Fault.DOWN
        case sqlite3.Error():
            return Fault.REFUSED
        case _:
            return None


def explained(error: BaseException, name: str) -> StoreUnavailable | None:
    """
    One sentence that says what to do about a file that cannot serve; None for other faults.
    """
    remedy = _REMEDIES.get(_code(error))
    return StoreUnavailable(f"the database {name} {remedy}") if remedy else None


def _code(error: BaseException | None) -> int:
    if isinstance(error, sa.exc.DBAPIError):
        error = error.orig
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY


def _in_memory(url: sa.URL) -> bool:
    return url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory"
