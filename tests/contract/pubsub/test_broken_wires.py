"""
B46: a wire that breaks is mended, and whoever may have missed something looks again.
"""

import logging
import os
import time
from contextlib import closing, contextmanager
from statistics import quantiles

import pytest

from kit.carriers import BRISK, Heard, opened, redis_carrier
from kit.waiting import soon
from uns.adapters.pubsub.postgres import postgres_pubsub
from uns.adapters.pubsub.redis import redis_pubsub
from uns.adapters.pubsub.relay import LOOK_AGAIN
from uns.ports.decision import Signal, SignalKind

FIRST = Signal(SignalKind.SETTLED, "n1")
SECOND = Signal(SignalKind.SETTLED, "n2")
MILLISECOND = 0.001


def test_a_listener_that_was_cut_off_looks_again(carrier, open_pubsub):
    """
    Given two, when the server ends what both listen on, then both are told to look, by themselves,
    and hear each other as before.
    """
    ann, bob = open_pubsub(), open_pubsub()
    hers, his = Heard(ann), Heard(bob)

    assert 2 == carrier.cut()
    hers.looks_again()
    his.looks_again()
    ann.publish([FIRST])
    bob.publish([SECOND])
    soon(lambda: len(hers) == len(his) == 2)

    assert [FIRST, SECOND] == sorted(hers, key=str) == sorted(his, key=str)


def test_every_loss_is_mended(carrier, open_pubsub):
    """
    Given one that is cut off again and again, then it looks again each time.
    """
    heard = Heard(open_pubsub())
    for _ in range(5):
        assert 1 == carrier.cut()
        heard.looks_again()


def test_a_silent_death_is_noticed(carrier, caplog):
    """
    Given a server that holds the connections and says nothing, then they are taken for dead, idle or
    not; and once somebody speaks again, listeners look again and hear each other.
    """
    with caplog.at_level(logging.WARNING, "uns"), opened(carrier, BRISK) as open_pubsub:
        ann, bob = open_pubsub(), open_pubsub()
        hers, his = Heard(ann), Heard(bob)
        with carrier.mute():
            ann.publish([FIRST])
            soon(lambda: 2 == sum("not connected" in line for line in caplog.messages))
            hers.remove(FIRST)
        soon(lambda: set(LOOK_AGAIN) <= set(hers) & set(his))
        bob.publish([SECOND])
        soon(lambda: SECOND in hers)


def test_an_idle_link_is_left_alone(carrier, caplog):
    """
    Given a link that is asked several times whether it lives, then nobody is told to look, and the
    log has nothing.
    """
    with caplog.at_level(logging.INFO), opened(carrier, BRISK) as open_pubsub:
        ann, bob = open_pubsub(), open_pubsub()
        heard = Heard(bob)
        Heard(ann)
        time.sleep(4 * BRISK.quiet)
        ann.publish([FIRST])
        soon(lambda: heard)

        assert [FIRST] == heard
    assert [] == [record.message for record in caplog.records if "uns" in record.name]


GARBAGE = {
    "nothing": "",
    "word": "reload",
    "bytes": b"\xff\xfe\x00",
    "broken": '{"version":1,',
    "null": "null",
    "list": "[1,2]",
    "empty": "{}",
    "foreign": '{"event":"policy","revision":"seven"}',
    "version": '{"version":2,"origin":"x","revision":7,"signals":{"due":[""]}}',
    "no-version": '{"version":null,"origin":"x","revision":7,"signals":{"due":[""]}}',
    "subject": '{"version":1,"origin":"x","signals":{"due":[7]}}',
    "deep": "[" * 3000,
    "deep-version": '{"version":' + "[" * 3000,
    "long": "9" * 7000,
}


@pytest.mark.parametrize("channel", ["wake_channel", "reload_channel"])
def test_garbage_is_ignored_with_one_line(carrier, open_pubsub, caplog, channel):
    """
    Given all kinds of garbage, then nobody hears of it, the link stays, and the log has one line that
    repeats none of it.
    """
    ann, bob = open_pubsub(), open_pubsub()
    heard = Heard(bob)
    Heard(ann)
    with caplog.at_level(logging.DEBUG, "uns"):
        for payload in GARBAGE.values():
            carrier.shout(getattr(carrier, channel), payload)
        ann.publish([FIRST])
        soon(lambda: FIRST in heard)
    lines = [record.message for record in caplog.records if record.levelno >= logging.WARNING]

    assert [FIRST] == heard
    assert 2 == len(lines), lines  # one for each of the two
    assert all(getattr(carrier, channel) in line and "ignored" in line for line in lines)
    assert not any(word in line for word in ("seven", "reload,", "[[") for line in lines)


def test_a_reload_that_others_announce_is_heard(carrier, open_pubsub):
    """
    Given an announcement by a transaction, or by an operator's own client, then it is heard once.
    """
    heard = Heard(open_pubsub())
    text = "7" if carrier.reload_channel == "uns_policy_reload" else '{"revision":7}'
    for _ in range(2):
        carrier.shout(carrier.reload_channel, text)
    carrier.shout(carrier.reload_channel, text.replace("7", "6"))
    soon(lambda: len(heard) >= 2)

    assert [Signal(SignalKind.POLICIES, "7"), Signal(SignalKind.POLICIES, "6")] == heard


def test_redis_may_stop_and_start():
    """
    Given a Redis that stops, when signals are published without it, then listeners of the same
    process hear; and once it is back, others look again, and hear what waited.
    """
    with redis_carrier() as carrier, opened(carrier) as open_pubsub:
        ann, bob = open_pubsub(), open_pubsub()
        hers, his = Heard(ann), Heard(bob)
        for _ in range(2):
            carrier.server.stop()
            ann.publish([FIRST])

            assert [FIRST] == hers
            carrier.server.start()
            his.looks_again()
            hers.looks_again()
            bob.publish([SECOND])
            soon(lambda: SECOND in hers)
            hers.clear()


def test_a_process_may_start_before_redis(caplog):
    """
    Given no server yet, then nothing fails, the log says so once, and it is found when it is there.
    """
    with redis_carrier() as carrier, caplog.at_level(logging.WARNING):
        carrier.server.stop()
        with opened(carrier) as open_pubsub:
            pubsub, heard = open_pubsub(), []
            pubsub.subscribe(heard.extend)
            soon(lambda: pubsub._failures > 3)
            carrier.server.start()
            soon(lambda: heard)

    assert 1 == len(caplog.records)
    assert f"Redis at 127.0.0.1:{carrier.server.port}: not connected" in caplog.records[0].message


@contextmanager
def reachable():
    with redis_carrier() as carrier:
        yield carrier


@contextmanager
def stopped():
    with redis_carrier() as carrier:
        carrier.server.stop()
        yield carrier


@contextmanager
def silent():
    with redis_carrier() as carrier, carrier.mute():
        yield carrier


@pytest.mark.parametrize("server", [reachable, stopped, silent])
def test_publishing_takes_no_time(server):
    """
    Given a server that is there, that is down, or that says nothing, when signals are published from
    the first on, then that takes less than a millisecond, and 0.1 ms at most times.
    """
    with server() as carrier, closing(carrier.pubsub()) as pubsub:
        took = []
        for n in range(2000):
            began = time.perf_counter()
            pubsub.publish([Signal(SignalKind.DUE, f"n{n}"), Signal(SignalKind.SETTLED, f"n{n}")])
            took.append(time.perf_counter() - began)
        half, most = quantiles(took, n=20)[9], quantiles(took, n=20)[18]

    assert MILLISECOND > most
    assert MILLISECOND / 10 > half
    assert 256 >= max(map(len, pubsub._outbox.take().values()), default=0)


@pytest.mark.parametrize("server", [stopped, silent])
def test_leaving_a_server_that_does_not_answer_takes_no_time(server):
    """
    Given signals that cannot be sent, when the process ends, then it does not wait for them.
    """
    with server() as carrier:
        pubsub = carrier.pubsub()
        pubsub.publish([FIRST])
        began = time.monotonic()
        pubsub.close()

    assert 2 > time.monotonic() - began
    assert pubsub._thread is not None
    assert not pubsub._thread.is_alive()


def test_no_thread_before_it_is_needed(open_pubsub):
    """
    Given one that nobody publishes on or listens to, then it has no thread, and no connection.
    """
    assert open_pubsub()._thread is None


def test_no_password_is_told(carrier, caplog):
    """
    Given a wrong password, then the log says what is wrong without it.
    """
    url = carrier.url.replace("://uns@", "://").replace("://", "://someone:s3cr3t@")
    with caplog.at_level(logging.DEBUG):
        open_pubsub = redis_pubsub if url.startswith("redis") else postgres_pubsub
        with closing(open_pubsub(url)) as pubsub:
            pubsub.subscribe(lambda _: None)
            soon(lambda: pubsub._failures)
    (line,) = [record.message for record in caplog.records if record.name.startswith("uns")]

    assert "not connected" in line
    assert not any("s3cr3t" in record.getMessage() for record in caplog.records)


def test_nothing_stays_open(open_pubsub):
    """
    Given one that was closed, then none of its descriptors is left.
    """
    before = set(os.listdir("/proc/self/fd"))
    pubsub = open_pubsub()
    Heard(pubsub)
    pubsub.publish([FIRST])
    pubsub.close()

    assert before == set(os.listdir("/proc/self/fd"))
