"""
PostgreSQL: an engine whose sessions are set up alike, and what its errors mean.

Every statement of ours is served by an index and touches few rows, so the planner is told not to
weigh anything else. It plans a statement once and not for each run; and again from time to time,
because what is best for a table of ten rows is not for a million.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from uns.adapters.sql.faults import Fault
from uns.ports.errors import StoreUnavailable

DRIVERS = frozenset({"postgresql", "postgresql+psycopg"})

SESSION = {
    "lock_timeout": "2s",
    "statement_timeout": "10s",
    "idle_in_transaction_session_timeout": "10s",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

# A host that does not answer is given up after 5 s, one that no longer does after 15.
_USUAL = {"connect_timeout": 5, "tcp_user_timeout": 15_000, "keepalives_idle": 10, "client_encoding": "UTF8"}

PLANS_USED = 1024
PLANS_SECONDS = 10.0

_PREPARES = "uns_prepares"
_CLASH = "23505"
_AGAIN = frozenset({"40001", "40P01"})
_GONE = ("08", "57P")
_REFUSED = ("22", "23", "P0")
"""Classes of errors that the values of a statement cause: data, constraints, triggers."""


class Plans:
    """
    When the plans that one session keeps are to be made anew.

    Whenever it may have doubled the tables, and after a while in any case: others write too.
    """

    def __init__(self) -> None:
        self._used = 0
        self._made_at = time.monotonic()

    def outdated(self) -> bool:
        """
        To be asked once for each transaction.
        """
        self._used += 1
        doubled = self._used & (self._used - 1) == 0 or self._used % PLANS_USED == 0
        if not doubled and time.monotonic() - self._made_at < PLANS_SECONDS:
            return False
        self._made_at = time.monotonic()
        return True


def is_postgres(url: str) -> bool:
    """
    Whether a database URL, which need not be well formed, is meant for PostgreSQL.
    """
    driver, separator, _ = url.partition("://")
    return bool(separator) and driver in DRIVERS


class MissingDriver(Exception):
    """
    The driver of PostgreSQL is an extra, and not installed.
    """

    def __init__(self) -> None:
        super().__init__("the driver of PostgreSQL is not installed: pip install 'uns[postgres]'")


def postgres_engine(url: str | sa.URL, *, prepare: bool = True) -> sa.Engine:
    """
    An engine for ``postgresql://user@host/database``.

    Connections commit each statement by itself until somebody begins a transaction.

    Args:
        prepare: keep settings and prepared statements in the session. Off behind a proxy that lends
            each transaction another session; then whoever begins one sets it up (``SESSION``).

    Raises:
        MissingDriver: psycopg is not installed.
    """
    url = sa.make_url(url)
    if url.drivername not in DRIVERS:
        raise ValueError(f"not a PostgreSQL URL: {url!r}")
    options = [value] if isinstance(value := url.query.get("options", ""), str) else list(value)
    settings = [f"-c {name}={value}" for name, value in SESSION.items()] if prepare else []
    arguments: dict[str, Any] = {name: value for name, value in _USUAL.items() if name not in url.query}
    arguments["prepare_threshold"] = 0 if prepare else None
    if settings or any(options):
        arguments["options"] = " ".join([*settings, *options]).strip()
    try:
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg").difference_update_query(["options"]),
            isolation_level="AUTOCOMMIT",
            connect_args=arguments,
            execution_options={_PREPARES: prepare},
        )
    except ModuleNotFoundError as missing:
        raise MissingDriver from missing
    event.listen(engine, "connect", _check)
    return engine


def prepares(engine: sa.Engine) -> bool:
    """
    Whether a session keeps what was set up in it.
    """
    kept: bool = engine.get_execution_options().get(_PREPARES, False)
    return kept


def fault_of(error: BaseException) -> Fault | None:
    """
    What an error of psycopg's means to a transaction.
    """
    import psycopg

    if not isinstance(error, psycopg.Error):
        return None
    state = error.sqlstate or ""
    if state == _CLASH:
        return Fault.CLASH
    if state in _AGAIN:
        return Fault.AGAIN
    # Without a state the driver itself turned the values away, or lost the connection.
    if state.startswith(_REFUSED) or (not state and isinstance(error, psycopg.DataError)):
        return Fault.REFUSED
    return Fault.DOWN


def lost(error: BaseException) -> bool:
    """
    Whether the connection is gone.
    """
    state: str | None = getattr(error, "sqlstate", None)
    return state is None or state.startswith(_GONE)


def place(url: sa.URL) -> str:
    """
    Where a database is, for people to read.
    """
    return str(url.database or url.username or "of this user")


def told(error: BaseException) -> str:
    """
    The first line of what the server or the driver said.
    """
    return str(error).strip().partition("\n")[0]


def _check(connection: Any, _record: object) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise StoreUnavailable(f"the database holds text as {encoding}: make one with ENCODING 'UTF8'")
