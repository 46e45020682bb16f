"""
Signals reach whoever listens, for as long as they listen, whatever becomes of the others.
"""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from uns.ports.decision import Signal, SignalKind

FIRST = (Signal(SignalKind.DUE, "n1"), Signal(SignalKind.SETTLED, "n2"))
SECOND = (Signal(SignalKind.POLICIES, "3"),)


def test_signals_reach_every_listener(pubsub):
    """
    Given two listeners, when signals are published, then each hears all of them, in order.
    """
    ann, bob = [], []
    pubsub.subscribe(ann.extend)
    pubsub.subscribe(bob.extend)
    pubsub.publish(FIRST)
    pubsub.publish(SECOND)

    assert [*FIRST, *SECOND] == ann
    assert [*FIRST, *SECOND] == bob


def test_signals_published_together_are_heard_together(pubsub):
    """
    Given the signals of one commit, then a listener is called once for all of them.
    """
    calls = []
    pubsub.subscribe(lambda signals: calls.append(tuple(signals)))
    pubsub.publish(FIRST)

    assert [FIRST] == calls


def test_what_was_published_before_is_not_heard(pubsub):
    """
    Given signals that nobody listened to, when somebody subscribes, then it hears only later ones.
    """
    heard = []
    pubsub.publish(FIRST)
    pubsub.subscribe(heard.extend)
    pubsub.publish(SECOND)

    assert [*SECOND] == heard


def test_a_listener_that_left_hears_nothing(pubsub):
    """
    Given two listeners, when one of them leaves, twice, then only the other hears what follows.
    """
    gone, still_there = [], []
    leave = pubsub.subscribe(gone.extend)
    pubsub.subscribe(still_there.extend)
    pubsub.publish(FIRST)
    leave()
    leave()
    pubsub.publish(SECOND)

    assert [*FIRST] == gone
    assert [*FIRST, *SECOND] == still_there


def test_a_listener_subscribed_twice_leaves_once(pubsub):
    """
    Given one listener with two subscriptions, when it ends one of them, then the other goes on.
    """
    heard = []
    listen = heard.extend
    pubsub.subscribe(listen)
    leave = pubsub.subscribe(listen)
    leave()
    pubsub.publish(SECOND)

    assert [*SECOND] == heard


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_failing_listener_hurts_nobody(pubsub, caplog, place):
    """
    Given a listener that raises, wherever it stands, when signals are published, then the publisher
    does not notice, the others hear them, and the log says what happened.
    """
    heard = [[], []]
    listeners = [heard[0].extend, heard[1].extend]
    listeners.insert(place, _raise)
    for listener in listeners:
        pubsub.subscribe(listener)
    with caplog.at_level(logging.ERROR):
        pubsub.publish(FIRST)
        pubsub.publish(SECOND)

    assert [[*FIRST, *SECOND]] * 2 == heard
    assert ["deaf", "deaf"] == [str(record.exc_info[1]) for record in caplog.records]


def _raise(_):
    raise ValueError("deaf")


def test_a_listener_may_leave_while_it_listens(pubsub):
    """
    Given a listener that leaves, and one that subscribes, when they are called, then everybody
    hears what is published at that moment, and the next publication finds the new order.
    """
    once, late, always = [], [], []

    def leave_at_once(signals):
        once.extend(signals)
        leave()
        pubsub.subscribe(late.extend)

    leave = pubsub.subscribe(leave_at_once)
    pubsub.subscribe(always.extend)
    pubsub.publish(FIRST)
    pubsub.publish(SECOND)

    assert ([*FIRST], [*SECOND], [*FIRST, *SECOND]) == (once, late, always)


def test_subscribing_from_many_threads_loses_nobody(pubsub):
    """
    Given threads that subscribe, publish and leave at once, then all who stay hear what follows.
    """
    start = threading.Barrier(8)
    heard = [[] for _ in range(8)]

    def come_and_go(n):
        start.wait()
        for _ in range(50):
            pubsub.subscribe(lambda _: None)()
            pubsub.publish(FIRST)
        pubsub.subscribe(heard[n].extend)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(come_and_go, range(8)))
    pubsub.publish(SECOND)

    assert all([*SECOND] == each[-1:] for each in heard)


def test_a_closed_one_is_heard_where_it_is(pubsub):
    """
    Given one that was closed, twice, then publishing still raises nothing, and listeners of the
    same process hear.
    """
    heard = []
    pubsub.subscribe(heard.extend)
    pubsub.close()
    pubsub.close()
    pubsub.publish(FIRST)

    assert [*FIRST] == heard


def test_nothing_published_is_nothing_heard(pubsub):
    """
    Given a commit without a signal, then publishing it raises nothing.
    """
    heard = []
    pubsub.subscribe(heard.extend)
    pubsub.publish(())

    assert [] == heard
