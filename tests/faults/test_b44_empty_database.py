"""
B44: processes that start at once on one database all come up, on one schema, without a word of error.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from kit.servers import postgres_database
from uns import Runtime
from uns.adapters.sql.migrate import VERSION_TABLE
from uns.ports.errors import SchemaMismatch

MANY = 8

START = """
import json, sys
from uns import Runtime, SendNotificationRequest

context = {"autonomy_mode": "LIVE", "agent_id": "2c5f9b4c-6b3e-4d1a-9c12-4a8f0c8e7b11"}
request = SendNotificationRequest(
    notification_type="ask.start", intent="OPERATIONAL", source="start", title="t", message="m",
    autonomy_context=context, idempotency_key="once")
sys.stdin.readline()
with Runtime(sys.argv[1], create_tables=True) as runtime:
    sent = runtime.accept(request, principal="start")
    print(json.dumps([str(sent.notification_id), sent.idempotent_replay]))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request, tmp_path):
    """
    The URL of a database that nobody has touched.
    """
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'uns.db'}"
    else:
        with postgres_database() as url:
            yield url


def start_at_once(url):
    """
    What each of eight processes answered that opened a runtime and put in the same request.
    """
    command = [sys.executable, "-W", "error", "-c", START, url]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = [subprocess.Popen(command, text=True, **pipes) for _ in range(MANY)]
    with ThreadPoolExecutor(MANY) as threads:
        told = list(threads.map(lambda process: process.communicate("go\n", timeout=60), processes))

    assert [(0, "")] * MANY == [
        (process.returncode, errors) for process, (_, errors) in zip(processes, told, strict=True)
    ]
    return [json.loads(answer) for answer, _ in told]


def test_eight_processes_start_on_an_empty_database(empty):
    """
    B44: given an empty database, when eight processes open it and accept the same request, then all
    come up under the packaged policies, and one of them made the acceptance that the others repeat.
    """
    answers = start_at_once(empty)

    assert 1 == len({id for id, _ in answers})
    assert [False] + [True] * (MANY - 1) == sorted(replayed for _, replayed in answers)
    with Runtime(empty) as runtime:
        (id,) = {id for id, _ in answers}
        assert ["ACCEPTED"] == [event["kind"] for event in runtime.events(id)]


def test_a_database_that_is_newer_is_refused_and_left_alone(empty):
    """
    B44: given a schema of a later release, when a runtime opens it, also one that may create tables,
    then it is refused clearly, and nothing is altered.
    """
    Runtime(empty, create_tables=True).close()
    engine = sa.create_engine(empty)
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    for create_tables in (False, True):
        with pytest.raises(SchemaMismatch, match="newer"):
            Runtime(empty, create_tables=create_tables)
    with engine.connect() as connection:
        assert [("9999",)] == list(connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")))
    engine.dispose()
