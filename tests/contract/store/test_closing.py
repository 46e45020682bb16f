"""
Closing a store: nothing is begun afterwards, and what was committed stays.
"""

import pytest

from kit.plans import applied, got, put
from kit.rows import a_window
from kit.stores import everything
from uns.adapters.sql.sqlite import sqlite_engine
from uns.adapters.sql.store import SqlStore
from uns.ports.decision import Decision
from uns.ports.errors import Closed
from uns.ports.rows import DedupWindow


def test_a_closed_store_begins_nothing(store):
    """
    Given a closed store, when it is handed plans in any way, then each of them is told so.
    """
    store.close()
    idle = applied(Decision(None))

    with pytest.raises(Closed):
        store.transact(idle)
    with pytest.raises(Closed):
        store.read(idle)
    assert [Closed, Closed] == [type(reply) for reply in store.transact_many([idle, idle])]


def test_closing_twice_is_closing(store, run):
    """
    Given a store that has worked, when it is closed twice, then the second time does nothing.
    """
    run(put(a_window()))
    store.close()

    assert store.close() is None


def test_closing_a_store_that_never_worked_is_closing(store):
    """
    Given a store that was handed nothing, when it is closed, then it is closed.
    """
    store.close()

    with pytest.raises(Closed):
        store.read(got(DedupWindow, "a"))


@pytest.mark.parametrize("way", ["sqlite-direct", "sqlite-grouped"])
def test_what_was_committed_is_there_when_the_file_is_opened_again(store, run, clock, tmp_path):
    """
    Given committed rows, when their file is opened by another store, then they are there.
    """
    run(put(a_window("a")), put(a_window("b")))
    store.close()
    again = SqlStore(sqlite_engine(f"sqlite:///{tmp_path / 'uns.db'}"), clock)

    assert [a_window("a"), a_window("b")] == everything(again)["DedupWindow"]

    again.close()
