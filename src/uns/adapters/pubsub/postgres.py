"""
Signals over PostgreSQL's LISTEN and NOTIFY, on a connection of their own.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Sequence

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from uns.adapters.pubsub.envelope import Format, Message
from uns.adapters.pubsub.relay import RelayPubSub
from uns.adapters.pubsub.wire import Pace, place, to_the_end
from uns.ports.checks import fault

POLICY_CHANNEL = "uns_policy_reload"
WAKE_CHANNEL = "uns_signals"

_SCHEME = re.compile(r"^postgresql(?:\+psycopg)?://")
_DRAIN_SECONDS = 0.01


def postgres_pubsub(
    url: str,
    pace: Pace = Pace(),  # noqa: B008 - immutable
    *,
    path: str = "listen_url",
) -> RelayPubSub:
    """
    Connects when first used.

    Args:
        url: ``postgresql://`` or ``postgresql+psycopg://``, straight to the server: a proxy that
            pools transactions passes no notifications on.
        path: what the caller calls the URL.

    Raises:
        Rejected: the URL cannot be one; its text is not repeated.
    """
    return RelayPubSub(PostgresWire(url, pace, path), pace)


class PostgresWire:
    """
    A reload is the bare revision, as it is where a transaction announces it.
    """

    def __init__(self, url: str, pace: Pace, path: str) -> None:
        self.name = place("PostgreSQL", url)
        self.format = Format(wake_channel=WAKE_CHANNEL, reload_channel=POLICY_CHANNEL, bare_revision=True)
        self._url = _SCHEME.sub("postgresql://", url)
        self._pace = pace
        try:
            fit = _SCHEME.match(url) is not None and bool(conninfo_to_dict(self._url))
        except psycopg.Error:
            fit = False
        if not fit:
            raise fault(path, "is not of the form postgresql://user:password@host:port/database")

    async def connect(self) -> PostgresLink:
        # Should the network die, the system gives the connection up about when the relay does.
        silence = int(self._pace.quiet + self._pace.reply)
        connection = await AsyncConnection.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=max(2, int(self._pace.connect)),
            application_name="uns signals",
            client_encoding="utf8",
            keepalives_idle=max(1, int(self._pace.quiet)),
            keepalives_interval=max(1, int(self._pace.reply)),
            keepalives_count=2,
            tcp_user_timeout=silence * 1000,
        )
        try:
            for channel in (WAKE_CHANNEL, POLICY_CHANNEL):
                await connection.execute(f"LISTEN {channel}")
        except BaseException:
            await to_the_end(connection.close())
            raise
        return PostgresLink(connection, self._pace)


class PostgresLink:
    """
    See ``Link``. Both tasks share the connection: who listens waits for its socket, not on its lock.
    """

    def __init__(self, connection: AsyncConnection, pace: Pace) -> None:
        self._connection = connection
        self._pace = pace
        self._turn = asyncio.Lock()
        self._readable = asyncio.Event()
        self._readable.set()

    async def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self._execute("SELECT pg_notify(%s, %s)", (message.channel, message.payload))

    async def hear(self) -> Sequence[Message]:
        try:
            await asyncio.wait_for(self._readable.wait(), self._pace.quiet)
        except TimeoutError:
            await self._execute("SELECT 1")
        self._readable.clear()
        async with self._turn:
            self._ignore()
            notified = self._connection.notifies(timeout=_DRAIN_SECONDS, stop_after=1)
            heard = [Message(each.channel, each.payload) async for each in notified]
            self._watch()
        return heard

    async def close(self) -> None:
        self._ignore()
        await self._connection.close()

    async def _execute(self, statement: str, values: tuple[str | bytes, ...] = ()) -> None:
        async with self._turn:
            self._ignore()
            answer = asyncio.ensure_future(self._connection.execute(statement.encode(), values))
            try:
                await asyncio.wait_for(asyncio.shield(answer), self._pace.reply)
            except (TimeoutError, asyncio.CancelledError):
                # Were it cancelled, psycopg would ask the server to stop, and wait for that.
                self._hang_up()
                await asyncio.gather(answer, return_exceptions=True)
                raise
            self._readable.set()  # notifications may have come with the answer

    def _hang_up(self) -> None:
        if not self._connection.closed:
            with socket.socket(fileno=os.dup(self._connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)

    def _watch(self) -> None:
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._can_be_read)

    def _ignore(self) -> None:
        # While psycopg waits it watches the socket itself.
        if not self._connection.closed:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())

    def _can_be_read(self) -> None:
        self._ignore()
        self._readable.set()
