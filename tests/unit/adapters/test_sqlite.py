"""
SQLite: what an engine promises, patience with locks, and files that cannot serve.
"""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from uns.adapters.sql import sqlite
from uns.adapters.sql.sqlite import begin_immediate, patiently, sqlite_engine
from uns.ports.errors import StoreUnavailable


@pytest.fixture
def path(tmp_path):
    return tmp_path / "uns.db"


@pytest.fixture(params=["sqlite:///{}", "sqlite+pysqlite:///{}", "sqlite://"])
def engine(request, path):
    engine = sqlite_engine(request.param.format(path))
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE tallies (n INTEGER NOT NULL)")
    yield engine
    engine.dispose()


@pytest.fixture
def connect(path):
    """
    Opens bare connections to the file, as another process has them.
    """
    opened = []

    def connect():
        opened.append(sqlite3.connect(path, timeout=0, isolation_level=None))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


class Clock:
    """
    Time that only sleeping moves, with one thing that happens ``at`` an instant.
    """

    def __init__(self, at=float("inf"), happens=lambda: None):
        self.now = 0.0
        self.pauses = []
        self._at, self._happens = at, happens

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds
        if self.now >= self._at:
            self._at = float("inf")
            self._happens()


def tally(connection):
    return connection.exec_driver_sql("SELECT count(*) FROM tallies").scalar_one()


SETTINGS = [("synchronous", 2), ("busy_timeout", 0), ("foreign_keys", 1), ("cache_size", -32768)]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_every_connection_has_the_settings(engine, name, value):
    """
    Commits are durable, foreign keys hold, SQLite's own waiting is off and the cache is ample.
    """
    with engine.connect() as connection:
        assert connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() == value


def test_a_file_is_in_wal_mode(path):
    """
    Readers and the writer of a file do not keep each other waiting.
    """
    engine = sqlite_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    engine.dispose()


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE"])
def test_no_connection_is_handed_out_with_an_open_transaction(engine, begin):
    """
    Given a user who leaves in mid-transaction, then the next one finds none, and nothing of it.
    """
    with engine.connect() as left:
        left.connection.cursor().execute(begin)
        left.exec_driver_sql("INSERT INTO tallies VALUES (1)")

    with engine.connect() as connection:
        assert not connection.connection.dbapi_connection.in_transaction
        assert tally(connection) == 0


def test_readers_neither_wait_for_a_writer_nor_see_what_is_not_committed(path):
    """
    Given a transaction under way on a file, when another thread reads, then it gets what was
    committed before, and the transaction still commits.
    """
    engine = sqlite_engine(f"sqlite:///{path}")

    def read():
        with engine.connect() as connection:
            return tally(connection)

    with ThreadPoolExecutor(1) as threads, engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE tallies (n INTEGER NOT NULL)")
        begin_immediate(connection.connection.cursor())
        connection.exec_driver_sql("INSERT INTO tallies VALUES (1)")
        assert threads.submit(read).result() == 0
        connection.commit()
        assert threads.submit(read).result() == 1
    engine.dispose()


def test_a_database_in_memory_is_one_for_all_threads(engine):
    """
    What one thread wrote another reads, in memory as on a file.
    """

    def write():
        with engine.connect() as connection:
            connection.exec_driver_sql("INSERT INTO tallies VALUES (1)")

    with ThreadPoolExecutor(1) as threads:
        threads.submit(write).result()
    with engine.connect() as connection:
        assert tally(connection) == 1


def test_writers_in_many_threads_lose_nothing(path):
    """
    Read, add one, write: four threads doing it fifty times each come to two hundred.
    """
    engine = sqlite_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE tallies AS SELECT 0 AS n")

    def add(_):
        with engine.connect() as connection, connection.begin():
            begin_immediate(connection.connection.cursor())
            n = connection.exec_driver_sql("SELECT n FROM tallies").scalar_one()
            connection.exec_driver_sql("UPDATE tallies SET n = ?", (n + 1,))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(200)))

    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT n FROM tallies").scalar_one() == 200
    engine.dispose()


def test_a_url_of_another_database_is_refused():
    """
    Only SQLite can be opened as SQLite, and the refusal keeps the password.
    """
    with pytest.raises(ValueError, match="not a SQLite URL") as refused:
        sqlite_engine("postgresql://uns:secret@localhost/uns")

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("released_at", [0.0, 9.9, 10.0])
def test_a_lock_released_in_time_is_taken(connect, monkeypatch, released_at):
    """
    A holder that lets go before the patience ends, or as it ends, costs only the wait.
    """
    holder, waiting = connect(), connect()
    begin_immediate(holder)
    monkeypatch.setattr(sqlite, "time", Clock(released_at, holder.commit))

    begin_immediate(waiting)

    assert waiting.in_transaction


def test_a_lock_released_too_late_is_not_taken(connect, monkeypatch):
    """
    Given a holder that lets go just after the patience ended, then nothing was begun.
    """
    holder, waiting = connect(), connect()
    begin_immediate(holder)
    monkeypatch.setattr(sqlite, "time", clock := Clock(10.001, holder.commit))

    with pytest.raises(StoreUnavailable, match=r"^the database stayed locked for 10 s$"):
        begin_immediate(waiting)

    assert not waiting.in_transaction
    assert clock.now == pytest.approx(10, abs=0.001)


def test_others_are_told_of_a_wait(connect, monkeypatch):
    """
    Before each wait for the lock, and never where there is none.
    """
    holder, waiting = connect(), connect()
    waits = []
    begin_immediate(holder, waiting=lambda: waits.append(1))

    assert [] == waits
    monkeypatch.setattr(sqlite, "time", clock := Clock(0.002, holder.commit))
    begin_immediate(waiting, waiting=lambda: waits.append(1))
    assert len(clock.pauses) == len(waits) > 1


def test_the_waits_are_short_and_uneven(connect, monkeypatch):
    """
    The lock is asked for about every half millisecond, at moments that two waiters do not share.
    """
    holder, waiting = connect(), connect()
    begin_immediate(holder)
    monkeypatch.setattr(sqlite, "time", clock := Clock())

    with pytest.raises(StoreUnavailable):
        begin_immediate(waiting, patience_seconds=1)

    assert 0.00025 <= min(clock.pauses) < max(clock.pauses) <= 0.00075
    assert len(clock.pauses) == pytest.approx(2000, rel=0.1)


def test_without_patience_there_is_one_try(connect, monkeypatch):
    """
    A patience of zero asks once and waits for nothing.
    """
    holder, waiting = connect(), connect()
    begin_immediate(holder)
    monkeypatch.setattr(sqlite, "time", clock := Clock())

    with pytest.raises(StoreUnavailable, match="for 0 s"):
        begin_immediate(waiting, patience_seconds=0)
    holder.rollback()
    begin_immediate(waiting, patience_seconds=0)

    assert clock.pauses == []


def test_what_is_no_lock_is_not_waited_for(connect, monkeypatch):
    """
    A second BEGIN in a transaction is the caller's error and comes back at once.
    """
    connection = connect()
    begin_immediate(connection)
    monkeypatch.setattr(sqlite, "time", clock := Clock())

    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
        begin_immediate(connection)

    assert clock.pauses == []


def test_a_lock_met_through_sqlalchemy_is_waited_for(connect, path, monkeypatch):
    """
    The engine leaves locks as they are, for whoever can ask again.
    """
    engine = sqlite_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        holder = connect()
        begin_immediate(holder)
        monkeypatch.setattr(sqlite, "time", clock := Clock(1, holder.commit))

        patiently(lambda: connection.exec_driver_sql("CREATE TABLE tallies (n INTEGER NOT NULL)"))
    engine.dispose()

    assert clock.now >= 1


def test_a_file_that_is_locked_while_it_is_opened_is_waited_for(connect, path, monkeypatch):
    """
    Turning an empty file to WAL meets the lock of another process that does the same.
    """
    holder = connect()
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("CREATE TABLE tallies (n INTEGER NOT NULL)")
    monkeypatch.setattr(sqlite, "time", clock := Clock(1, holder.commit))

    engine = sqlite_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert tally(connection) == 0
    engine.dispose()

    assert clock.now >= 1


def missing_directory(path):
    return path.parent / "none" / "uns.db"


def directory(path):
    path.mkdir()
    return path


def no_database(path):
    path.write_text("This is a letter, and not a database. " * 100)
    return path


def damaged(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE tallies (n INTEGER NOT NULL)")
    connection.close()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 1000 + content[1100:])
    return path


def read_only(path):
    sqlite3.connect(path).close()
    path.touch()
    return f"file:{path}?mode=ro&uri=true"


FAULTY = [
    (missing_directory, "cannot be opened: its directory must exist, and this user may write there"),
    (directory, "cannot be opened: its directory must exist, and this user may write there"),
    (no_database, "is not a SQLite database: name another file or move this one away"),
    (damaged, "is damaged: restore it from a backup"),
    (read_only, "is read-only: let this user write to it and to its directory"),
]


@pytest.mark.parametrize(("faulty", "remedy"), FAULTY)
def test_a_file_that_cannot_serve_is_one_clear_sentence(path, faulty, remedy):
    """
    The sentence names the file and says what to do about it.
    """
    engine = sqlite_engine(f"sqlite:///{faulty(path)}")

    with pytest.raises(StoreUnavailable) as refused, engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE more (n INTEGER NOT NULL)")
    engine.dispose()

    assert str(refused.value).startswith("the database ")
    assert str(path.parent) in str(refused.value)
    assert str(refused.value).endswith(f" {remedy}")


def test_a_statement_that_meets_a_fault_says_what_to_do(engine):
    """
    A disk that is full at some later statement is told like one that is full at the first.
    """
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1")
        with pytest.raises(StoreUnavailable, match="cannot grow: make room on its disk"):
            connection.exec_driver_sql("CREATE TABLE more (n INTEGER NOT NULL)")


def test_a_faulty_statement_keeps_its_error(engine):
    """
    Only what a person must put right becomes StoreUnavailable; a faulty statement stays one.
    """
    with engine.connect() as connection, pytest.raises(sa.exc.OperationalError, match="no such table"):
        connection.exec_driver_sql("SELECT * FROM nowhere")


def test_a_faulty_url_keeps_its_error(path):
    """
    A fault of opening that is not the file's comes back as SQLAlchemy tells it.
    """
    engine = sqlite_engine(f"sqlite:///file:{path}?mode=sideways&uri=true")

    with pytest.raises(sa.exc.OperationalError, match="no such access mode: sideways"):
        engine.connect()


def test_a_disk_that_cannot_share_memory_is_refused(path):
    """
    Where WAL cannot be had, as on network disks, the file is refused rather than served badly.
    """
    engine = sqlite_engine(f"sqlite:///file:{path}?vfs=unix-none&uri=true")

    with pytest.raises(StoreUnavailable, match="cannot share memory: use a local disk"):
        engine.connect()
