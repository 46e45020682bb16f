"""
The house rules that can be checked, and the picture of the house.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.diagram import lifecycle_diagram
from kit.pages import ROOT, read
from uns.core.rules.lifecycle import MOVES, Move, Phase

SRC = ROOT / "src" / "uns"
MODULES = {str(path.relative_to(SRC)): path.read_text("utf-8") for path in sorted(SRC.rglob("*.py"))}
TREES = {name: ast.parse(source) for name, source in MODULES.items()}
HISTORY = "adapters/sql/migrations/versions/"
"""Migrations stay as they were written, long lists of columns included."""

MODULE_LINES = 300
LONG_MODULES = {
    "adapters/sql/tx.py": 400,  # a group and its plans share every invariant of the cache between them
}
"""How long the exceptions may be, and why they are."""

FUNCTION_LINES = 30
LONG_FUNCTIONS = {
    "adapters/sql/statements.py: _sweeps": 42,  # three statements that must move the same rows
    "core/rules/ack.py: _answered": 34,  # a row, its event and its record, field by field
    "core/rules/recovery.py: replay": 40,  # a row and its line turned, field by field
}

ALIASES = {"runtime.py", "responses.py"}
ALIAS_LINES = 10
NO_NAMES = {"utils", "util", "common", "helpers", "misc", "runtime"}

PORTS_KNOW = {"msgspec", "uns.ports"}
CORE_KNOWS = PORTS_KNOW | {"rfc8785", "re2", "uns.core"}


def test_the_import_contracts_hold():
    """
    Doors, plugs and verbs meet only at the ports: what pyproject.toml says, import-linter finds.
    """
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    run = subprocess.run(
        [*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert 0 == run.returncode, run.stdout + run.stderr


def test_the_lifecycle_is_drawn_as_the_table_has_it():
    """
    The diagram of ARCHITECTURE.md is what ``tests/kit/diagram.py`` prints today.
    """
    (drawn,) = re.findall(r"<!-- lifecycle -->\n```mermaid\n(.*?)\n```", read("ARCHITECTURE.md"), re.DOTALL)

    assert lifecycle_diagram(MOVES) == drawn


def test_a_diagram_has_one_arrow_for_each_pair_of_phases():
    """
    Moves between the same two phases share an arrow; what nothing leads out of is an end.
    """
    moves = {
        (None, Move.ACCEPT): {Phase.LEADING},
        (Phase.LEADING, Move.SETTLE): {Phase.LEADING, Phase.FAILED},
        (Phase.LEADING, Move.WITHDRAW): {Phase.FAILED},
    }
    drawn = lifecycle_diagram(moves).splitlines()

    assert "stateDiagram-v2" == drawn[0]
    assert ["[*] --> LEADING: ACCEPT", "LEADING --> LEADING: SETTLE"] == [line.strip() for line in drawn[1:3]]
    assert "LEADING --> FAILED: SETTLE, WITHDRAW" == drawn[3].strip()
    assert "FAILED --> [*]" in [line.strip() for line in drawn]
    assert "LEADING --> [*]" not in [line.strip() for line in drawn]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith(HISTORY)])
def test_a_module_is_short(name):
    """
    A module has up to 300 lines; the exceptions are named, with their limit.
    """
    assert LONG_MODULES.get(name, MODULE_LINES) >= MODULES[name].count("\n")


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith(HISTORY)])
def test_a_function_is_short(name):
    """
    A function has up to 30 lines without its signature and docstring; the exceptions are named.
    """
    lengths = {f"{name}: {function.name}": _lines(function) for function in _functions(TREES[name])}

    assert [] == [what for what, n in lengths.items() if n > LONG_FUNCTIONS.get(what, FUNCTION_LINES)]


def test_an_exception_that_is_no_longer_needed_is_struck_out():
    """
    Whatever is excused is there, and is too long.
    """
    long_functions = {
        f"{name}: {function.name}"
        for name, tree in TREES.items()
        for function in _functions(tree)
        if _lines(function) > FUNCTION_LINES and not name.startswith(HISTORY)
    }

    long_modules = {name for name in MODULES if MODULES[name].count("\n") > MODULE_LINES}

    assert set(LONG_MODULES) == {name for name in long_modules if not name.startswith(HISTORY)}
    assert set(LONG_FUNCTIONS) == long_functions


def test_no_module_is_a_place_for_odds_and_ends():
    """
    A module is named after what it does; ``uns/runtime.py`` is an alias.
    """
    named = {name for name in MODULES if Path(name).stem in NO_NAMES}

    assert named <= ALIASES


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_an_alias_only_re_exports(name):
    """
    An alias has at most ten lines: a docstring, imports and ``__all__``.
    """
    docstring, *statements = TREES[name].body
    kinds = {type(statement) for statement in statements}

    assert isinstance(docstring, ast.Expr)
    assert kinds <= {ast.ImportFrom, ast.Assign, ast.AugAssign}
    assert ALIAS_LINES >= MODULES[name].count("\n")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_stand_between_lines_of_quotes(name):
    """
    Modules, packages too, have a docstring; of every docstring the quotes stand on their own lines.
    """
    documented = [node for node in ast.walk(TREES[name]) if isinstance(node, _DOCUMENTED)]
    texts = [text for node in documented if (text := ast.get_docstring(node, clean=False)) is not None]

    assert ast.get_docstring(TREES[name])
    assert [] == [text for text in texts if not re.fullmatch(r"\n[^\n].*\n *", text, re.DOTALL)]


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(("ports/", "core/"))])
def test_the_inside_knows_next_to_nothing(name):
    """
    Ports import the standard library and msgspec; core also the ports, rfc8785 and re2.
    """
    known = PORTS_KNOW if name.startswith("ports/") else CORE_KNOWS
    strange = {
        imported
        for imported in _imports(TREES[name])
        if imported.partition(".")[0] not in sys.stdlib_module_names
        and not any(f"{imported}.".startswith(f"{allowed}.") for allowed in known)
    }

    assert set() == strange


def test_every_module_is_on_the_map():
    """
    ARCHITECTURE.md says of each module what it is for; migrations are told of as one.
    """
    page = read("ARCHITECTURE.md")
    missing = {
        name
        for name in MODULES
        if Path(name).name != "__init__.py"
        and not name.startswith(HISTORY)
        and not any(f"`{told}`" in page for told in _told_as(name))
    }

    assert set() == missing


def test_the_map_has_no_module_that_is_gone():
    """
    A module that ARCHITECTURE.md names in one of its tables is there.
    """
    page = read("ARCHITECTURE.md")
    told = {name for line in page.splitlines() for name in re.findall(r"`([\w/]+\.py)`", line)}
    there = {alias for name in MODULES for alias in _told_as(name)} | {
        str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")
    }

    assert set() == told - there


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _told_as(name: str) -> set[str]:
    parts = Path("uns", name).parts
    return {"/".join(parts[n:]) for n in range(len(parts))}


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    has_docstring = ast.get_docstring(function) is not None
    before = function.body[0].end_lineno if has_docstring else function.body[0].lineno - 1
    return function.end_lineno - before


def _imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found
