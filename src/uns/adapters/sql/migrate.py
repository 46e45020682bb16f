"""
The schema of a database against the migrations of this code: look, check, create, upgrade.

Any number of processes may start at once: who finds work to do takes one lock and looks again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa

from uns.adapters.sql import postgres
from uns.adapters.sql.schema import metadata
from uns.adapters.sql.sqlite import begin_immediate, patiently, place
from uns.ports.errors import SchemaMismatch, StoreUnavailable

SCRIPTS = Path(__file__).with_name("migrations")
VERSION_TABLE = "uns_schema_version"  # not Alembic's own name: the host may keep its tables here too

_version = sa.table(VERSION_TABLE, sa.column("version_num", sa.String))

# Alembic keeps the migration under way in module globals.
_one_at_a_time = threading.Lock()

# After the wait the state is read again, which must see what the other process committed. Waiting
# for that process has no limit; waiting for a table has one, since it keeps everyone else waiting.
_LOCK_POSTGRESQL = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL lock_timeout = 0",
    "SELECT pg_advisory_xact_lock(7696499, 1)",  # "uns" in ASCII, the schema
    "SET LOCAL lock_timeout = '10s'",
)


class State(StrEnum):
    """
    What a database holds, seen from this code.
    """

    CURRENT = "CURRENT"
    EMPTY = "EMPTY"
    OLDER = "OLDER"
    NEWER = "NEWER"
    FOREIGN = "FOREIGN"


_REFUSALS = {
    State.EMPTY: "has no uns schema; create it with create_tables=True or `uns init`",
    State.OLDER: "has a uns schema older than this code; upgrade it with create_tables=True or `uns init`",
    State.NEWER: "has a uns schema newer than this code, and was left as it is; run the newer uns",
    State.FOREIGN: "has tables of the same names that uns did not make; name another database",
}
_MIGRATES = frozenset({State.EMPTY, State.OLDER})


def state(engine: sa.Engine, *, scripts: Path = SCRIPTS) -> State:
    """
    Look, without a lock.
    """
    with _refusals_of(engine):
        return _look(engine, scripts)


def check(engine: sa.Engine, *, scripts: Path = SCRIPTS) -> None:
    """
    Return only if the database can be worked with as it is.

    Raises:
        SchemaMismatch: the database holds anything but the schema of this code.
        StoreUnavailable: it did not answer.
    """
    _refuse(engine, state(engine, scripts=scripts), accepted=frozenset({State.CURRENT}))


def create_or_upgrade(engine: sa.Engine, *, scripts: Path = SCRIPTS) -> State:
    """
    Bring an empty or older database to the schema of this code; at that schema, write nothing.

    One of many callers migrates, in one transaction; the others wait for it.

    Returns:
        What was found: EMPTY or OLDER tell the one who migrated.

    Raises:
        SchemaMismatch: the schema is newer than this code or not from uns. It was left as it is.
        StoreUnavailable: the database did not answer, refused, or stayed locked.
    """
    with _refusals_of(engine):
        found = _look(engine, scripts)
        if found in _MIGRATES:
            found = _migrate(engine, scripts)
    _refuse(engine, found, accepted=_MIGRATES | {State.CURRENT})
    return found


def _look(engine: sa.Engine, scripts: Path) -> State:
    def read() -> State:
        with engine.connect() as connection:
            return _state(connection, scripts)

    return patiently(read)


def _migrate(engine: sa.Engine, scripts: Path) -> State:
    upgrade = _upgrading(scripts)  # loaded first: nobody shall wait for imports
    with _one_at_a_time, _transactional(engine).connect() as connection, connection.begin():
        _lock(connection)
        found = _state(connection, scripts)
        if found in _MIGRATES:
            upgrade(connection)
        return found


def _transactional(engine: sa.Engine) -> sa.Engine:
    if engine.dialect.name == "sqlite":
        return engine
    # The store's connections to PostgreSQL commit each statement by themselves.
    return engine.execution_options(isolation_level="READ COMMITTED")


def _state(connection: sa.Connection, scripts: Path) -> State:
    # The names in one query: a schema that is committed meanwhile must not look half made.
    tables = set(sa.inspect(connection).get_table_names())
    if VERSION_TABLE not in tables:
        return State.FOREIGN if tables & metadata.tables.keys() else State.EMPTY
    version = connection.scalar(sa.select(sa.func.max(_version.c.version_num)))
    if version is None:
        return State.EMPTY
    # Read from the file names, so that a start which finds all well need not load Alembic.
    known = sorted(file.name.partition("_")[0] for file in (scripts / "versions").glob("[0-9]*.py"))
    if version == known[-1]:
        return State.CURRENT
    return State.OLDER if version in known else State.NEWER


def _lock(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        begin_immediate(connection.connection.cursor())
        return
    for statement in _LOCK_POSTGRESQL:
        connection.exec_driver_sql(statement)


def _upgrading(scripts: Path) -> Callable[[sa.Connection], None]:
    # Alembic narrates at INFO, its import included. A host that wants to hear it sets the level.
    chatter = logging.getLogger("alembic")
    if chatter.level == logging.NOTSET:
        chatter.setLevel(logging.WARNING)
    from alembic import command
    from alembic.config import Config

    def upgrade(connection: sa.Connection) -> None:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(scripts).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        command.upgrade(config, "head")

    return upgrade


def _refuse(engine: sa.Engine, found: State, *, accepted: frozenset[State]) -> None:
    if found not in accepted:
        raise SchemaMismatch(f"the database {_name(engine)} {_REFUSALS[found]}")


@contextmanager
def _refusals_of(engine: sa.Engine) -> Iterator[None]:
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        told = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        cause = str(told).strip().partition("\n")[0]
        raise StoreUnavailable(f"the database {_name(engine)} refused: {cause}") from error


def _name(engine: sa.Engine) -> str:
    return place(engine.url) if engine.dialect.name == "sqlite" else postgres.place(engine.url)
