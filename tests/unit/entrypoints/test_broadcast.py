"""
Which way signals take to other processes: Redis, PostgreSQL, or none.
"""

import sys

import pytest

from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.pubsub.envelope import Format
from uns.adapters.pubsub.relay import RelayPubSub
from uns.entrypoints.broadcast import Broadcast, choose_pubsub
from uns.ports.errors import Rejected

REDIS = "redis://user:s3cr3t@cache.example.org:6380/1"
POSTGRES = "postgresql+psycopg://user:s3cr3t@db.example.org/uns"
DIRECT = "postgresql://user:s3cr3t@direct.example.org:5433/uns"


@pytest.mark.parametrize(
    ("database", "broadcast", "told"),
    [
        ("sqlite:///uns.db", {}, None),
        ("sqlite:///uns.db", {"listen_url": DIRECT}, None),
        ("sqlite:///uns.db", {"redis_url": REDIS}, "Redis at cache.example.org:6380"),
        (POSTGRES, {}, "PostgreSQL at db.example.org"),
        (POSTGRES.replace("+psycopg", ""), {}, "PostgreSQL at db.example.org"),
        (POSTGRES, {"listen_url": DIRECT}, "PostgreSQL at direct.example.org:5433"),
        (POSTGRES, {"redis_url": REDIS}, "Redis at cache.example.org:6380"),
        (POSTGRES, {"redis_url": REDIS, "listen_url": DIRECT}, "Redis at cache.example.org:6380"),
    ],
)
def test_the_way_of_signals(database, broadcast, told):
    """
    Redis where there is one, else the database where it can, else the process; by a name without a
    password, and without a connection yet.
    """
    pubsub = choose_pubsub(database, Broadcast(**broadcast))

    assert told == (None if isinstance(pubsub, InProcessPubSub) else pubsub._wire.name)
    if told is not None:
        assert isinstance(pubsub, RelayPubSub)
        assert pubsub._thread is None
    pubsub.close()


def test_the_channels():
    """
    As they are documented; Redis's may be named otherwise.
    """
    redis = choose_pubsub("sqlite://", Broadcast(redis_url=REDIS))
    named = choose_pubsub("sqlite://", Broadcast(redis_url=REDIS, policy_channel="acme"))
    postgres = choose_pubsub(POSTGRES, Broadcast())

    assert Format(wake_channel="uns:signals", reload_channel="uns:policies:reload") == redis._wire.format
    assert Format(wake_channel="uns:signals", reload_channel="acme") == named._wire.format
    assert (
        Format(wake_channel="uns_signals", reload_channel="uns_policy_reload", bare_revision=True)
        == postgres._wire.format
    )


WRONG = [
    ("sqlite://", {"redis_url": "http://s3cr3t"}, "redis_url must begin with redis:// or rediss://"),
    ("sqlite://", {"redis_url": "redis://x:s3cr3t"}, "redis_url is not of the form redis://"),
    ("sqlite://", {"redis_url": "redis://x?s3cr3t=1"}, "redis_url is not of the form redis://"),
    (POSTGRES, {"listen_url": "s3cr3t"}, "listen_url is not of the form postgresql://"),
    (POSTGRES, {"listen_url": "redis://s3cr3t"}, "listen_url is not of the form postgresql://"),
    (POSTGRES, {"listen_url": "postgresql://x/y?s3cr3t=1"}, "listen_url is not of the form postgresql://"),
    ("postgresql://x:y/z?s3cr3t", {}, "database_url is not of the form postgresql://"),
]


@pytest.mark.parametrize(("database", "broadcast", "told"), WRONG)
def test_what_cannot_be_is_refused(database, broadcast, told):
    """
    By the name of what is wrong, before anything is connected, and not repeated.
    """
    with pytest.raises(Rejected) as refused:
        choose_pubsub(database, Broadcast(**broadcast))

    assert str(refused.value).startswith(told)
    assert told.split()[0] == refused.value.path
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize(
    ("module", "database", "broadcast", "path", "extra"),
    [
        ("redis.asyncio", "sqlite://", {"redis_url": REDIS}, "redis_url", "redis"),
        ("psycopg", POSTGRES, {}, "database_url", "postgres"),
        ("psycopg", POSTGRES, {"listen_url": DIRECT}, "listen_url", "postgres"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, module, database, broadcast, path, extra):
    """
    With the command that installs it.
    """
    monkeypatch.delitem(sys.modules, f"uns.adapters.pubsub.{extra}", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Rejected, match=rf"^{path} needs .*pip install 'uns\[{extra}\]'$"):
        choose_pubsub(database, Broadcast(**broadcast))
