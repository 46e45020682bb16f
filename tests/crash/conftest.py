"""
How often the service is killed: ``--rounds N``.
"""

from __future__ import annotations

import pytest

ROUNDS = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("crash").addoption(
        "--rounds", type=int, default=ROUNDS, help="how often the service is killed"
    )


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    """
    A run from the root knows the options of the root only.
    """
    number: int = pytestconfig.getoption("--rounds", ROUNDS)
    return number
