"""
Which seeds are run: ``--seeds N`` for the first N, ``--seed K`` for one alone.
"""

from __future__ import annotations

import pytest

SEEDS = 1000
SHARDS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--seeds", type=int, default=SEEDS, help="how many seeds the simulation runs")
    group.addoption("--seed", type=int, default=None, help="the one seed that the simulation runs")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """
    Deal the seeds out to so many tests that workers can share them.
    """
    if "seeds" not in metafunc.fixturenames:
        return
    if (one := _one_seed(metafunc.config)) is not None:
        metafunc.parametrize("seeds", [[one]], ids=[f"seed {one}"])
        return
    # A run from the root knows the options of the root only.
    seeds = range(metafunc.config.getoption("--seeds", SEEDS))
    metafunc.parametrize("seeds", [seeds[shard::SHARDS] for shard in range(SHARDS)], ids=range(SHARDS))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    With ``--seed`` only the run itself is wanted.
    """
    if _one_seed(config) is None:
        return
    wanted = [item for item in items if "seeds" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = wanted


def _one_seed(config: pytest.Config) -> int | None:
    seed: int | None = config.getoption("--seed", None)
    return seed
