"""
How many requests are accepted a second, each durable before it is answered?
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kit.builders import a_request
from kit.paired import CASES, Case, Paired, a_ledger, in_flight

TIMES = {1: 300, 64: 2000}
FLOORS = {
    "sqlite-grouped-64": 1.0,
    "sqlite-direct-64": 0.2,
    "sqlite-direct-1": 0.2,
    "postgres-grouped-64": 0.7,
}
"""Ratios to L1, on PostgreSQL to L2, that must hold."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_accept(case: Case, paired: Paired, tmp_path: Path) -> None:
    """
    A leader with its window, its row and its ACCEPTED event.
    """
    times = TIMES[case.in_flight]
    with a_ledger(case, tmp_path) as ledger:
        numbers = iter(range(1_000_000))

        async def accept() -> None:
            await ledger.insistent.run(ledger.intake.accept(a_request(title=f"n{next(numbers)}"), "agent-7"))

        ratio = paired.run(
            f"accept, {case}", lambda: asyncio.run(in_flight(accept, times, case.in_flight)), times
        )

    assert ratio >= FLOORS.get(str(case), 0)
