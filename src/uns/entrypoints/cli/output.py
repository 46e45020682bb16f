"""
What commands print: one JSON value, or tables for people; messages go to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 200
"""Columns where nobody looks at a terminal: whoever searches the text wants whole lines."""


def say(message: str) -> None:
    """
    One line to whoever runs the command.
    """
    print(f"uns: {_printable(message)}", file=sys.stderr)


def print_json(value: object) -> None:
    """
    One value on one line.
    """
    print(msgspec.json.encode(value).decode(), flush=True)


def print_card(fields: Mapping[str, Any]) -> None:
    """
    One thing, a line for each of its fields that says something.
    """
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields.items():
        if value not in (None, [], {}):
            grid.add_row(name.replace("_", " "), _cell(value))
    _console().print(grid)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """
    Several things, a row each.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*map(_cell, row))
    _console().print(table)


def when(seconds: float | None) -> str:
    """
    Unix seconds for people.
    """
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"


def _console() -> Console:
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def _cell(value: Any) -> Any:
    from rich.text import Text

    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case list() if all(isinstance(item, str) for item in value):
            text = ", ".join(value)
        case list() | dict():
            text = msgspec.json.encode(value).decode()
        case _:
            text = str(value)
    return Text(_printable(text))  # never markup: titles come from strangers


def _printable(text: str) -> str:
    # Control characters of strangers would steer the terminal.
    return "".join(char if char.isprintable() else " " for char in text)
