"""
A service that can be killed, and what its file holds while it is dead.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from kit.processes import Child
from uns.entrypoints.cli.main import main

LONG_AGO = 1.0


def start(folder: Path, port: int, environ: Mapping[str, str]) -> Child:
    """
    ``uns serve`` in a process of its own, its logs in the folder.
    """
    return Child(_serve, folder, port, dict(environ))


def _serve(folder: Path, port: int, environ: dict[str, str]) -> int:
    os.chdir(folder)
    os.environ.update(environ)
    with open("log.txt", "ab", buffering=0) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    return main(["serve", f"--port={port}"])


def statuses(folder: Path) -> dict[str, str]:
    """
    The status of every notification by its id.
    """
    with _opened(folder) as database:
        return dict(database.execute("SELECT id, status FROM uns_notifications"))


def titles(folder: Path) -> list[str]:
    """
    The title of every notification: what its producer knows it by.
    """
    with _opened(folder) as database:
        found = database.execute("SELECT json_extract(notification, '$.title') FROM uns_notifications")
        return [title for (title,) in found]


def succeeded(folder: Path) -> set[str]:
    """
    The notifications of which a success is on record, settled or not.
    """
    with _opened(folder) as database:
        found = database.execute(
            "SELECT notification_id FROM uns_copies "
            "UNION SELECT id FROM uns_notifications WHERE status = 'DELIVERED'"
        )
        return {id for (id,) in found}


def is_sound(folder: Path) -> bool:
    """
    Whether the file is what SQLite takes for whole.
    """
    with _opened(folder) as database:
        return database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def let_leases_lapse(folder: Path) -> None:
    """
    What a minute does to the leases of the dead.
    """
    with _opened(folder) as database, database:
        database.execute(
            "UPDATE uns_notifications SET lease_until = ? WHERE lease_token IS NOT NULL", (LONG_AGO,)
        )


@contextmanager
def _opened(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "uns.db", timeout=20)) as database:
        yield database
