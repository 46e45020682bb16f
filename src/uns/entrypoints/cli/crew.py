"""
Several serving processes on one socket, and one that looks after them.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from dependency_injector import providers

from uns.entrypoints.cli.exits import Exit
from uns.entrypoints.cli.server import serve_until_stopped
from uns.entrypoints.cli.stopping import SIGNALS, stop_while_starting
from uns.entrypoints.container import Container
from uns.entrypoints.logs import set_up_logs
from uns.entrypoints.settings import Settings
from uns.ports.errors import UnsError

PAUSE_SECONDS = 1.0
"""Before one that died is replaced: what kills at once must not do so a hundred times a second."""

STOP_SECONDS = 10.0

_WELL = frozenset({0, -signal.SIGTERM})
"""How a process may end when told to: by itself, or, while it still loads, by the signal."""

_context = multiprocessing.get_context("spawn")
_log = logging.getLogger(__name__)


class Crew:
    """
    ``size`` processes, each replaced when it dies, until the signal to stop.
    """

    def __init__(self, settings: Settings, listener: socket.socket, *, size: int, work: bool) -> None:
        self._settings = settings
        self._listener = listener
        self._size = size
        self._work = work

    def run(self) -> Exit:
        """
        Serve. FAILED when one did not end as it should have.
        """
        with _signalled() as told:
            processes = [self._started() for _ in range(self._size)]
            while told not in wait([told, *(process.sentinel for process in processes)]):
                processes = [
                    process if process.is_alive() else self._replaced(process) for process in processes
                ]
            return self._stop(processes)

    def _started(self) -> SpawnProcess:
        process = _context.Process(target=_serve, args=(self._settings, self._listener, self._work))
        process.start()
        return process

    def _replaced(self, dead: SpawnProcess) -> SpawnProcess:
        _log.error("server process %s ended with status %s; another takes its place", dead.pid, dead.exitcode)
        time.sleep(PAUSE_SECONDS)
        return self._started()

    def _stop(self, processes: list[SpawnProcess]) -> Exit:
        # First: whoever connects from now on is let in by a process that still serves, or refused.
        # In this one nobody would ever accept the connection.
        self._listener.close()
        for process in processes:
            process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        return Exit.DONE if all(process.exitcode in _WELL for process in processes) else Exit.FAILED


def _serve(settings: Settings, listener: socket.socket, work: bool) -> None:
    set_up_logs()
    stop_while_starting()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        serve_until_stopped(Container(settings=providers.Object(settings)), listener, work=work)
    except Exception as error:  # multiprocessing would print the stack, past the logs
        _log.error("it cannot serve: %s", error, exc_info=not isinstance(error, UnsError))
        sys.exit(Exit.FAILED)


def _end_with_parent() -> None:
    # A parent that was killed cannot tell: without this its children would keep the port.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _signalled() -> Iterator[socket.socket]:
    """
    A socket that can be read from once a signal to stop has come.
    """
    told, tells = socket.socketpair()
    tells.setblocking(False)

    def tell(number: int, frame: FrameType | None) -> None:
        """
        Nothing: the interpreter writes the number into the socket.
        """

    before = {number: signal.signal(number, tell) for number in SIGNALS}
    wakeup = signal.set_wakeup_fd(tells.fileno())
    try:
        yield told
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        told.close()
        tells.close()
