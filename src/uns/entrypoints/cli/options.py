"""
Options that several commands have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from uns.entrypoints.cli.exits import Usage

AsJson = Annotated[bool, Parameter(name="--json", negative=(), help="Print one JSON value.")]
Yes = Annotated[
    bool, Parameter(name="--yes", negative=(), help="Do it; without, only say what would be done.")
]
Metadata = Annotated[
    tuple[str, ...],
    Parameter(name="--metadata", consume_multiple=False, negative=(), help="NAME=TEXT, as often as needed."),
]
Where = Annotated[
    tuple[str, ...],
    Parameter(
        name="--where",
        consume_multiple=False,
        negative=(),
        help="NAME=PATTERN (type, source, principal, policy, agent, priority, correlation); all must hold.",
    ),
]
OlderThan = Annotated[
    str | None, Parameter(name="--older-than", help="Accepted that long ago: 90s, 10m, 2h, 3d.")
]


def pairs(given: Sequence[str]) -> dict[str, str]:
    """
    What ``--metadata`` gave.

    Raises:
        Usage: one of them has no name.
    """
    found: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Usage(f"--metadata {pair}: write NAME=TEXT")
        found[name] = value
    return found
