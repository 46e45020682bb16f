"""
``uns serve``: the HTTP API, with a worker inside unless told otherwise. ``uns init``: only the database.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from msgspec.structs import replace

from uns.entrypoints.cli.dev import Keys, dev_keys, welcome
from uns.entrypoints.cli.exits import Exit, Usage
from uns.entrypoints.cli.ledger import settings_of
from uns.entrypoints.cli.options import AsJson
from uns.entrypoints.cli.output import print_card, print_json
from uns.entrypoints.cli.stopping import stop_while_starting
from uns.entrypoints.settings import LAST_PORT, Settings, read_settings

if TYPE_CHECKING:
    from uns.entrypoints.container import Container

MOST_WORKERS = 64
NO_KEY = "no key is set, so nobody can send: set UNS_API_KEY, or use --dev for keys of development"

_log = logging.getLogger(__name__)


def register(app: App) -> None:
    """
    Add the commands of this module.
    """
    app.command(serve)
    app.command(init)


def serve(
    *,
    host: Annotated[str | None, Parameter(help="Where to listen; else UNS_HOST, else 127.0.0.1.")] = None,
    port: Annotated[int | None, Parameter(help="Else UNS_PORT, else 8000; 0 is any that is free.")] = None,
    workers: Annotated[int, Parameter(help="How many processes serve.")] = 1,
    no_worker: Annotated[
        bool, Parameter(negative=(), help="Send nothing from here: `uns worker` does.")
    ] = False,
    dev: Annotated[
        bool, Parameter(negative=(), help="Make keys for development on the first start.")
    ] = False,
) -> int:
    """
    Serve the HTTP API, with a worker inside.
    """
    stop_while_starting()
    settings = _settings(host, port)
    _check(settings, workers)
    # Loaded here: no other command needs them, and each would wait for them.
    from uns.entrypoints.cli.listening import listening, url_of
    from uns.entrypoints.logs import set_up_logs

    set_up_logs()
    with listening(settings.host, settings.port) as listener:
        container = _started(settings)
        keys = _dev_keys(settings) if dev else None
        if keys is not None:
            settings = _with(settings, keys)
        _greet(url_of(listener), settings, keys, dev=dev)
        return _run(container, settings, listener, workers=workers, work=not no_worker)


def init(
    *,
    allow_gaps: Annotated[
        bool, Parameter(negative=(), help="Even if a type in use is left without a policy.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """
    Make the schema, or bring it up to date, and put the policies of UNS_POLICY_DIR in force.
    """
    settings = settings_of(dict(os.environ))
    from uns.entrypoints.cli.database import container_of, place_of
    from uns.entrypoints.starting import put_in_force

    with container_of(settings, create_tables=True).runtime() as runtime:
        loaded = put_in_force(runtime, settings, allow_gaps=allow_gaps)
    done = {
        "database": place_of(settings.database_url),
        "policy_revision": loaded.revision if loaded is not None else None,
    }
    if as_json:
        print_json(done)
    else:
        print_card(done)


def _settings(host: str | None, port: int | None) -> Settings:
    settings = settings_of(dict(os.environ))
    if port is not None and not 0 <= port <= LAST_PORT:
        raise Usage(f"--port must be a whole number from 0 to {LAST_PORT}")
    return replace(settings, host=host or settings.host, port=settings.port if port is None else port)


def _check(settings: Settings, workers: int) -> None:
    from uns.entrypoints.cli.database import file_of

    if not 1 <= workers <= MOST_WORKERS:
        raise Usage(f"--workers must be a whole number from 1 to {MOST_WORKERS}")
    if workers > 1 and settings.database_url.startswith("sqlite") and file_of(settings.database_url) is None:
        raise Usage("several processes cannot share a database in memory: name a file in UNS_DATABASE_URL")


def _started(settings: Settings) -> Container:
    from uns.entrypoints.cli.database import container_of
    from uns.entrypoints.starting import put_in_force

    container = container_of(settings, create_tables=True)
    try:
        put_in_force(container.runtime(), settings)
    except BaseException:
        container.runtime().close()
        raise
    return container


def _dev_keys(settings: Settings) -> Keys | None:
    from uns.entrypoints.cli.database import file_of

    return None if settings.credentials else dev_keys(file_of(settings.database_url))


def _with(settings: Settings, keys: Keys) -> Settings:
    principals = {name: value for name, value in os.environ.items() if name.endswith("_PRINCIPAL")}
    return replace(settings, credentials=read_settings(principals | keys.values).credentials)


def _greet(url: str, settings: Settings, keys: Keys | None, *, dev: bool) -> None:
    from uns.entrypoints.cli.database import place_of

    database = place_of(settings.database_url)
    if dev:
        print(welcome(url, database, keys), flush=True)
        return
    _log.info("listens on %s, database %s", url, database)
    if not settings.credentials:
        _log.warning(NO_KEY)


def _run(
    container: Container, settings: Settings, listener: socket.socket, *, workers: int, work: bool
) -> Exit:
    from dependency_injector import providers

    if workers > 1:
        from uns.entrypoints.cli.crew import Crew

        container.runtime().close()  # it was opened to see that all is well; each process opens its own
        return Crew(settings, listener, size=workers, work=work).run()
    from uns.entrypoints.cli.server import serve_until_stopped

    # The keys were made after the database was found to work: none are made for a start that fails.
    container.settings.override(providers.Object(settings))
    serve_until_stopped(container, listener, work=work)
    return Exit.DONE
