"""
Fixtures of the benchmarks, and the table that a run ends with.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.paired import Case, Paired, baseline_of

_TABLE: list[tuple[str, ...]] = []


@pytest.fixture
def paired(benchmark: Any, case: Case, tmp_path: Path) -> Iterator[Paired]:
    """
    A benchmark with the baseline of the same disk before each of its rounds.
    """
    with baseline_of(case, tmp_path) as baseline:
        yield Paired(benchmark, baseline, _TABLE)


@pytest.fixture
def table() -> list[tuple[str, ...]]:
    """
    The rows of the table that the run ends with.
    """
    return _TABLE


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """
    The table of ``benchmarks/README.md``, as measured in this run.
    """
    if not _TABLE:
        return
    terminalreporter.write_line("\n| what | per second | baseline | ratio |\n| --- | ---: | ---: | ---: |")
    for row in _TABLE:
        terminalreporter.write_line("| " + " | ".join(row) + " |")
