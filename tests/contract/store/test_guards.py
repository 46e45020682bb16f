"""
SQLite's guards: a row that moves under a transaction rolls it back, and it runs again.

One writer at a time cannot move a row of another's, so here the plan does it to itself.
"""

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from kit.builders import a_notification
from kit.plans import Commit, got, put
from kit.rows import a_window
from kit.stores import everything
from uns.adapters.sql.codec import STORED
from uns.ports.decision import Change, Decision, Signal, SignalKind
from uns.ports.errors import StoreUnavailable
from uns.ports.rows import DedupWindow, Notification
from uns.ports.store import Plan

TRIES = 5
ONLY_SQLITE = pytest.mark.parametrize("way", ["sqlite-direct", "sqlite-memory-grouped"])


@pytest.fixture
def run(store, run):
    return Commit(store.inner, grouped=run.grouped)


def moving(times, moved, column, value):
    """
    A plan that leases ``n1``; under its first ``times`` runs somebody sets a column to a value.
    """
    runs = []

    def lease(tx):
        runs.append(tx.now)
        row = tx.get(Notification, "n1")
        after = replace(row, **moved)
        tx.apply(Decision(None, (Change(row, after),), signals=(Signal(SignalKind.DUE, "n1"),)))
        if len(runs) <= times:
            table = STORED[Notification].table
            statement = sa.update(table).where(table.c.id == "n1").values({column: value})
            text = statement.compile(compile_kwargs={"literal_binds": True})
            tx._group._cursor.execute(str(text))

    return Plan(lease), runs


@ONLY_SQLITE
@pytest.mark.parametrize("times", [1, TRIES - 1])
def test_a_plan_whose_row_moved_runs_again(run, store, signals, times):
    """
    Given a row that moves after a plan read it, when its guarded update finds another value, then
    all is rolled back and the plan runs again, its neighbours with it; what it signals is told once.
    """
    run(put(a_notification()))
    plan, runs = moving(times, {"lease_token": "mine"}, "lease_token", "theirs")

    outcomes = run.outcomes(put(a_window("a")), plan, put(a_window("b")))

    assert [None] * 3 == outcomes
    assert times + 1 == len(runs)
    assert run(got(Notification, "n1")) == a_notification(lease_token="mine")
    assert ["a", "b"] == [window.key for window in everything(store.inner)["DedupWindow"]]
    assert 1 == len(signals)


@ONLY_SQLITE
def test_a_plan_whose_row_keeps_moving_fails_alone(run, store, signals):
    """
    Given a row that moves every time, then the plan is given up and its neighbours commit.
    """
    run(put(a_notification()))
    plan, _ = moving(1000, {"lease_token": "mine"}, "lease_token", "theirs")

    before, gave_up, after = run.outcomes(put(a_window("a")), plan, put(a_window("b")))

    assert (before, after) == (None, None)
    assert isinstance(gave_up, StoreUnavailable)
    assert run(got(Notification, "n1")) == a_notification()
    assert run(got(DedupWindow, "b")) == a_window("b")
    assert [] == signals


@ONLY_SQLITE
@pytest.mark.parametrize(
    ("column", "value", "guarded"),
    [("lease_token", None, True), ("attempts", 7, True), ("outcome", "{}", False), ("actor", "ann", False)],
)
def test_the_columns_that_move_are_guarded(run, column, value, guarded):
    """
    Given a plan that moves token, attempts and outcome, then the first two must hold their old
    values, null or not; JSON texts are not compared, nor are columns that stay.
    """
    run(put(a_notification(lease_token="old")))
    moved = {"lease_token": "mine", "attempts": 1, "outcome": None}
    plan, runs = moving(1, moved, column, value)
    run(plan)

    assert (2 if guarded else 1) == len(runs)
