"""
How many notifications does the HTTP door take a second, each durable before it is answered?

The service is ``uns serve``; the baseline is an empty Litestar application that takes the same bodies
over the same connections, on the same server with the same options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kit.load import load
from kit.paired import Paired
from kit.service import served, serving
from kit.web import ASYNC, NOTIFICATIONS, a_body

REQUESTS = 3000
CONNECTIONS = 32
QUIET = ("--no-access-log", "--log-level", "warning", "--no-proxy-headers", "--no-server-header")
"""What ``uns serve`` leaves out too."""

KEY = "key"

WAYS = {"without a worker": ("--no-worker",), "with a worker inside": ()}
FLOORS = {"without a worker": 0.4}
"""Ratios to the empty application that must hold."""


class Empty:
    """
    Requests a second that the empty application answers.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.rates: list[float] = []

    def measure(self) -> None:
        """
        Post as many bodies as a round has, and remember the rate.
        """
        measured = asyncio.run(load(self._port, "/", bodies(), connections=CONNECTIONS))
        self.rates.append(measured.rate)


_numbers = count()


def bodies() -> Iterator[bytes]:
    """
    Alerts that nothing coalesces: each has another title, in every round.
    """
    return (msgspec.json.encode(a_body(title=f"disk {next(_numbers)} is full")) for _ in range(REQUESTS))


@pytest.mark.parametrize("how", WAYS)
def test_post(how: str, benchmark: Any, table: list[tuple[str, ...]], tmp_path: Path) -> None:
    """
    ``Prefer: respond-async`` over 32 connections: at least 0.4 of the empty application's rate.
    """
    environ = {"UNS_DATABASE_URL": f"sqlite:///{tmp_path / 'uns.db'}", "UNS_API_KEY": KEY}
    headers = ASYNC | {"Authorization": f"Bearer {KEY}"}
    with (
        served("kit.empty_service:app", options=QUIET) as empty,
        serving(environ, *WAYS[how]) as port,
    ):

        def post() -> None:
            measured = asyncio.run(load(port, NOTIFICATIONS, bodies(), headers, connections=CONNECTIONS))
            assert measured.statuses == {202: REQUESTS}

        ratio = Paired(benchmark, Empty(empty), table).run(
            f"POST {how}, beside an empty POST", post, REQUESTS
        )

    assert ratio >= FLOORS.get(how, 0)
