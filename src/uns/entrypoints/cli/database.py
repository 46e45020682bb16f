"""
The database that commands and servers on this machine work on.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from dependency_injector import providers

from uns.adapters.sql.postgres import is_postgres
from uns.entrypoints.cli.exits import Usage
from uns.entrypoints.container import Container
from uns.entrypoints.settings import Settings
from uns.ports.errors import Rejected


def container_of(settings: Settings, *, create_tables: bool) -> Container:
    """
    The parts of this process, the database open.

    Args:
        create_tables: make the schema, or bring it up to date.

    Raises:
        Usage: a setting cannot be; names its variable.
        UnsError: the database cannot serve.
    """
    container = Container(settings=providers.Object(settings), create_tables=providers.Object(create_tables))
    try:
        container.runtime()
    except Rejected as error:
        raise Usage(str(error)) from None
    return container


def file_of(database_url: str) -> Path | None:
    """
    The file that a URL names; None where there is none, or the URL is not for us to read.
    """
    try:
        url = sa.make_url(database_url)
    except (ValueError, sa.exc.ArgumentError):
        return None
    name = url.database or ":memory:"
    if url.get_backend_name() != "sqlite" or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name).absolute()


def place_of(database_url: str) -> str:
    """
    Where a database is, for people to read.
    """
    file = file_of(database_url)
    if file is None and is_postgres(database_url):
        return sa.make_url(database_url).set(password=None, query={}).render_as_string()
    return str(file) if file is not None else "in memory"
