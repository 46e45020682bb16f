"""
Migrations: the schema they end in, who may run them, and what is refused.
"""

import logging
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.schema import CreateTable

from kit.servers import free_port, postgres_database
from uns.adapters.sql.dialects import xid8
from uns.adapters.sql.migrate import SCRIPTS, VERSION_TABLE, State, check, create_or_upgrade, state
from uns.adapters.sql.postgres import postgres_engine
from uns.adapters.sql.schema import metadata
from uns.adapters.sql.sqlite import begin_immediate, sqlite_engine
from uns.ports.errors import SchemaMismatch, StoreUnavailable

ROOT = Path(__file__).parents[3]


@contextmanager
def sqlite_database(tmp_path):
    yield f"sqlite:///{tmp_path / 'uns.db'}"


DATABASES = {"sqlite": sqlite_database, "postgresql": lambda _: postgres_database()}


@contextmanager
def opened(url):
    engine = sqlite_engine(url) if url.startswith("sqlite") else postgres_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture(params=DATABASES)
def url(request, tmp_path):
    with DATABASES[request.param](tmp_path) as url:
        yield url


@pytest.fixture
def engine(url):
    with opened(url) as engine:
        yield engine


@pytest.fixture
def fresh(tmp_path, engine):
    """
    A second database of the same kind, made from the tables and not by the migrations.
    """
    (tmp_path / "fresh").mkdir()
    with DATABASES[engine.dialect.name](tmp_path / "fresh") as url, opened(url) as fresh:
        metadata.create_all(fresh)
        yield fresh


NEXT = """
import os
from alembic import op
import sqlalchemy as sa

revision = "0002"
down_revision = "0001"

def upgrade():
    with open(os.path.join(os.path.dirname(__file__), "log"), "a") as log:
        log.write(f"{os.getpid()}\\n")
    op.create_table("uns_next", sa.Column("id", sa.Integer))
"""


@pytest.fixture
def next_release(tmp_path):
    """
    The migrations as they will be one release later.
    """
    scripts = tmp_path / "100% next"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "0002_next.py").write_text(NEXT)
    return scripts


def contents(engine):
    """
    All that the database says about its schema, to the letter.
    """
    if engine.dialect.name == "sqlite":
        queries = ["SELECT name, sql FROM sqlite_master WHERE name <> 'sqlite_sequence'"]
    else:
        queries = [
            "SELECT table_name || '.' || column_name, data_type, character_maximum_length, is_nullable,"
            " column_default, is_identity FROM information_schema.columns WHERE table_schema = 'public'",
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = 'public'::regnamespace",
        ]
    with engine.connect() as connection:
        rows = [tuple(row) for query in queries for row in connection.exec_driver_sql(query)]
    return sorted((row for row in rows if VERSION_TABLE not in row[0]), key=str)


def test_the_migrations_make_the_tables_of_the_code(engine):
    """
    Alembic finds no difference between a migrated database and the tables.
    """
    create_or_upgrade(engine)
    ischema_names["xid8"] = xid8

    def there(item, _name, kind, _reflected, _compared):
        return kind != "column" or item.info.get("dialect", engine.dialect.name) == engine.dialect.name

    with engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "include_object": there}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_a_migrated_database_is_a_fresh_one_to_the_letter(engine, fresh):
    """
    Checks, predicates of indexes and storage options are alike too, which Alembic does not compare.
    """
    create_or_upgrade(engine)

    assert contents(engine) == contents(fresh)


def documented():
    """
    What ``docs/schema.md`` describes: the column names and the rest of the text, by table.
    """
    _, *chapters = (ROOT / "docs" / "schema.md").read_text().split("\n## ")
    texts = dict(chapter.split("\n", 1) for chapter in chapters)
    return {name: (re.findall(r"^\| `(\w+)` \|", text, re.M), text) for name, text in texts.items()}


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=str)
def test_every_column_and_index_is_documented(table):
    """
    ``docs/schema.md`` has the columns of each table in their order, and names each index.
    """
    names, text = documented()[table.name]
    keys = re.findall(r"CONSTRAINT ((?:pk|uq)_\w+)", str(CreateTable(table)))
    indexes = keys + [index.name for index in table.indexes]

    assert [name for name in names if name in table.columns] == list(table.columns.keys())
    assert [name for name in indexes if f"`{name}`" not in text] == []


def test_the_first_migration_can_be_undone(engine):
    """
    Going back to the base leaves no table of ours, and the way up is open again.
    """
    create_or_upgrade(engine)
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")

    assert contents(engine) == []
    assert state(engine) is State.EMPTY
    assert create_or_upgrade(engine) is State.EMPTY


def test_files_are_numbered_as_their_revisions():
    """
    The order of the files is the one line of revisions, since the state is read from their names.
    """
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    line = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    files = sorted(file.name[:4] for file in (SCRIPTS / "versions").glob("*.py"))

    assert line[::-1] == files


def test_an_empty_database_is_created_once(engine):
    """
    The first call creates the schema, and the second finds it.
    """
    assert create_or_upgrade(engine) is State.EMPTY
    assert create_or_upgrade(engine) is State.CURRENT
    check(engine)


def test_an_older_database_is_upgraded(engine, next_release):
    """
    A schema of the release before is brought to this one.
    """
    create_or_upgrade(engine)

    assert create_or_upgrade(engine, scripts=next_release) is State.OLDER
    assert state(engine, scripts=next_release) is State.CURRENT
    assert sa.inspect(engine).has_table("uns_next")


def test_a_failed_migration_leaves_nothing(engine, next_release):
    """
    Given a migration that fails in its second statement, then its first is undone as well.
    """
    create_or_upgrade(engine)
    migration = next_release / "versions" / "0002_next.py"
    migration.write_text(f"{NEXT}    op.create_table('uns_events', sa.Column('id', sa.Integer))\n")
    before = contents(engine)

    with pytest.raises(StoreUnavailable, match=r"refused: .*uns_events.* already exists"):
        create_or_upgrade(engine, scripts=next_release)

    assert contents(engine) == before
    assert state(engine, scripts=next_release) is State.OLDER


def test_what_is_well_takes_no_write_lock(tmp_path):
    """
    Given a database at head whose write lock is held, when a process starts, then it does not wait.
    """
    url = f"sqlite:///{tmp_path / 'uns.db'}"
    with opened(url) as engine, opened(url) as other, other.connect() as writing:
        create_or_upgrade(engine)
        begin_immediate(writing.connection.cursor())

        assert create_or_upgrade(engine) is State.CURRENT
        check(engine)


def an_empty(engine, next_release):
    pass


def an_older(engine, next_release):
    create_or_upgrade(engine)
    (next_release / "versions" / "0003_last.py").write_text("")


def a_newer(engine, next_release):
    create_or_upgrade(engine, scripts=next_release)
    (next_release / "versions" / "0002_next.py").unlink()


def a_foreign(engine, next_release):
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE notification_policies (id INTEGER)"))


CREATE = "has no uns schema; create it with create_tables=True or `uns init`"
UPGRADE = "has a uns schema older than this code; upgrade it with create_tables=True or `uns init`"
NEWER = "has a uns schema newer than this code, and was left as it is; run the newer uns"
FOREIGN = "has tables of the same names that uns did not make; name another database"


@pytest.mark.parametrize(
    ("made", "words"), [(an_empty, CREATE), (an_older, UPGRADE), (a_newer, NEWER), (a_foreign, FOREIGN)]
)
def test_a_check_says_what_to_do(engine, next_release, made, words):
    """
    Whatever is not this code's schema is refused in one sentence that names the database and the way out.
    """
    made(engine, next_release)
    before = contents(engine)

    with pytest.raises(SchemaMismatch) as refused:
        check(engine, scripts=next_release)

    assert str(refused.value) == f"the database {engine.url.database} {words}"
    assert contents(engine) == before


@pytest.mark.parametrize(("made", "words"), [(a_newer, NEWER), (a_foreign, FOREIGN)])
def test_what_may_not_be_migrated_is_left_as_it_is(engine, next_release, made, words):
    """
    A newer schema and tables of someone else's are refused, and nothing of them is altered.
    """
    made(engine, next_release)
    before = contents(engine)

    with pytest.raises(SchemaMismatch, match=words[:20]):
        create_or_upgrade(engine, scripts=next_release)

    assert contents(engine) == before


def test_tables_of_the_host_are_no_obstacle(engine):
    """
    The schema lives beside other tables, Alembic's own version table among them.
    """
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES ('9f3c')"))

    assert create_or_upgrade(engine) is State.EMPTY
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "9f3c"


def test_a_database_in_memory_is_created():
    """
    ``sqlite://`` keeps its schema for as long as its engine lives.
    """
    with opened("sqlite://") as engine:
        with pytest.raises(SchemaMismatch, match="in memory has no uns schema; create it"):
            check(engine)
        assert create_or_upgrade(engine) is State.EMPTY
        check(engine)


def test_threads_of_one_process_may_start_at_once(engine):
    """
    Several runtimes in one process do what several processes do: one migrates.
    """
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: create_or_upgrade(engine), range(4)))

    assert found.count(State.EMPTY) == 1
    assert found.count(State.CURRENT) == 3


def test_migrating_is_silent(engine, caplog, capfd):
    """
    Nothing is logged or printed, even where everything at INFO is shown.
    """
    with caplog.at_level(logging.INFO):
        create_or_upgrade(engine)

    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


START = """
import logging, pathlib, sys
from uns.adapters.sql.migrate import create_or_upgrade
from uns.adapters.sql.postgres import postgres_engine
from uns.adapters.sql.sqlite import sqlite_engine

logging.basicConfig(level=logging.INFO)
url, scripts = sys.argv[1:]
engine = sqlite_engine(url) if url.startswith("sqlite") else postgres_engine(url)
sys.stdin.read()
print(create_or_upgrade(engine, scripts=pathlib.Path(scripts)))
engine.dispose()
"""


def start_eight(url, scripts):
    """
    Eight processes that call at the same moment: the exit status, output and errors of each.
    """
    command = [sys.executable, "-W", "error", "-c", START, url, scripts]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = [subprocess.Popen(command, text=True, **pipes) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(subprocess.Popen.communicate, processes))
    return sorted((process.returncode, *texts) for process, texts in zip(processes, told, strict=True))


def test_eight_processes_create_one_schema(url, fresh):
    """
    Given an empty database, when eight processes start at once, then one creates the schema and all
    come up without a word of error.
    """
    assert start_eight(url, SCRIPTS) == [*[(0, "CURRENT\n", "")] * 7, (0, "EMPTY\n", "")]
    with opened(url) as engine:
        assert contents(engine) == contents(fresh)


def test_of_eight_processes_one_upgrades(url, next_release):
    """
    Given a schema one release old, when eight processes start at once, then one migrates it and the
    others wait.
    """
    with opened(url) as engine:
        create_or_upgrade(engine)

    assert start_eight(url, next_release) == [*[(0, "CURRENT\n", "")] * 7, (0, "OLDER\n", "")]
    assert len((next_release / "versions" / "log").read_text().split()) == 1


@pytest.mark.parametrize("ask", [check, create_or_upgrade, state])
def test_a_file_that_is_no_database_is_one_sentence(tmp_path, ask):
    """
    Whoever asks about a file that cannot serve hears which file, and what to do.
    """
    path = tmp_path / "letter"
    path.write_text("This is a letter, and not a database. " * 100)

    with opened(f"sqlite:///{path}") as engine, pytest.raises(StoreUnavailable) as refused:
        ask(engine)

    assert str(refused.value) == (
        f"the database {path} is not a SQLite database: name another file or move this one away"
    )


def test_a_server_that_does_not_answer_is_one_sentence():
    """
    A PostgreSQL that cannot be reached is named with what its driver says, in one line.
    """
    with (
        opened(f"postgresql+psycopg://uns:secret@127.0.0.1:{free_port()}/uns") as engine,
        pytest.raises(StoreUnavailable, match=r"^the database uns refused: .*Connection refused$") as refused,
    ):
        check(engine)

    assert "secret" not in str(refused.value)


def test_a_role_that_may_not_create_tables_is_told_so():
    """
    A refusal by the server is handed on in its own words.
    """
    with postgres_database() as url, opened(url) as owner:
        role = f"guest_{owner.url.database}"
        with owner.begin() as connection:
            connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        with (
            opened(str(owner.url.set(username=role))) as engine,
            pytest.raises(StoreUnavailable, match="refused: permission denied for schema public"),
        ):
            create_or_upgrade(engine)
        with owner.begin() as connection:
            connection.exec_driver_sql(f"DROP ROLE {role}")
