"""
One serving process: uvicorn, made to stop without cutting anybody off.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from uns.entrypoints.cli.stopping import end_by
from uns.entrypoints.collector import spare_the_collector
from uns.entrypoints.container import Container
from uns.entrypoints.http.app import create_app

LINGER_SECONDS = 0.5
"""How long connections that are open may still bring a request, once the service is told to stop."""

REQUEST_SECONDS = 7
"""How long requests under way may take then. With a worker's grace beside it, all ends within ten."""

_LOOK_SECONDS = 0.02


class Server(uvicorn.Server):
    """
    Answers every request that reached it, and ends with status 0 when it is told to stop.

    Args:
        on_stop: called, in the event loop, as soon as it is told to.
    """

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not uvicorn's own, which raises the signal again in the end: the status would not be 0.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """
        Let in who waits at the door, tell everybody to go, and only then do as uvicorn does.

        uvicorn alone would reset the connections that nobody has accepted yet, and close those
        whose request is still on its way.
        """
        self._on_stop()
        self.server_state.default_headers.append((b"connection", b"close"))
        await self._close_the_door(sockets or [])
        await self._linger()
        await super().shutdown(sockets)

    async def _close_the_door(self, sockets: list[socket.socket]) -> None:
        waiting = [connection for listener in sockets for connection in _accepted(listener)]
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        for connection in waiting:
            await loop.connect_accepted_socket(self._protocol, connection)

    async def _linger(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LINGER_SECONDS
        while self.server_state.connections and loop.time() < until:  # noqa: ASYNC110 - nobody is told when one goes
            await asyncio.sleep(_LOOK_SECONDS)

    def _protocol(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        made: asyncio.Protocol = protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


def serve_until_stopped(container: Container, listener: socket.socket, *, work: bool) -> None:
    """
    Serve the parts of ``container``, and close them in the end.

    Args:
        work: whether a worker runs inside.
    """
    stop = asyncio.Event()

    def on_stop() -> None:
        end_by()
        stop.set()
        container.submitter().hurry()

    config = uvicorn.Config(
        create_app(container, work=work, stop=stop),
        log_config=None,
        access_log=False,
        # Whom a request came through is of no interest here, and who answers is nobody's business.
        proxy_headers=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=REQUEST_SECONDS,
    )
    spare_the_collector()
    Server(config, on_stop).run(sockets=[listener])


def _accepted(listener: socket.socket) -> list[socket.socket]:
    """
    The connections that wait to be accepted.
    """
    found: list[socket.socket] = []
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # nobody waits any more
            return found
        connection.setblocking(False)
        found.append(connection)
