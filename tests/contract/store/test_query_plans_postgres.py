"""
PostgreSQL reads by index: the plans that a session keeps, on tables of ten thousand rows.
"""

import json
import re

import msgspec
import psycopg
import pytest

from kit.aged import aged
from kit.indexes import SERVED_BY
from kit.stores import postgres_ledger
from uns.adapters.sql.codec import STORED
from uns.adapters.sql.locking_statements import LockingStatements
from uns.adapters.sql.postgres import postgres_engine
from uns.adapters.sql.postgres_database import DIALECT
from uns.adapters.sql.schema import metadata
from uns.adapters.sql.statements import Statement, Statements
from uns.ports.rows import Copy, DedupWindow, Event, Notification


def every_statement():
    """
    All statements by name, those of writers as well as of readers.
    """
    found = {}
    for who, statements in {"reader": Statements(DIALECT), "writer": LockingStatements(DIALECT)}.items():
        texts = {name: held for name, held in vars(statements).items() if isinstance(held, Statement)}
        texts |= {f"get {kind.__name__}": held for kind, held in statements.gets.items()}
        texts |= {f"due {n}": statements.due(n) for n in (0, 1, 3)}
        texts["due without"] = statements.due(1, without=True)
        if who == "writer":
            for kind in (Notification, DedupWindow, Event, Copy):  # the rest has one row, or no update
                stored = STORED[kind]
                hot = tuple(range(stored.hot_from, len(stored.fields)))
                texts[f"update {kind.__name__}"] = statements.update(kind, hot)
        found |= {f"{name}, {who}": held for name, held in texts.items()}
    return found


STATEMENTS = every_statement()


@pytest.fixture(scope="module")
def session():
    """
    A session of the store's, on a ledger that has run for a while.
    """
    with postgres_ledger() as url:
        engine = postgres_engine(url)
        connection = engine.raw_connection()
        cursor = psycopg.RawCursor(connection.driver_connection)
        fill(cursor)
        yield cursor
        connection.close()
        engine.dispose()


def fill(cursor):
    statements = LockingStatements(DIALECT)
    for kind, rows in aged().items():
        cursor.execute(statements.inserts[kind].text, (msgspec.json.encode(rows).decode(),))
    cursor.execute("ANALYZE", prepare=False)


def nodes(plan):
    """
    The steps of a plan, from the top.
    """
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def steps(session, statement):
    """
    The steps of the plan that a session keeps for a statement, for whatever values.
    """
    count = len(set(re.findall(r"\$(\d+)", statement.text)))
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    session.execute(f"PREPARE asked AS {statement.text}", prepare=False)
    try:
        session.execute(f"EXPLAIN (FORMAT JSON) EXECUTE asked{values}", prepare=False)
        (plan,) = session.fetchone()[0]
    finally:
        session.execute("DEALLOCATE asked", prepare=False)
    return list(nodes(plan["Plan"]))


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_walks_a_table(session, name):
    """
    Whatever reads a table searches it by an index, with a condition.
    """
    taken = steps(session, STATEMENTS[name])
    read = [step for step in taken if step.get("Relation Name") in metadata.tables]
    walked = [
        step.get("Index Name", step["Node Type"])
        for step in read
        if step["Node Type"] != "ModifyTable" and "Index Cond" not in step
    ]

    assert [] == walked, json.dumps(taken, indent=1)


@pytest.mark.parametrize(("name", "index", "times"), SERVED_BY)
def test_a_partial_index_serves_the_statement_it_is_for(session, name, index, times):
    """
    The planner sees that the condition of the index follows from the statement's.
    """
    taken = steps(session, STATEMENTS[f"{name}, writer"])

    assert times == sum(step.get("Index Name") == index for step in taken), json.dumps(taken, indent=1)


@pytest.mark.parametrize("name", ["followers_of", "dead_letters", "due 3", "overdue"])
def test_what_is_cut_off_is_not_sorted_first(session, name):
    """
    The index has the order asked for, but for rows of one instant.
    """
    taken = steps(session, STATEMENTS[f"{name}, writer"])

    assert "Sort" not in [step["Node Type"] for step in taken], json.dumps(taken, indent=1)
