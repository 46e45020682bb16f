"""
Four processes on the same few dedup keys: nobody waits in a circle, and nobody waits long.
"""

from contextlib import closing

import psycopg
import pytest

from kit.children import crowd_hot_keys
from kit.processes import children
from kit.runtimes import a_document

KEYS, PROCESSES, SECONDS = 8, 4, 3.0
P99_SECONDS = 0.5


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_hot_keys_end_in_no_deadlock(url, open_runtime, in_force, tmp_path):
    """
    Given eight hot keys, when four processes accept, settle, answer and replay on them for a while,
    then the database never had to end a circle of waiting, and 99 of 100 calls took under half a second.
    """
    start = tmp_path / "start"
    asks = a_document(
        require_ack=True, ack_timeout_minutes=15, dedup_window_seconds=1, channels={"primary": ["FITFUL"]}
    )
    with closing(open_runtime({"FITFUL": None})) as runtime:
        in_force(runtime, asks)
    with closing(psycopg.connect(url.replace("+psycopg", ""), autocommit=True)) as connection:
        before = deadlocks(connection)
        with children(crowd_hot_keys, *[(url, start, KEYS, SECONDS)] * PROCESSES) as crowd:
            start.touch()
            waits = sorted(wait for child in crowd for wait in child.result())

        assert before == deadlocks(connection)
    assert len(waits) > 100 * PROCESSES, len(waits)
    assert P99_SECONDS > waits[int(len(waits) * 0.99)]


def deadlocks(connection):
    """
    How often the server had to end a circle of waiting.
    """
    connection.execute("SELECT pg_stat_force_next_flush()")
    question = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ((number,),) = connection.execute(question)
    return number
