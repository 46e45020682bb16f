"""
The project's own pages, read as a test reads them: code blocks, tables, links, headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")


class Snippet(Struct, frozen=True):
    """
    A Python block, the line it begins on, and what the ``text`` block right after it says it prints.
    """

    code: str
    line: int
    prints: str | None


def read(name: str) -> str:
    """
    A page of the project, by its path from the root.
    """
    return (ROOT / name).read_text("utf-8")


def pages() -> list[Path]:
    """
    Every page for people: those at the root and all under ``docs``.
    """
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])


def snippets(page: str) -> list[Snippet]:
    """
    The Python blocks of a page, in order.
    """
    blocks = list(_FENCED.finditer(page))
    return [
        Snippet(block[2], page.count("\n", 0, block.start()) + 2, _printed(page, block, after))
        for block, after in zip(blocks, [*blocks[1:], None], strict=True)
        if block[1] == "python"
    ]


def prose(page: str) -> str:
    """
    A page without its code blocks.
    """
    return _FENCED.sub("", page)


def links(page: str) -> list[str]:
    """
    The targets of the links on a page.
    """
    return _LINK.findall(prose(page))


def anchors(page: str) -> set[str]:
    """
    What a link may point to within a page.
    """
    return {_slug(heading) for heading in _HEADING.findall(prose(page))}


def rows(page: str, heading: str) -> Iterator[list[str]]:
    """
    The cells of each row of the tables under a heading, the heads of the tables left out.
    """
    section = prose(page).partition(f"\n{heading}\n")[2]
    level = heading.partition(" ")[0]
    section = re.split(rf"^#{{1,{len(level)}}} ", section, maxsplit=1, flags=re.MULTILINE)[0]
    lines = section.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and not line.startswith("| --") and not after.startswith("| --"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def names(cell: str) -> list[str]:
    """
    What is set in code in a piece of text.
    """
    return _NAME.findall(cell)


def _printed(page: str, block: re.Match[str], after: re.Match[str] | None) -> str | None:
    if after is None or after[1] != "text" or page[block.end() : after.start()].strip():
        return None
    return after[2]


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
