"""
SQLite reads by index: how the planner takes every statement, on tables of ten thousand rows.
"""

import re

import pytest

from kit.aged import aged
from kit.builders import NOW
from kit.indexes import SERVED_BY
from kit.rows import BARE
from kit.stores import open_engine
from uns.adapters.sql.codec import STORED
from uns.adapters.sql.schema import metadata
from uns.adapters.sql.statements import Statement, Statements

VALUES = {"limit": 20, "attempts": 3, "at": NOW, "now": NOW, "since": NOW, "after_at": NOW, "first": 0}

SCANS = {
    # Asked when policies change, and by nothing else. Each entry of the index is one row, the table
    # is not touched; what is asked for is a list of a few types, which no index holds.
    "types_seen": "SCAN uns_notifications USING COVERING INDEX ix_uns_types",
}
"""Statements that may read a whole index, and why."""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    engine = open_engine("sqlite", tmp_path_factory.mktemp("plans"))
    connection = engine.raw_connection()
    cursor = connection.cursor()
    statements = Statements(engine.dialect)
    cursor.execute("BEGIN")
    for kind, rows in aged().items():
        cursor.executemany(statements.inserts[kind].text, [STORED[kind].encode(row) for row in rows])
    cursor.execute("COMMIT")
    yield cursor
    connection.close()
    engine.dispose()


def every_statement():
    """
    All statements by name: found, not listed, so that a new one is looked at too.
    """
    statements = Statements(open_engine("sqlite-memory", None).dialect)
    found = {name: held for name, held in vars(statements).items() if isinstance(held, Statement)}
    found |= {f"get {kind.__name__}": held for kind, held in statements.gets.items()}
    found |= {f"due {n}": statements.due(n) for n in (0, 1, 3)}
    found["due without"] = statements.due(1, without=True)
    for kind, stored in STORED.items():
        hot = tuple(range(stored.hot_from, len(stored.fields)))
        found[f"update {kind.__name__}"] = statements.update(kind, hot)
    return found


STATEMENTS = every_statement()


def steps(cursor, statement):
    """
    The planner's steps, one line each.
    """
    values = {name: VALUES.get(name, "[]") for name in statement.names}
    values |= {name: statement.fixed[name] for name in statement.names if name in statement.fixed}
    cursor.execute(f"EXPLAIN QUERY PLAN {statement.text}", statement.arrange(values))
    return [line[3] for line in cursor.fetchall()]


def test_every_kind_of_statement_is_looked_at():
    """
    The statements found include reads by key, proposals, lines, sweeps and updates.
    """
    assert {"by_ids", "overdue", "line_of", "sweep", "due 3", "update Event", "get Copy"} <= set(STATEMENTS)
    assert set(map(type, BARE)) <= set(STORED)


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_walks_a_table(database, name):
    """
    Each table is searched by an index or a key; lists that came as parameters may be walked.
    """
    taken = steps(database, STATEMENTS[name])
    walked = [step for step in taken if re.match(rf"SCAN ({'|'.join(metadata.tables)})\b", step)]
    allowed = [SCANS[name]] if name in SCANS else []

    assert allowed == walked, taken


@pytest.mark.parametrize(("name", "index", "times"), SERVED_BY)
def test_a_partial_index_serves_the_statement_it_is_for(database, name, index, times):
    """
    The planner sees that the condition of the index follows from the statement's.
    """
    taken = steps(database, STATEMENTS[name])

    assert times == sum(
        bool(re.search(rf"SEARCH \w+ USING (COVERING )?INDEX {index}\b", s)) for s in taken
    ), taken


@pytest.mark.parametrize("name", ["followers_of", "dead_letters", "events_of"])
def test_the_order_asked_for_is_the_indexs(database, name):
    """
    What is cut off after a few rows is not sorted first.
    """
    taken = steps(database, STATEMENTS[name])

    assert not [step for step in taken if "TEMP B-TREE" in step], taken


@pytest.mark.parametrize("name", ["due 3", "overdue"])
def test_only_rows_of_one_instant_are_sorted(database, name):
    """
    The index has the order but for ties, so that nothing else is sorted before the cut.
    """
    sorts = [step for step in steps(database, STATEMENTS[name]) if "TEMP B-TREE" in step]

    assert all(step == "USE TEMP B-TREE FOR RIGHT PART OF ORDER BY" for step in sorts), sorts
