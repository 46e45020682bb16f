"""
Every store there is, opened fresh: the list that the contract suite runs over.
"""

from __future__ import annotations

import atexit
import functools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from kit.servers import postgres_database
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sql import migrate
from uns.adapters.sql.codec import STORED
from uns.adapters.sql.postgres import postgres_engine
from uns.adapters.sql.schema import metadata
from uns.adapters.sql.sqlite import sqlite_engine
from uns.adapters.sql.store import SqlStore
from uns.ports.decision import Signal
from uns.ports.rows import Event
from uns.ports.sources import Clock
from uns.ports.store import Store

STORES = ("memory", "sqlite", "sqlite-memory", "postgres")

Publish = Callable[[Sequence[Signal]], None]


@contextmanager
def open_store(kind: str, clock: Clock, folder: Path, publish: Publish = lambda _: None) -> Iterator[Store]:
    """
    A fresh, empty store of one kind; ``folder`` is where files go.
    """
    with ExitStack() as opened:
        if kind == "memory":
            store: Store = MemoryStore(clock, publish=publish)
        elif kind == "postgres":
            url = opened.enter_context(postgres_ledger())
            store = SqlStore(postgres_engine(url), clock, publish=publish)
        else:
            store = SqlStore(open_engine(kind, folder), clock, publish=publish)
        opened.callback(store.close)
        yield store


_idle: list[str] = []


@contextmanager
def postgres_ledger() -> Iterator[str]:
    """
    The URL of a PostgreSQL database of the present schema, empty.

    Migrated once per process and emptied from then on: making one takes as long as ten tests.
    """
    url = _idle.pop() if _idle else _migrated_postgres()
    try:
        yield url
    finally:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            for table in metadata.sorted_tables:
                connection.execute(sa.delete(table))
        _idle.append(url)


def _migrated_postgres() -> str:
    lasting = ExitStack()
    url: str = lasting.enter_context(postgres_database())
    atexit.register(lasting.close)
    engine = postgres_engine(url)
    migrate.create_or_upgrade(engine)
    engine.dispose()
    return url


def open_engine(kind: str, folder: Path) -> sa.Engine:
    """
    A fresh SQLite database of the present schema, in ``folder`` or in memory.

    Migrated once per process and copied from then on: migrating takes as long as twenty tests.
    """
    if kind == "sqlite":
        path = folder / "uns.db"
        path.write_bytes(_migrated())
        return sqlite_engine(f"sqlite:///{path}")
    engine = sqlite_engine("sqlite://")
    template = sqlite3.connect(":memory:")
    template.deserialize(_migrated())
    connection = engine.raw_connection()
    template.backup(connection.driver_connection)
    template.close()
    connection.close()
    return engine


@functools.cache
def _migrated() -> bytes:
    engine = sqlite_engine("sqlite://")
    migrate.create_or_upgrade(engine)
    connection = engine.raw_connection()
    image: bytes = connection.driver_connection.serialize()
    connection.close()
    engine.dispose()
    return image


def everything(store: Store) -> dict[str, list[Any]]:
    """
    All that a store holds, by row type: rows by primary key, events in the order of writing.
    """
    held = _memory(store) if isinstance(store, MemoryStore) else _sql(store)
    return {
        kind.__name__: rows if kind is Event else sorted(rows, key=STORED[kind].key_of)
        for kind, rows in held.items()
    }


def _memory(store: MemoryStore) -> dict[type, list[Any]]:
    return {kind: list(store.tables.get(kind, {}).values()) for kind in STORED}


def _sql(store: Store) -> dict[type, list[Any]]:
    assert isinstance(store, SqlStore)
    connection = store._engine.raw_connection()
    try:
        cursor = connection.cursor()
        return {
            kind: [STORED[kind].decode(line) for line in cursor.execute(text).fetchall()]
            for kind, text in _whole_tables().items()
        }
    finally:
        connection.close()


@functools.cache
def _whole_tables() -> dict[type, str]:
    texts = {}
    for kind, stored in STORED.items():
        order = stored.table.c.get("seq", next(iter(stored.table.primary_key)))
        texts[kind] = str(sa.select(*stored.columns).order_by(order))
    return texts
