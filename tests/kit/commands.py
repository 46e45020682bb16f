"""
The command line as its users run it: in this process for what ends by itself, in another for what serves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from kit.logs import logs_as_they_were
from kit.receiver import LOOPBACK
from kit.servers import free_port
from uns.entrypoints.cli.main import main

START_SECONDS = 30.0
STOP_SECONDS = 10.0
"""What the service promises."""

OPERATOR, OBSERVER = "operator-key", "observer-key"
KEYS = {"UNS_API_KEY": OPERATOR, "UNS_OBSERVER_API_KEY": OBSERVER}


class Ended(Struct, frozen=True):
    """
    How a command ended, and what it printed.
    """

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)


class Running:
    """
    A process of ``python -m uns``; what it writes goes to files.
    """

    def __init__(self, folder: Path, arguments: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self.out, self.err = folder / "out.txt", folder / "err.txt"
        with self.out.open("ab") as out, self.err.open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uns", *arguments],
                cwd=folder,
                env=without_settings(os.environ) | dict(environ),
                stdout=out,
                stderr=err,
            )

    def stop(self, number: int = signal.SIGTERM) -> int:
        """
        Send a signal, once, and give the exit status.
        """
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.ended()

    def ended(self, seconds: float = STOP_SECONDS) -> int:
        """
        The exit status, which must come within the time.
        """
        return self.process.wait(seconds)

    def await_line(self, text: str) -> None:
        """
        Wait until it has written ``text``, to either side.
        """
        until = time.monotonic() + START_SECONDS
        while text not in self.out.read_text() + self.err.read_text():
            assert self.process.poll() is None, self.err.read_text()
            assert time.monotonic() < until, f"{text!r} does not come"
            time.sleep(0.02)


@contextmanager
def running(folder: Path, *arguments: str, **environ: str) -> Iterator[Running]:
    """
    A command at work in a folder; killed at the end if it still runs.
    """
    command = Running(folder, arguments, environ)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.wait()


@contextmanager
def serving(
    folder: Path, *options: str, port: int | None = None, **environ: str
) -> Iterator[tuple[Running, str]]:
    """
    ``uns serve`` that answers, and its URL.
    """
    port = port or free_port()
    with running(folder, "serve", f"--port={port}", *options, **environ) as command:
        url = f"http://{LOOPBACK}:{port}"
        await_health(url, command.process)
        yield command, url


def await_health(url: str, process: subprocess.Popen[bytes]) -> None:
    """
    Wait until the service answers.
    """
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=START_SECONDS):
                return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, f"it ended with {process.returncode}"
            assert time.monotonic() < until, "it does not answer"
        time.sleep(0.02)


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """
    An environment in which nothing of uns is set, and no proxy stands between.
    """
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("UNS_") and not name.lower().endswith("_proxy")
    }


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """
    An empty folder, and an environment without settings.
    """
    for name in set(os.environ) - set(without_settings(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


@pytest.fixture
def uns(environ: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """
    Runs one command in this process.
    """

    def uns(*arguments: str, **settings: str) -> Ended:
        with environ.context() as during, _process_as_it_was():
            for name, value in settings.items():
                during.setenv(name, value)
            capfd.readouterr()
            status = main(arguments)
        out, err = capfd.readouterr()
        return Ended(status, out, err)

    return uns


@contextmanager
def _process_as_it_was() -> Iterator[None]:
    """
    What a command does to its own process, for good, is undone: its logs, its way with signals.
    """
    numbers = (signal.SIGTERM, signal.SIGINT)
    signals = [signal.getsignal(number) for number in numbers]
    try:
        with logs_as_they_were():
            yield
    finally:
        for number, handler in zip(numbers, signals, strict=True):
            signal.signal(number, handler)
