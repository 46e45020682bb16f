"""
What a process is made of: one store, one writer queue, and the loops over them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import unquote

import sqlalchemy as sa
from msgspec import Struct

from uns.adapters.channels.log import LogChannel
from uns.adapters.channels.recording import RecordingChannel
from uns.adapters.channels.registry import LayeredRegistry, SimpleAdapterRegistry
from uns.adapters.group_commit import MAX_GROUP, GroupCommit
from uns.adapters.policy_files import packaged_policies
from uns.adapters.sources import FunctionClock, SystemChance, new_id
from uns.adapters.sql import migrate
from uns.adapters.sql.postgres import MissingDriver, is_postgres, postgres_engine
from uns.adapters.sql.sqlite import sqlite_engine
from uns.adapters.sql.store import SqlStore
from uns.core.loops.courier import Courier
from uns.core.loops.dispatcher import Dispatcher, Sources
from uns.core.loops.insist import PATIENCE_SECONDS, Insistent
from uns.core.loops.sender import Intake, Sender
from uns.core.loops.sweeper import Sweeper
from uns.core.plans import policies
from uns.core.rules.policy import Resolver
from uns.core.rules.retry import Retry
from uns.entrypoints.broadcast import Broadcast, choose_pubsub
from uns.ports.callback import Callback
from uns.ports.channel import ChannelRegistry
from uns.ports.checks import fault
from uns.ports.errors import Rejected
from uns.ports.pubsub import PubSub
from uns.ports.sources import Clock
from uns.ports.store import Store

_SQLITE = "sqlite:///path (two slashes more for /path)"
_POSTGRESQL = "postgresql://user:password@host:port/database"


class Options(Struct, frozen=True, kw_only=True):
    """
    How a process keeps its ledger. Seconds; attempts per cycle; plans per commit.

    ``patience_seconds`` is how long a plan whose outcome is unknown is tried again. ``pg_prepare`` is
    off where PostgreSQL is behind a proxy that pools transactions.
    """

    create_tables: bool = False
    max_attempts: int = 3
    retry_seconds: float = 1.0
    clock: Callable[[], float] = time.time
    callback: Callback | None = None
    max_group: int = MAX_GROUP
    patience_seconds: float = PATIENCE_SECONDS
    pg_prepare: bool = True
    broadcast: Broadcast = Broadcast()


class Ledger(Struct, frozen=True, kw_only=True):
    """
    The parts of a running process, made once and handed to the doors.
    """

    store: Store
    commits: GroupCommit
    insistent: Insistent
    pubsub: PubSub
    sources: Sources
    resolver: Resolver
    intake: Intake
    sender: Sender
    dispatcher: Dispatcher
    sweeper: Sweeper
    courier: Courier | None

    def close(self) -> None:
        """
        Serve what waits and tell others of it, then release the store.
        """
        self.commits.close()
        self.pubsub.close()
        self.store.close()


def open_ledger(url: str, adapters: ChannelRegistry | None, options: Options) -> Ledger:
    """
    Open the database at ``url`` and make everything that works on it.

    Raises:
        Rejected: the URL is not one of a database that uns knows, or an option is out of range.
        SchemaMismatch: the database's schema is missing, older or newer (see ``create_tables``).
        StoreUnavailable: the database does not open.
    """
    _check(options)
    engine = _engine(url, options)
    pubsub = choose_pubsub(url, options.broadcast)
    store = SqlStore(engine, _clock(engine, options), publish=pubsub.publish)
    try:
        if options.create_tables:
            migrate.create_or_upgrade(engine)
            store.transact(policies.bootstrap(packaged_policies()))
        else:
            migrate.check(engine)
    except BaseException:
        pubsub.close()
        store.close()
        raise
    return assemble(store, pubsub, adapters, options)


def assemble(store: Store, pubsub: PubSub, adapters: ChannelRegistry | None, options: Options) -> Ledger:
    """
    The loops over a store that is open.
    """
    commits = GroupCommit(store, max_group=options.max_group)
    insistent = Insistent(commits, patience_seconds=options.patience_seconds)
    sources = Sources(FunctionClock(options.clock), new_id, SystemChance())
    resolver = Resolver()
    intake = Intake(resolver, sources, wants_callback=options.callback is not None)
    retry = Retry(options.max_attempts, options.retry_seconds)
    dispatcher = Dispatcher(insistent, _channels(adapters), sources, retry)
    courier = Courier(insistent, options.callback, new_id) if options.callback is not None else None
    return Ledger(
        store=store,
        commits=commits,
        insistent=insistent,
        pubsub=pubsub,
        sources=sources,
        resolver=resolver,
        intake=intake,
        sender=Sender(intake, insistent, dispatcher),
        dispatcher=dispatcher,
        sweeper=Sweeper(insistent, new_id, callback=courier is not None),
        courier=courier,
    )


def _channels(adapters: ChannelRegistry | None) -> ChannelRegistry:
    built_in = SimpleAdapterRegistry({"LOG": LogChannel(), "RECORDING": RecordingChannel()})
    return built_in if adapters is None else LayeredRegistry(adapters, built_in)


def _clock(engine: sa.Engine, options: Options) -> Clock | None:
    # Processes on several machines agree on one time: the database's, unless the host brings its own.
    own = engine.dialect.name == "postgresql" and options.clock is time.time
    return None if own else FunctionClock(options.clock)


def _engine(url: str, options: Options) -> sa.Engine:
    remote = is_postgres(url)
    if not (remote or url.startswith(("sqlite://", "sqlite+pysqlite://"))) or "\0" in unquote(url):
        raise fault("database_url", "must begin with sqlite:/// or postgresql://")
    try:
        return postgres_engine(url, prepare=options.pg_prepare) if remote else sqlite_engine(url)
    except (ValueError, sa.exc.ArgumentError):
        form = _POSTGRESQL if remote else _SQLITE
        raise fault("database_url", f"is not of the form {form}") from None
    except MissingDriver as missing:
        raise fault("database_url", f"cannot be used: {missing}") from None


def _check(options: Options) -> None:
    if options.max_attempts < 1:
        raise Rejected("max_attempts must be at least 1", path="max_attempts")
    if not 0 <= options.retry_seconds < float("inf"):
        raise Rejected("retry_seconds must be a number of seconds, 0 or more", path="retry_seconds")
