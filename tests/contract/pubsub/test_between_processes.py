"""
What one process publishes, the others hear: each signal at most once, in few and short messages.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.carriers import Heard
from kit.children import echo_signals
from kit.processes import Child
from kit.waiting import soon
from uns.ports.decision import Signal, SignalKind

EACH_KIND = [Signal(kind, "7") for kind in SignalKind]


def test_others_hear_what_one_publishes(open_pubsub):
    """
    Given three, when one publishes a signal of each kind, then both others hear each, once.
    """
    ann, bob, eve = open_pubsub(), open_pubsub(), open_pubsub()
    heard = [Heard(bob), Heard(eve)]
    ann.publish(EACH_KIND)
    for each in heard:
        soon(lambda each=each: len(each) >= len(EACH_KIND))

        assert sorted(EACH_KIND, key=str) == sorted(each, key=str)


def test_nobody_hears_an_echo(open_pubsub):
    """
    Given two, when one publishes and then hears the other, then it has heard its own signals once:
    what comes later on a wire has overtaken nothing.
    """
    ann, bob = open_pubsub(), open_pubsub()
    hers, his = Heard(ann), Heard(bob)
    ann.publish(EACH_KIND)
    soon(lambda: len(his) == len(EACH_KIND))
    bob.publish([Signal(SignalKind.SETTLED, "last"), Signal(SignalKind.POLICIES, "8")])
    soon(lambda: Signal(SignalKind.POLICIES, "8") in hers)

    assert [*EACH_KIND, Signal(SignalKind.SETTLED, "last"), Signal(SignalKind.POLICIES, "8")] == hers


def test_another_process_hears_and_is_heard(carrier, open_pubsub):
    """
    Given another process that answers what it hears, when this one publishes, then it is answered.
    """
    pubsub = open_pubsub()
    heard = Heard(pubsub)
    child = Child(echo_signals, type(carrier).__name__, carrier.url)
    soon(lambda: Signal(SignalKind.CALLBACK, "listening") in heard, seconds=20)
    pubsub.publish([Signal(SignalKind.DUE, "ping")])
    soon(lambda: Signal(SignalKind.SETTLED, "pong") in heard)

    assert ["ping"] == child.result()


@pytest.mark.parametrize(
    "subject", ["ä" * 2500, "\0" * 900, "\U0001f514" * 1900, '"' * 3000, "\ud800"], ids=ascii
)
def test_no_subject_is_too_strange(open_pubsub, subject):
    """
    Given a subject that is long, or that no encoding has, then others hear of it, by name or not.
    """
    ann, bob = open_pubsub(), open_pubsub()
    heard = Heard(bob)
    ann.publish([Signal(SignalKind.SETTLED, subject)])
    soon(lambda: heard)

    assert heard in ([Signal(SignalKind.SETTLED, subject)], [Signal(SignalKind.SETTLED, "")])


def test_a_storm_is_told_in_few_messages(open_pubsub):
    """
    B45: given thousands of signals within a moment, then others are told of each, or to look; not
    more than once in 20 ms, and in no message that is refused.
    """
    ann, bob = open_pubsub(), open_pubsub()
    calls, heard = [], Heard(bob)
    bob.subscribe(lambda signals: calls.append(time.monotonic()))
    began = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        for n in range(4):
            threads.submit(_publish, ann, [f"{n}-{i:034}" for i in range(1500)])
    took = time.monotonic() - began
    ann.publish([Signal(SignalKind.CALLBACK, "last")])
    # By name, or not if the rest of the storm fills its message.
    last = {Signal(SignalKind.CALLBACK, subject) for subject in ("last", "")}
    soon(lambda: not last.isdisjoint(heard))
    due, settled = (
        [each.subject for each in heard if each.kind is kind]
        for kind in SignalKind
        if kind in ("due", "settled")
    )

    assert 3 + took / 0.02 >= len(calls)
    assert "" in due or 6000 == len(set(due))
    assert "" in settled or 6000 == len(set(settled))


def _publish(pubsub, subjects):
    for subject in subjects:
        pubsub.publish([Signal(SignalKind.DUE, subject), Signal(SignalKind.SETTLED, subject)])


def test_the_last_signals_of_a_process_are_not_lost(open_pubsub):
    """
    Given a process that publishes and ends at once, as commands do, then others hear of it.
    """
    heard = Heard(open_pubsub())
    brief = open_pubsub()
    brief.publish([Signal(SignalKind.DUE, "n1")])
    brief.close()
    soon(lambda: heard)

    assert [Signal(SignalKind.DUE, "n1")] == heard
