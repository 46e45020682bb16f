"""
What carries signals between processes, and how each is broken.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from kit.servers import RedisServer, postgres_database
from kit.waiting import soon
from uns.adapters.pubsub.postgres import postgres_pubsub
from uns.adapters.pubsub.redis import redis_pubsub
from uns.adapters.pubsub.relay import LOOK_AGAIN, RelayPubSub
from uns.adapters.pubsub.wire import Pace
from uns.ports.decision import Signal

PATIENT = Pace(first_pause=0.02, longest_pause=0.1)
"""For tests that wait for a link to be mended."""

BRISK = Pace(first_pause=0.02, longest_pause=0.1, quiet=0.2, reply=0.5)
"""For tests that wait for one to be found dead."""


class Heard(list[Signal]):
    """
    What a pub/sub tells, from when it has told for the first time to look.
    """

    def __init__(self, pubsub: RelayPubSub) -> None:
        super().__init__()
        pubsub.subscribe(self.extend)
        self.looks_again()

    def looks_again(self) -> None:
        """
        Wait for it to say so, and forget what was before.
        """
        soon(lambda: set(LOOK_AGAIN) <= set(self))
        self.clear()


class Redis:
    """
    A Redis of its own, through which signals go.
    """

    wake_channel, reload_channel = "uns:signals", "uns:policies:reload"

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.url = server.url

    def pubsub(self, pace: Pace = PATIENT) -> RelayPubSub:
        return redis_pubsub(self.url, pace=pace)

    def cut(self) -> int:
        """
        Cut what listens; how many there were.
        """
        return int(self.server.command("CLIENT", "KILL", "TYPE", "pubsub"))

    def shout(self, channel: str, payload: str | bytes) -> None:
        self.server.command("PUBLISH", channel, payload)

    @contextmanager
    def mute(self) -> Iterator[None]:
        """
        It is there, takes connections, and says nothing.
        """
        with _halted([self.server.pid]):
            yield


class Postgres:
    """
    A PostgreSQL database of its own, likewise.
    """

    wake_channel, reload_channel = "uns_signals", "uns_policy_reload"

    def __init__(self, url: str) -> None:
        self.url = url

    def pubsub(self, pace: Pace = PATIENT) -> RelayPubSub:
        return postgres_pubsub(self.url, pace)

    def cut(self) -> int:
        return len(self._each_listener("pg_terminate_backend(pid)"))

    def shout(self, channel: str, payload: str | bytes) -> None:
        with self._connected() as connection:
            text = payload if isinstance(payload, str) else payload.decode("latin1").replace("\0", "0")
            connection.execute("SELECT pg_notify(%s, %s)", (channel, text))

    @contextmanager
    def mute(self) -> Iterator[None]:
        with _halted(self._each_listener("pid")):
            yield

    def _each_listener(self, what: str) -> list[int]:
        with self._connected() as connection:
            ours = "WHERE datname = current_database() AND application_name = 'uns signals'"
            return [row[0] for row in connection.execute(f"SELECT {what} FROM pg_stat_activity {ours}")]

    def _connected(self) -> psycopg.Connection:
        return psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True)


Carrier = Redis | Postgres


@contextmanager
def redis_carrier() -> Iterator[Redis]:
    server = RedisServer()
    server.start()
    try:
        yield Redis(server)
    finally:
        server.stop()


@contextmanager
def postgres_carrier() -> Iterator[Postgres]:
    with postgres_database() as url:
        yield Postgres(url)


CARRIERS: dict[str, Callable[[], object]] = {"redis": redis_carrier, "postgres": postgres_carrier}


@contextmanager
def opened(carrier: Carrier, pace: Pace = PATIENT) -> Iterator[Callable[[], RelayPubSub]]:
    """
    Opens pub/subs over the carrier, as many processes would; closes them in the end.
    """
    with ExitStack() as stack:

        def open_pubsub() -> RelayPubSub:
            pubsub = carrier.pubsub(pace)
            stack.callback(pubsub.close)
            return pubsub

        yield open_pubsub


@contextmanager
def _halted(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
