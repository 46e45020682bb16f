"""
Wiring: which databases open, which do not and why, and what a process is made of.
"""

import asyncio
import os
import sqlite3
import stat
import sys
import time
from contextlib import closing

import pytest

from kit.builders import a_request
from kit.channels import ScriptedChannel
from kit.children import accepts
from kit.processes import result_of
from kit.runtimes import PRINCIPAL, a_document, policy_folder
from kit.servers import postgres_database
from uns import Runtime, SimpleAdapterRegistry, StoreUnavailable
from uns.adapters.channels.recording import RecordingChannel
from uns.entrypoints.wiring import Options, open_ledger
from uns.ports.errors import SchemaMismatch
from uns.ports.store import Plan


def opened_files(folder):
    """
    Which files below ``folder`` this process has open.
    """
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    return [file for file in found if file.startswith(str(folder))]


FORMS = ["sqlite:///{}", "sqlite+pysqlite:///{}", "sqlite://", "sqlite+pysqlite://", "sqlite:///:memory:"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_url_opens(form, tmp_path):
    """
    A database is a file, or lives in memory, by either form of its URL.
    """
    file = tmp_path / "uns.db"
    with Runtime(form.format(file), create_tables=True) as runtime:
        sent = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL))

        assert "DELIVERED" == sent.status
        assert file.exists() == ("{}" in form)


@pytest.mark.parametrize("form", ["postgresql://", "postgresql+psycopg://"])
@pytest.mark.parametrize("prepare", [True, False])
def test_every_form_of_url_opens_postgresql(form, prepare):
    """
    By either form of its URL, and behind a proxy too.
    """
    with postgres_database() as url:
        at = url.replace("postgresql+psycopg://", form)
        options = Options(create_tables=True, pg_prepare=prepare)
        with Runtime.over(open_ledger(at, None, options)) as runtime:
            sent = asyncio.run(runtime.send(a_request(), principal=PRINCIPAL))

            assert "DELIVERED" == sent.status
        with Runtime(at) as again:
            assert "DELIVERED" == again.get(sent.notification_id)["status"]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_decisions_on_postgresql_go_by_its_clock_unless_the_host_brings_one(url, clock):
    """
    A clock that is brought is used as given.
    """
    at_theirs = Plan(lambda tx: tx.now)
    with Runtime(url) as theirs, Runtime(url, clock=clock.now) as ours:
        assert clock.now() == ours._ledger.store.transact(at_theirs)
        assert clock.now() == ours._ledger.store.read(at_theirs)
        assert abs(time.time() - theirs._ledger.store.transact(at_theirs)) < 60
        assert theirs._ledger.store._database._clock is None


def test_a_driver_that_is_missing_is_named(monkeypatch):
    """
    Whoever names a PostgreSQL without its extra hears which one it is.
    """
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ValueError, match=r"^database_url .*pip install 'uns\[postgres\]'$") as refused:
        Runtime("postgresql://u:secret@h/d")

    assert "secret" not in str(refused.value)


def test_a_mistyped_url_of_postgresql_says_its_form():
    """
    Without its password.
    """
    with pytest.raises(ValueError, match=r"is not of the form postgresql://user:password@host") as refused:
        Runtime("postgresql://u:secret@h:port/d")

    assert "secret" not in str(refused.value)


def test_a_relative_path_is_from_where_the_process_is(tmp_path, monkeypatch):
    """
    ``sqlite:///uns.db`` is a file in the working directory.
    """
    monkeypatch.chdir(tmp_path)
    Runtime("sqlite:///uns.db", create_tables=True).close()

    assert (tmp_path / "uns.db").exists()


NO_URLS = [
    "",
    "uns.db",
    "/var/lib/uns.db",
    "sqlite",
    "sqlite:",
    "sqlite:/uns.db",
    "sqlite//uns.db",
    "sqlite://uns.db",
    "sqlite://host/uns.db",
    "sqlite:///a\0b",
    "sqlite+aiosqlite:///uns.db",
    "postgres://u:secret@db/uns",
    "postgresql",
    "postgresql:/db",
    "postgresql+asyncpg://u:secret@db/uns",
    "postgresql://u:secret@db/u\0ns",
    "mysql://root:secret@db/uns",
    "mongodb://db",
]


@pytest.mark.parametrize("url", NO_URLS)
def test_what_is_no_url_of_ours_is_refused(url, tmp_path, monkeypatch):
    """
    A URL of another kind, or a mistyped one, is a ``ValueError`` that says how one begins, and
    repeats no password.
    """
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^database_url .*sqlite:///") as refused:
        Runtime(url, create_tables=True)

    assert ("validation_error", "database_url") == (refused.value.code, refused.value.path)
    assert "secret" not in str(refused.value)
    assert [] == list(tmp_path.iterdir())


WRONG_OPTIONS = [
    ("max_attempts", 0),
    ("max_attempts", -1),
    ("retry_seconds", -0.001),
    ("retry_seconds", float("nan")),
    ("retry_seconds", float("inf")),
]


@pytest.mark.parametrize(("name", "value"), WRONG_OPTIONS)
def test_a_wrong_option_is_refused_before_anything_is_made(name, value, tmp_path):
    """
    An option out of range is a ``ValueError`` with its name, and no database is made.
    """
    with pytest.raises(ValueError, match=f"^{name} must be ") as refused:
        Runtime(f"sqlite:///{tmp_path / 'uns.db'}", create_tables=True, **{name: value})

    assert ("validation_error", name) == (refused.value.code, refused.value.path)
    assert [] == list(tmp_path.iterdir())


LEAST_OPTIONS = [("max_attempts", 1), ("retry_seconds", 0), ("retry_seconds", 0.5)]


@pytest.mark.parametrize(("name", "value"), LEAST_OPTIONS)
def test_options_at_their_limits_are_accepted(name, value):
    """
    One attempt, and no pause between two, are allowed.
    """
    Runtime("sqlite://", create_tables=True, **{name: value}).close()


def executed(file, *statements):
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def no_database(file):
    file.write_bytes(b"This is a letter to my aunt. " * 200)


def damaged(file):
    Runtime(f"sqlite:///{file}", create_tables=True).close()
    with file.open("r+b") as opened:
        opened.seek(100)
        opened.write(b"\xff" * 4000)


def newer(file):
    Runtime(f"sqlite:///{file}", create_tables=True).close()
    executed(file, "UPDATE uns_schema_version SET version_num = '9999'")


def foreign(file):
    executed(file, "CREATE TABLE uns_notifications (id TEXT)")


def folder(file):
    file.mkdir()


def nowhere(file):
    file.parent.rmdir()


def contents(file):
    """
    All that a file holds: as SQL where it is a database.
    """
    if not file.is_file():
        return None
    try:
        with closing(sqlite3.connect(file)) as connection:
            return list(connection.iterdump())
    except sqlite3.DatabaseError:
        return file.read_bytes()


NOT_OURS = [
    (no_database, StoreUnavailable, "store_unavailable", "is not a SQLite database"),
    (damaged, StoreUnavailable, "store_unavailable", "damaged"),
    (newer, SchemaMismatch, "schema_mismatch", "newer than this code"),
    (foreign, SchemaMismatch, "schema_mismatch", "uns did not make"),
    (folder, StoreUnavailable, "store_unavailable", "cannot be opened"),
    (nowhere, StoreUnavailable, "store_unavailable", "its directory must exist"),
]


@pytest.mark.parametrize("create_tables", [False, True])
@pytest.mark.parametrize(("make", "error", "code", "told"), NOT_OURS)
def test_a_database_that_is_not_ours_is_left_as_it_is(make, error, code, told, create_tables, tmp_path):
    """
    Given a file that cannot serve, when a runtime opens it, then that is an error which names the
    file and says what is wrong, and neither the file nor an open connection is left changed.
    """
    file = tmp_path / "data" / "uns.db"
    file.parent.mkdir()
    make(file)
    before = contents(file)
    with pytest.raises(error, match=told) as refused:
        Runtime(f"sqlite:///{file}", create_tables=create_tables)

    assert (code, 503) == (refused.value.code, refused.value.status)
    assert str(file) in str(refused.value)
    assert before == contents(file)
    assert [] == opened_files(tmp_path)


@pytest.mark.parametrize("there", [False, True])
def test_a_database_without_a_schema_says_how_to_make_one(there, tmp_path):
    """
    Given an empty file, or none, when a runtime opens it without ``create_tables``, then the error
    says how to create the schema, and nothing is created.
    """
    file = tmp_path / "uns.db"
    if there:
        file.touch()
    with pytest.raises(SchemaMismatch, match="create_tables=True") as refused:
        Runtime(f"sqlite:///{file}")

    assert "schema_mismatch" == refused.value.code
    assert not file.exists() or [] == tables(file)
    assert [] == opened_files(tmp_path)
    Runtime(f"sqlite:///{file}", create_tables=True).close()


def tables(file):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT name FROM sqlite_master").fetchall()


@pytest.fixture
def shared_folder(tmp_path):
    """
    A folder that another user can reach, with a database in it.
    """
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    folder = tmp_path / "shared"
    folder.mkdir()
    Runtime(f"sqlite:///{folder / 'uns.db'}", create_tables=True).close()
    yield folder
    folder.chmod(0o755)


@pytest.mark.parametrize("create_tables", [False, True])
@pytest.mark.parametrize("what", ["file", "folder", "unreadable"])
def test_a_database_that_may_not_be_written_accepts_nothing(what, create_tables, shared_folder):
    """
    Given a file or a folder that this user may not write, or not read, when a request is put in,
    then the error names the file and says so, and what is stored is left as it is.
    """
    file = shared_folder / "uns.db"
    before = file.read_bytes()
    file.chmod({"file": 0o444, "folder": 0o666, "unreadable": 0}[what])
    shared_folder.chmod(0o777 if what == "file" else 0o555)
    code, told = result_of(accepts, f"sqlite:///{file}", create_tables)

    assert ("store_unavailable", True) == (code, str(file) in told)
    assert "read-only" in told or "cannot be opened" in told
    assert before == file.read_bytes()


def test_a_new_database_has_the_packaged_policies(tmp_path):
    """
    Given a new database, when it is opened again with ``create_tables``, then the policies in force
    are the packaged ones at first, and the operator's after a reload.
    """
    url = f"sqlite:///{tmp_path / 'uns.db'}"
    with Runtime(url, create_tables=True) as runtime:
        assert "default" == runtime.simulate(a_request(), principal=PRINCIPAL).policy_id
        runtime.reload_policies(
            policy_folder(tmp_path / "policies", a_document(channels={"primary": ["LOG"]}))
        )
    for create_tables in (True, False):
        with Runtime(url, create_tables=create_tables) as runtime:
            told = runtime.simulate(a_request(), principal=PRINCIPAL)

            assert ("ops", 2) == (told.policy_id, told.revision)


@pytest.fixture
def sent_through(tmp_path):
    """
    The status of one notification that a runtime with these adapters sends to a channel.
    """

    def sent_through(adapters, channel):
        with Runtime("sqlite://", adapters=adapters, create_tables=True) as runtime:
            folder = policy_folder(tmp_path / "policies", a_document(channels={"primary": [channel]}))
            runtime.reload_policies(folder)
            return asyncio.run(runtime.send(a_request(), principal=PRINCIPAL)).status

    return sent_through


REGISTRIES = [None, SimpleAdapterRegistry(), SimpleAdapterRegistry({"PAGER": ScriptedChannel()})]


@pytest.mark.parametrize("adapters", REGISTRIES, ids=["none", "empty", "other"])
@pytest.mark.parametrize("channel", ["LOG", "RECORDING"])
def test_the_built_in_channels_are_always_there(adapters, channel, sent_through):
    """
    LOG and RECORDING work whatever the host registers besides.
    """
    assert "DELIVERED" == sent_through(adapters, channel)


def test_the_host_may_replace_a_built_in_channel(sent_through):
    """
    Given an adapter registered as LOG, when something is logged, then that adapter is called.
    """
    mine = ScriptedChannel()

    assert "DELIVERED" == sent_through(SimpleAdapterRegistry({"LOG": mine}), "LOG")
    assert 1 == len(mine.calls)


class Basket(list):
    """
    A channel that keeps its messages: falsy while it is empty.
    """

    async def send(self, message):
        self.append(message)
        return await RecordingChannel().send(message)


@pytest.mark.parametrize("channel", ["PAGER", "LOG"])
def test_an_adapter_counts_though_it_is_falsy(channel, sent_through):
    """
    Given an adapter that is an empty list, when something is sent to it, then it is the one called.
    """
    basket = Basket()

    assert "DELIVERED" == sent_through(SimpleAdapterRegistry({channel: basket}), channel)
    assert 1 == len(basket)


def test_the_database_file_is_made_for_its_owner(tmp_path):
    """
    A new database file obeys the umask of the process, and is no executable.
    """
    mask = os.umask(0o077)
    try:
        Runtime(f"sqlite:///{tmp_path / 'uns.db'}", create_tables=True).close()
    finally:
        os.umask(mask)

    assert 0o600 == stat.S_IMODE((tmp_path / "uns.db").stat().st_mode)
