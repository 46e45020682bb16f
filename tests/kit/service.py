"""
The service as its users run it: another process, a port, real sockets.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kit.receiver import LOOPBACK
from kit.servers import free_port

START_SECONDS = 20.0
STOP_SECONDS = 20.0
TESTS = str(Path(__file__).parents[1])


@contextmanager
def served(
    app: str,
    environ: Mapping[str, str] | None = None,
    *,
    log: Path | None = None,
    options: tuple[str, ...] = (),
    end: signal.Signals = signal.SIGTERM,
) -> Iterator[int]:
    """
    The port of ``app`` (``module:name``), served by uvicorn in a process that has this environment.

    ``log`` takes what it writes. At the end it gets the signal ``end``.
    """
    command = ["uvicorn", app, "--app-dir", TESTS, *options]
    with _running(command, environ, log, end) as port:
        yield port


@contextmanager
def serving(environ: Mapping[str, str], *options: str, log: Path | None = None) -> Iterator[int]:
    """
    The port of ``uns serve``, in a process that has this environment.
    """
    with _running(["uns", "serve", *options], environ, log, signal.SIGTERM) as port:
        yield port


@contextmanager
def _running(
    command: list[str], environ: Mapping[str, str] | None, log: Path | None, end: signal.Signals
) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", *command, f"--port={port}"]
    with open(log or os.devnull, "wb") as out:
        process = subprocess.Popen(
            command, env=_plain_environ() | dict(environ or {}), stdout=out, stderr=out
        )
        try:
            _await_health(port, process)
            yield port
        finally:
            process.send_signal(end)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _plain_environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("UNS_")}


def _await_health(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/health", timeout=1):
                return
        except OSError:  # refused, or not answered while it loads
            assert process.poll() is None, f"it ended with {process.returncode}"
            assert time.monotonic() < until, "it does not answer"
        time.sleep(0.02)
