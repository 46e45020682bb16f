"""
How many notifications a second go from acceptance to delivered, with all their events?
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kit.builders import a_request
from kit.paired import CASES, Case, Paired, a_ledger, in_flight

TIMES = {1: 200, 64: 1200}
FLOORS = {"sqlite-grouped-64": 0.4, "postgres-grouped-64": 0.25}
"""Ratios to L1, on PostgreSQL to L2, that must hold."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_send(case: Case, paired: Paired, tmp_path: Path) -> None:
    """
    Two transactions, five events, one audit record, one copy, one window.
    """
    times = TIMES[case.in_flight]
    with a_ledger(case, tmp_path) as ledger:
        numbers = iter(range(1_000_000))

        async def send() -> None:
            await ledger.sender.send(a_request(title=f"n{next(numbers)}"), "agent-7")

        ratio = paired.run(
            f"send, {case}", lambda: asyncio.run(in_flight(send, times, case.in_flight)), times
        )

    assert ratio >= FLOORS.get(str(case), 0)
