"""
A relay: what it sends and when, what it passes on, and how it comes back.
"""

import asyncio
import json
import logging
import threading
import time as real_time

import msgspec
import pytest

from kit.waiting import soon
from kit.wires import PACE, ScriptedWire, Time, connected, relay
from uns.adapters.pubsub.relay import COMPLAINT_SECONDS, LOOK_AGAIN, RelayPubSub
from uns.adapters.pubsub.wire import Pace
from uns.ports.decision import Signal, SignalKind

DUE = Signal(SignalKind.DUE, "n1")
SETTLED = Signal(SignalKind.SETTLED, "n2")
REVISION = Signal(SignalKind.POLICIES, "7")
LAST = Signal(SignalKind.CALLBACK, "last")


def wake(*signals, origin="other", version=1):
    named = {kind: [each.subject for each in signals if each.kind is kind] for kind in SignalKind}
    present = {kind: subjects for kind, subjects in named.items() if subjects}
    return json.dumps({"version": version, "origin": origin, "signals": present})


def subjects_of(messages):
    return [json.loads(each.payload)["signals"] for each in messages if each.channel == "wakes"]


def test_a_new_link_has_listeners_look():
    """
    Given somebody who listens, when there is a connection, the first one too, then one signal of each
    kind, for anything, is told.
    """
    wire = ScriptedWire()
    with relay(wire) as (_, heard):
        soon(lambda: heard)

        assert [Signal(kind, "") for kind in SignalKind] == [*LOOK_AGAIN] == heard
        for links in (2, 3):
            connected(wire, heard, links - 1).cut()
            soon(lambda: heard)

            assert [*LOOK_AGAIN] == heard
    assert all(link.closed for link in wire.links)


@pytest.mark.parametrize(("chance", "part"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_pauses_grow_within_bounds(chance, part):
    """
    Each is twice as long as the one before, up to the longest; of that, half to all, by chance.
    """
    wire, time = ScriptedWire(refuses=9), Time(chance)
    with relay(wire, time) as (_, heard):
        connected(wire, heard)
    full = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]

    assert pytest.approx([part * pause for pause in full]) == time.pauses


@pytest.mark.parametrize(("lasted", "pause"), [(0.0, 0.2), (4.999, 0.2), (5.0, 0.05), (5.001, 0.05)])
def test_a_link_that_lasted_is_soon_replaced(lasted, pause):
    """
    Given two refusals and then a link, when that breaks, then the next pause is the first again only
    if it stood as long as the longest.
    """
    wire, time = ScriptedWire(refuses=2), Time()
    with relay(wire, time) as (_, heard):
        link = connected(wire, heard)
        time.now += lasted
        link.cut()
        connected(wire, heard, 2)

    assert pytest.approx([0.05, 0.1, pause]) == time.pauses


def test_a_connection_that_never_comes_is_given_up():
    """
    Given a server that answers nothing, then there is another attempt.
    """

    class Hanging(ScriptedWire):
        attempts = 0

        async def connect(self):
            self.attempts += 1
            if self.attempts == 1:
                await asyncio.sleep(60)
            return await super().connect()

    wire = Hanging()
    with relay(wire, pace=Pace(connect=0.05)) as (_, heard):
        connected(wire, heard)


def test_signals_within_a_moment_share_a_message():
    """
    Given a message that was just sent, when many signals are published within the next 20 ms, then
    they are sent in one, each once.
    """
    wire, time = ScriptedWire(), Time()
    with relay(wire, time) as (pubsub, heard):
        link = connected(wire, heard)
        with time.held():
            pubsub.publish([DUE])
            soon(lambda: link.sent)
            for n in range(100):
                pubsub.publish([Signal(SignalKind.SETTLED, f"n{n}"), DUE])
            real_time.sleep(0.05)

            assert [{"due": ["n1"]}] == subjects_of(link.sent)
        soon(lambda: len(link.sent) > 1)

    assert [{"due": ["n1"]}, {"due": ["n1"], "settled": [f"n{n}" for n in range(100)]}] == subjects_of(
        link.sent
    )


def test_the_pause_between_messages_is_what_was_asked_for():
    """
    In real time: 20 ms, not more than once.
    """
    wire = ScriptedWire()
    pubsub = RelayPubSub(wire, PACE)
    began = real_time.monotonic()
    for n in range(400):
        pubsub.publish([Signal(SignalKind.SETTLED, f"n{n}")])
        real_time.sleep(0.0005)
    pubsub.close()
    took = real_time.monotonic() - began

    assert 1 + took / PACE.send_every >= len(wire.sent) > 1
    assert [f"n{n}" for n in range(400)] == [id for each in subjects_of(wire.sent) for id in each["settled"]]


def test_what_could_not_be_sent_waits():
    """
    Given a link that does not send, then the next one sends what it should have, and nothing twice.
    """
    wire = ScriptedWire(cannot_send=1)
    with relay(wire) as (pubsub, heard):
        connected(wire, heard)
        pubsub.publish([DUE, SETTLED])
        soon(lambda: wire.sent)
        pubsub.publish([LAST])
        soon(lambda: len(wire.sent) > 1)

    assert [{"due": ["n1"], "settled": ["n2"]}, {"callback": ["last"]}] == subjects_of(wire.sent)


def test_what_is_published_without_a_link_waits_in_bounds():
    """
    Given no connection for long, then of many signals of one kind a hint is left.
    """
    wire = ScriptedWire(refuses=10**9)
    with relay(wire) as (pubsub, heard):
        for n in range(10_000):
            pubsub.publish([Signal(SignalKind.SETTLED, f"n{n}"), Signal(SignalKind.DUE, f"n{n % 9}")])
        wire.refuses = 0
        soon(lambda: wire.sent)

    assert 20_000 == len(heard) - len(LOOK_AGAIN)
    assert [{"due": [f"n{n}" for n in range(9)], "settled": [""]}] == subjects_of(wire.sent)


def test_an_echo_is_not_heard():
    """
    Given a wire on which everybody hears themselves, then what comes back is not told again.
    """
    wire = ScriptedWire()
    with relay(wire) as (pubsub, heard):
        link = connected(wire, heard)
        pubsub.publish([DUE, REVISION])
        soon(lambda: len(link.sent) == 2)
        for message in link.sent:
            link.say(message.channel, message.payload)
        link.say("wakes", wake(LAST))
        soon(lambda: LAST in heard)

    assert [DUE, REVISION, LAST] == heard


def test_what_others_say_is_heard_together():
    """
    Given one message of another process, then listeners are called once.
    """
    wire, calls = ScriptedWire(), []
    with relay(wire) as (pubsub, heard):
        link = connected(wire, heard)
        pubsub.subscribe(calls.append)
        link.say("wakes", wake(DUE, SETTLED, LAST))
        soon(lambda: calls)

    assert [(DUE, SETTLED, LAST)] == calls


def test_a_reload_is_told_once():
    """
    Given a reload that is announced twice, by the transaction and after it, or that is this process's
    own, then it is told once; another revision is told, though it be lower; and after a connection
    was lost nothing is known any more.
    """
    wire = ScriptedWire()
    with relay(wire) as (pubsub, heard):
        link = connected(wire, heard)
        for revision in (7, 7, 8, 8, 6):
            link.say("reloads", f'{{"revision":{revision}}}')
        soon(lambda: len(heard) == 3)
        pubsub.publish([Signal(SignalKind.POLICIES, "9")])
        link.say("reloads", '{"revision":9}')
        link.cut()
        soon(lambda: [*LOOK_AGAIN] == heard[-len(LOOK_AGAIN) :])

        assert ["7", "8", "6", "9"] == [each.subject for each in heard[: -len(LOOK_AGAIN)]]
        link = connected(wire, heard, 2)
        link.say("reloads", '{"revision":9}')
        soon(lambda: heard)

        assert [Signal(SignalKind.POLICIES, "9")] == heard


def test_a_reload_without_a_revision_is_always_told():
    """
    Given reloads that name none, then each is told as a hint.
    """
    wire = ScriptedWire()
    with relay(wire) as (_, heard):
        link = connected(wire, heard)
        for _ in range(2):
            link.say("reloads", '{"revision":0}')
        soon(lambda: len(heard) == 2)

    assert [Signal(SignalKind.POLICIES, "")] * 2 == heard


def test_complaints_are_few(caplog):
    """
    Given much garbage, then a line is written, and another one a minute later, which counts all.
    """
    wire, time = ScriptedWire(), Time()
    with caplog.at_level(logging.WARNING), relay(wire, time) as (_, heard):
        link = connected(wire, heard)
        for after, lines in ((0, 1), (COMPLAINT_SECONDS - 0.001, 1), (0.001, 2)):
            time.now += after
            for _ in range(3):
                link.say("wakes", "garbage")
            link.say("wakes", wake(LAST))
            soon(lambda: heard)
            heard.clear()

            assert lines == len(caplog.messages)
    assert [1, 7] == [record.args[-1] for record in caplog.records]


def test_an_outage_is_told_once(caplog):
    """
    Given a link that breaks, and many refusals, then one line says so, one line long, and one that it
    is over.
    """
    wire = ScriptedWire()
    with caplog.at_level(logging.INFO), relay(wire) as (_, heard):
        link = connected(wire, heard)
        wire.refuses = 5
        link.cut()
        connected(wire, heard, 2)

    assert [
        "the wire: not connected, trying again: Broken: was cut",
        "the wire: connected again",
    ] == caplog.messages


def test_leaving_sends_what_waits():
    """
    Given signals within the pause between two messages, when the relay is closed, then they are sent.
    """
    wire = ScriptedWire()
    with relay(wire) as (pubsub, heard):
        connected(wire, heard)
        pubsub.publish([DUE])
        pubsub.publish([SETTLED])

    assert [DUE.subject, SETTLED.subject] == [
        id for each in subjects_of(wire.sent) for ids in each.values() for id in ids
    ]
    assert [True] == [link.closed for link in wire.links]


def test_leaving_twice_and_at_once():
    """
    Given one that was never used, or has just started, then closing it, again too, ends it.
    """
    for use in (lambda _: None, lambda pubsub: pubsub.subscribe(print)):
        wire = ScriptedWire()
        pubsub = RelayPubSub(wire, PACE)
        use(pubsub)
        pubsub.close()
        pubsub.close()
        pubsub.publish([DUE])
        pubsub.subscribe(print)()

        assert not any(link.sent or not link.closed for link in wire.links)
        assert pubsub._thread is None or not pubsub._thread.is_alive()


def test_a_listener_may_close_it():
    """
    Given a listener that closes what it listens to, in its thread, then that ends.
    """
    wire = ScriptedWire()
    pubsub = RelayPubSub(wire, PACE)
    pubsub.subscribe(lambda _: pubsub.close())
    soon(lambda: wire.links and wire.links[0].closed)
    pubsub._thread.join(5)

    assert not pubsub._thread.is_alive()


def test_a_listener_may_publish():
    """
    Given a listener that publishes on what it hears, in the relay's own thread, then others hear it.
    """
    wire = ScriptedWire()
    with relay(wire) as (pubsub, heard):
        link = connected(wire, heard)
        pubsub.subscribe(lambda signals: pubsub.publish([LAST]) if DUE in signals else None)
        link.say("wakes", wake(DUE))
        soon(lambda: link.sent)

    assert [{"callback": ["last"]}] == subjects_of(link.sent)


def test_there_is_one_thread_for_many_publishers():
    """
    Given thirty threads that publish first, at once, then one connection is made.
    """
    wire = ScriptedWire()
    pubsub = RelayPubSub(wire, PACE)
    start = threading.Barrier(30)

    def publish(n):
        start.wait()
        pubsub.publish([Signal(SignalKind.SETTLED, f"n{n}")])

    threads = [threading.Thread(target=publish, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pubsub.close()

    assert 1 == len(wire.links)
    assert {f"n{n}" for n in range(30)} == {id for each in subjects_of(wire.sent) for id in each["settled"]}


def test_no_thread_to_be_had_is_no_error(monkeypatch, caplog):
    """
    Given a system that is out of threads, then publishing goes on, and the next call tries again.
    """
    wire, heard = ScriptedWire(), []
    pubsub = RelayPubSub(wire, PACE)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", _no_thread)
        pubsub.subscribe(heard.append)
        pubsub.publish([DUE])

    assert [[DUE]] == heard
    assert "the wire cannot be listened to" in caplog.messages
    pubsub.publish([SETTLED])
    pubsub.close()

    assert [{"due": ["n1"], "settled": ["n2"]}] == subjects_of(wire.sent)


def _no_thread(_):
    raise RuntimeError("can't start new thread")


def test_the_envelope_of_a_reload():
    """
    A version, where it is from, and the revision: what others may read, and write.
    """
    wire = ScriptedWire()
    with relay(wire) as (pubsub, heard):
        link = connected(wire, heard)
        pubsub.publish([REVISION])
        soon(lambda: link.sent)
    (message,) = link.sent

    assert "reloads" == message.channel
    assert {"version": 1, "origin": pubsub._origin, "revision": 7} == msgspec.json.decode(message.payload)
