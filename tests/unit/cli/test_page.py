"""
``docs/cli.md`` has every command, option and exit status.
"""

import re

import pytest

from kit.pages import ROOT, names, read, rows
from uns.entrypoints.cli.exits import Exit
from uns.entrypoints.cli.main import make_app
from uns.entrypoints.cli.selection import COLUMNS

PAGE = read("docs/cli.md")
BUILT_IN = {"--help", "--version", "-h"}


def commands(app, prefix="uns"):
    """
    The commands that do something, by their full names.
    """
    for name in app:
        if name not in BUILT_IN:
            below = dict(commands(app[name], f"{prefix} {name}"))
            yield from below.items() if below else [(f"{prefix} {name}", app[name])]


COMMANDS = dict(commands(make_app()))


def documented(heading):
    return [name for cells in rows(PAGE, heading) for name in names(cells[0])]


def test_every_command_has_its_part():
    """
    The headings are the commands.
    """
    assert sorted(COMMANDS) == sorted(re.findall(r"^### `(uns .*)`$", PAGE, re.MULTILINE))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_table_of_its_command(name):
    """
    A command's table has its options, and no others.
    """
    arguments = COMMANDS[name].assemble_argument_collection(parse_docstring=False)
    options = {option for argument in arguments for option in argument.names if option.startswith("--")}

    assert sorted(options) == sorted(documented(f"### `{name}`"))


def test_every_exit_status_is_explained():
    """
    The table of statuses is the vocabulary.
    """
    assert sorted(Exit) == [int(cells[0]) for cells in rows(PAGE, "## Exit status")]


def test_every_name_of_a_choice_is_told():
    """
    What ``--where`` takes is on the page.
    """
    told = {name for cells in rows(PAGE, "### `uns replay`") for name in names(cells[1])}

    assert set(COLUMNS) <= told


def test_the_pages_lead_here():
    """
    Whoever starts at the front door finds it.
    """
    assert (ROOT / "docs" / "cli.md").exists()
    assert "(docs/cli.md)" in read("README.md")
    assert "(cli.md)" in read("docs/README.md")
