"""
Every store there is, opened fresh: the list that the contract suite runs over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from uns.adapters.memory.store import MemoryStore
from uns.adapters.sql import migrate
from uns.adapters.sql.sqlite import sqlite_engine
from uns.adapters.sql.store import SqlStore
from uns.ports.decision import Signal
from uns.ports.sources import Clock
from uns.ports.store import Store

STORES = ("memory", "sqlite", "sqlite-memory")

Publish = Callable[[Sequence[Signal]], None]


@contextmanager
def open_store(kind: str, clock: Clock, folder: Path, publish: Publish = lambda _: None) -> Iterator[Store]:
    """
    A fresh, empty store of one kind; ``folder`` is where files go.
    """
    if kind == "memory":
        store: Store = MemoryStore(clock, publish=publish)
    else:
        url = f"sqlite:///{folder / 'uns.db'}" if kind == "sqlite" else "sqlite://"
        engine = sqlite_engine(url)
        migrate.create_or_upgrade(engine)
        store = SqlStore(engine, clock, publish=publish)
    try:
        yield store
    finally:
        store.close()
