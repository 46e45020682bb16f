"""
Fixtures of the benchmarks, and the table that a run ends with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.paired import Baseline, Paired

_TABLE: list[tuple[str, ...]] = []


@pytest.fixture
def paired(benchmark: Any, tmp_path: Path) -> Paired:
    """
    A benchmark with the baseline of the same disk before each of its rounds.
    """
    return Paired(benchmark, Baseline(tmp_path), _TABLE)


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
