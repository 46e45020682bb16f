"""
Paired measurement: ledgers to measure, the baseline beside them, and their ratio.

Every round measures the baseline first and the subject right after it, and what counts is the ratio
of the two, pair by pair: these figures mean something on a noisy machine, absolute ones do not.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg
from msgspec import Struct

from kit.builders import a_policy, put_in_force
from kit.servers import postgres_database, postgres_program
from uns.adapters.channels.registry import SimpleAdapterRegistry
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sources import SystemClock
from uns.adapters.sql import migrate
from uns.adapters.sql.postgres import postgres_engine
from uns.adapters.sql.sqlite import sqlite_engine
from uns.adapters.sql.store import SqlStore
from uns.entrypoints.wiring import Ledger, Options, assemble
from uns.ports.channel import Channel, ChannelMessage, ChannelResult
from uns.ports.policy import ChannelPlan

BASELINE_COMMITS = 400
ROUNDS = 7


class Case(Struct, frozen=True):
    """
    One way of running the ledger. ``max_group`` 1 is a transaction per plan.
    """

    store: str
    in_flight: int
    max_group: int

    def __str__(self) -> str:
        return f"{self.store}-{'direct' if self.max_group == 1 else 'grouped'}-{self.in_flight}"


CASES = [Case(s, n, g) for s in ("memory", "sqlite", "postgres") for g in (1, 128) for n in (1, 64)]


class NoOp:
    """
    A channel that delivers at once.
    """

    async def send(self, message: ChannelMessage) -> ChannelResult:
        return ChannelResult(True, message_id=message.idempotency_token)


class Baseline(Protocol):
    """
    What the same machine does at best, measured again and again.
    """

    rates: list[float]

    def measure(self) -> None: ...


class SqliteCommits:
    """
    L1: single-row commits a second of a SQLite file, WAL and synchronous=FULL, on the same disk.
    """

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "baseline.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
        self.rates: list[float] = []

    def measure(self) -> None:
        """
        Commit 400 rows, one by one, and remember the rate.
        """
        begun = time.perf_counter()
        for _ in range(BASELINE_COMMITS):
            self._db.execute("INSERT INTO t (v) VALUES ('x')")
        self.rates.append(BASELINE_COMMITS / (time.perf_counter() - begun))


class PostgresCommits:
    """
    L2: single-row commits a second of a durable PostgreSQL, from one pgbench client.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._url = url.replace("+psycopg", "")
        self._script = folder / "baseline.sql"
        self._script.write_text("INSERT INTO t (v) VALUES ('x');\n")
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)")
        self.rates: list[float] = []

    def measure(self) -> None:
        """
        Commit 1,000 rows, one by one, and remember the rate.
        """
        command = [postgres_program("pgbench"), "-n", "-M", "prepared", "-c", "1", "-t", "1000"]
        run = subprocess.run(
            [*command, "-f", self._script, self._url], check=True, capture_output=True, text=True
        )
        (rate,) = re.findall(r"^tps = ([0-9.]+)", run.stdout, re.MULTILINE)
        self.rates.append(float(rate))


@contextmanager
def baseline_of(case: Case, folder: Path) -> Iterator[Baseline]:
    """
    L2 for what runs on PostgreSQL, on the same server; L1 for the rest.
    """
    if case.store != "postgres":
        yield SqliteCommits(folder)
        return
    with postgres_database(durable=True) as url:
        yield PostgresCommits(folder, url)


@contextmanager
def a_ledger(case: Case, folder: Path, channel: Channel | None = None) -> Iterator[Ledger]:
    """
    A fresh ledger whose one policy sends everything to ``channel``, by default one that delivers at once.
    """
    pubsub = InProcessPubSub()
    with ExitStack() as opened:
        if case.store == "memory":
            store: Any = MemoryStore(SystemClock(), publish=pubsub.publish)
        elif case.store == "postgres":
            engine = postgres_engine(opened.enter_context(postgres_database(durable=True)))
            store = SqlStore(engine, None, publish=pubsub.publish)
            migrate.create_or_upgrade(engine)
        else:
            engine = sqlite_engine(f"sqlite:///{folder / 'uns.db'}")
            migrate.create_or_upgrade(engine)
            store = SqlStore(engine, SystemClock(), publish=pubsub.publish)
        put_in_force(store, a_policy(channels=ChannelPlan(primary=("NOOP",)), max_attempts=1))
        adapters = SimpleAdapterRegistry({"NOOP": channel or NoOp()})
        ledger = assemble(store, pubsub, adapters, Options(max_group=case.max_group))
        opened.callback(ledger.close)
        yield ledger


async def in_flight(work: Callable[[], Awaitable[Any]], times: int, at_once: int) -> None:
    """
    Run ``work`` ``times`` times, ``at_once`` at a time.
    """
    left = iter(range(times))

    async def one() -> None:
        for _ in left:
            await work()

    await asyncio.gather(*(one() for _ in range(at_once)))


class Paired:
    """
    Runs a benchmark with the baseline before each round, and keeps the ratios.
    """

    def __init__(self, benchmark: Any, baseline: Baseline, table: list[tuple[str, ...]]) -> None:
        self._benchmark = benchmark
        self._baseline = baseline
        self._table = table

    def run(self, name: str, work: Callable[[], None], times: int) -> float:
        """
        The median ratio of the subject's rate (``times`` per call of ``work``) to the baseline's.
        """
        self._benchmark.pedantic(work, setup=self._baseline.measure, rounds=ROUNDS, warmup_rounds=1)
        if self._benchmark.stats is None:  # benchmarks disabled: the work ran once, nothing was timed
            return float("inf")
        rates = [times / seconds for seconds in self._benchmark.stats.stats.data]
        pairs = list(zip(rates, self._baseline.rates[-len(rates) :], strict=True))
        ratio = statistics.median(rate / base for rate, base in pairs)
        rate, base = statistics.median(rates), statistics.median(b for _, b in pairs)
        self._benchmark.extra_info.update(per_second=round(rate), baseline=round(base), ratio=round(ratio, 2))
        self._table.append((name, f"{rate:,.0f}", f"{base:,.0f}", f"{ratio:.2f}"))
        return ratio
