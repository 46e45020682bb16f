"""
Keys for development, and what is said of them.
"""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from uns.entrypoints.cli.dev import Keys, dev_keys, welcome
from uns.entrypoints.cli.exits import Failed
from uns.entrypoints.settings import KEYS

VARIABLES = {key for key, _ in KEYS.values()}


@pytest.fixture
def database(tmp_path):
    return tmp_path / "uns.db"


def test_keys_are_made_once(database):
    """
    Given keys beside a database, when they are asked for again, then they are those that were made.
    """
    first, second = dev_keys(database), dev_keys(database)

    assert (True, False) == (first.fresh, second.fresh)
    assert VARIABLES == set(first.values)
    assert first.values == second.values


def test_no_two_databases_have_the_same_keys(tmp_path):
    """
    Keys are drawn, not derived.
    """
    keys = [dev_keys(tmp_path / name).values for name in ("a.db", "b.db")]

    assert 8 == len({value for values in keys for value in values.values()})


def test_services_that_start_at_once_have_the_same_keys(database):
    """
    When several services start in a fresh folder, then one makes the keys, and all use them.
    """
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(dev_keys, [database] * 16))

    assert 1 == sum(keys.fresh for keys in found)
    assert 1 == len({tuple(keys.values.items()) for keys in found})
    assert [found[0].file] == list(database.parent.iterdir())


def test_the_file_is_its_owners_alone_whatever_the_mask(database):
    """
    Given a process whose new files everybody may read, when it makes keys, then nobody else may.
    """
    before = os.umask(0)
    try:
        file = dev_keys(database).file
    finally:
        os.umask(before)

    assert 0o600 == stat.S_IMODE(file.stat().st_mode)


def test_a_database_in_memory_keeps_no_keys(tmp_path, monkeypatch):
    """
    Where nothing is kept, keys are not kept either.
    """
    monkeypatch.chdir(tmp_path)
    keys = dev_keys(None)

    assert (None, True) == (keys.file, keys.fresh)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"UNS_API_KEY": 1}', b'{"UNS_API_KEY": "k", "UNS_PORT": "1"}', b"\xff"]
)
def test_a_file_of_something_else_is_told(database, content):
    """
    When the file was spoilt, then the start says which, and what to do.
    """
    file = database.with_name("uns.db.dev-credentials.json")
    file.write_bytes(content)
    with pytest.raises(Failed, match="delete it, and new ones are made") as told:
        dev_keys(database)

    assert str(file) in str(told.value)


def test_a_file_that_cannot_be_made_is_told(tmp_path):
    """
    When the folder is not there, then the start says so.
    """
    with pytest.raises(Failed, match=r"cannot be kept in .*: No such file or directory"):
        dev_keys(tmp_path / "nowhere" / "uns.db")


@pytest.mark.parametrize("fresh", [True, False])
def test_keys_are_shown_only_when_they_are_made(tmp_path, fresh):
    """
    The welcome shows fresh keys, and names the file of known ones.
    """
    keys = Keys(values={name: f"k-{name}" for name in VARIABLES}, file=tmp_path / "k.json", fresh=fresh)
    shown = welcome("http://localhost", "/uns.db", keys)

    assert str(tmp_path / "k.json") in shown
    assert fresh == all(value in shown for value in keys.values.values())
    assert fresh == any(value in shown for value in keys.values.values())
