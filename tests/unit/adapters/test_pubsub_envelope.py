"""
What signals look like between processes, and what is not taken for one.
"""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uns.adapters.pubsub.envelope import LIMIT_BYTES, MOST_BYTES, Format, Message, Told
from uns.ports.decision import Signal, SignalKind

POSTGRES_REFUSES = 8000
KINDS = [kind for kind in SignalKind if kind is not SignalKind.POLICIES]
FORMAT = Format(wake_channel="wakes", reload_channel="reloads")
BARE = Format(wake_channel="wakes", reload_channel="reloads", bare_revision=True)
UUID = "0190b3a1-7c1e-7000-8000-{:012x}"


def told(batch, format=FORMAT):
    """
    What others are told of a batch.
    """
    messages = format.write("me", batch)
    return [signal for message in messages for signal in format.read(message).signals]


@pytest.mark.parametrize("format", [FORMAT, BARE])
def test_what_is_written_is_read(format):
    """
    Each signal, from its origin; wake-ups in one message, the reload in another.
    """
    batch = {SignalKind.SETTLED: ("a", "b"), SignalKind.POLICIES: ("7",), SignalKind.DUE: ("",)}
    wake, reload = format.write("me", batch)
    due, settled = Signal(SignalKind.DUE, ""), [Signal(SignalKind.SETTLED, each) for each in "ab"]

    assert Told("me", (due, *settled)) == format.read(wake)
    assert (Signal(SignalKind.POLICIES, "7"),) == format.read(reload).signals
    assert ("wakes", "reloads") == (wake.channel, reload.channel)


def test_what_is_written():
    """
    Word for word: other versions read it.
    """
    batch = {SignalKind.SETTLED: ("a",), SignalKind.POLICIES: ("7",)}

    assert [
        Message("wakes", '{"version":1,"origin":"me","signals":{"settled":["a"]}}'),
        Message("reloads", '{"version":1,"origin":"me","revision":7}'),
    ] == FORMAT.write("me", batch)
    assert Message("reloads", "7") == BARE.write("me", batch)[1]
    assert [] == FORMAT.write("me", {})


@pytest.mark.parametrize("format", [FORMAT, BARE])
@pytest.mark.parametrize("revision", ["", "x", "-1", "7.0", "٣", "9" * 19])
def test_a_revision_that_is_none_is_a_hint(format, revision):
    """
    Others look for themselves.
    """
    assert [Signal(SignalKind.POLICIES, "")] == told({SignalKind.POLICIES: (revision,)}, format)


def test_as_many_as_a_message_holds_are_named():
    """
    190 ids of one kind are told by name; where two kinds do not fit, settlements are the last to
    lose their names: somebody waits for each.
    """
    ids = tuple(UUID.format(n) for n in range(190))

    assert [Signal(SignalKind.SETTLED, id) for id in ids] == told({SignalKind.SETTLED: ids})
    assert [Signal(SignalKind.DUE, ""), *(Signal(SignalKind.SETTLED, id) for id in ids)] == told(
        {SignalKind.DUE: ids, SignalKind.SETTLED: ids}
    )
    assert [Signal(SignalKind.SETTLED, "")] == told({SignalKind.SETTLED: ids * 2})


@given(st.dictionaries(st.sampled_from(KINDS), st.lists(st.text(max_size=3000), max_size=40).map(tuple)))
def test_no_message_is_too_long(batch):
    """
    B45: whatever the subjects are, a message is one that PostgreSQL takes, and tells every kind.
    """
    messages = FORMAT.write("0" * 32, batch)

    assert all(len(message.payload.encode()) <= LIMIT_BYTES < POSTGRES_REFUSES for message in messages)
    assert all("\0" not in message.payload for message in messages)
    for kind, subjects in batch.items():
        signals = [each for message in messages for each in FORMAT.read(message).signals if each.kind is kind]

        assert signals in ([Signal(kind, subject) for subject in subjects], [Signal(kind, "")])


def test_a_lone_surrogate_is_a_hint():
    """
    What no encoding has.
    """
    assert [Signal(SignalKind.SETTLED, "")] == told({SignalKind.SETTLED: ("\ud800",)})


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ("", "no envelope"),
        (b"\xff\xfe", "no envelope"),
        ("7", "no envelope"),
        ("null", "no envelope"),
        ("[]", "no envelope"),
        ("{}", "no envelope"),
        ('{"version":1}', "no envelope"),
        ('{"version":2,"revision":7}', "version"),
        ('{"version":"1","revision":7}', "version"),
        ('{"version":null,"revision":7}', "version"),
        ('{"version":true,"revision":7}', "no envelope"),
        ('{"revision":"7"}', "no envelope"),
        ('{"revision":7.5}', "no envelope"),
        ('{"revision":null}', "no envelope"),
        ('{"signals":{"due":["n1"]},"origin":"x"}', "no envelope"),
        ('{"version":1,"signals":{"due":"n1"},"origin":"x"}', "no envelope"),
        ('{"version":1,"signals":{"due":[1]},"origin":"x"}', "no envelope"),
        ('{"version":1,"signals":["due"],"origin":"x"}', "no envelope"),
        ("[" * 60_000, "no envelope"),
        ('{"version":' + "[" * 60_000, "no envelope"),
        ('{"revision":7' + " " * MOST_BYTES + "}", "longer"),
    ],
    ids=range(21),
)
@pytest.mark.parametrize("channel", ["wakes", "reloads"])
def test_garbage_is_refused(payload, why, channel):
    """
    On either channel, and the reason repeats none of it.
    """
    with pytest.raises(ValueError, match=why) as refused:
        FORMAT.read(Message(channel, payload))

    assert len(str(refused.value)) < 60


@pytest.mark.parametrize(
    "payload", ["", "x", "-1", "7.0", " 7", "7\n", "٣", '{"revision":7}', b"7", "9" * 19]
)
def test_a_bare_revision_is_a_whole_number(payload):
    """
    And nothing else.
    """
    with pytest.raises(ValueError, match="no revision"):
        BARE.read(Message("reloads", payload))


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ('{"revision":7}', Told("", (Signal(SignalKind.POLICIES, "7"),))),
        ('{"revision":7,"by":"ann","version":1}', Told("", (Signal(SignalKind.POLICIES, "7"),))),
        (b'{"revision":0,"origin":"x"}', Told("x", (Signal(SignalKind.POLICIES, ""),))),
        ('{"revision":-1}', Told("", (Signal(SignalKind.POLICIES, ""),))),
    ],
)
def test_a_reload_may_be_written_by_others(payload, told):
    """
    By hand, with the revision alone, or with more than we know of.
    """
    assert told == FORMAT.read(Message("reloads", payload))


def test_kinds_of_a_later_version_are_passed_over():
    """
    The others are heard. A reload is not told of among wake-ups.
    """
    signals = {"due": ["a"], "thawed": ["b"], "policies": ["7"]}
    payload = json.dumps({"version": 1, "origin": "x", "signals": signals})

    assert Told("x", (Signal(SignalKind.DUE, "a"),)) == FORMAT.read(Message("wakes", payload))


@given(
    st.binary()
    | st.text()
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(msgspec.json.encode)
)
def test_reading_raises_nothing_else(payload):
    """
    Whatever it is given.
    """
    for format in (FORMAT, BARE):
        for channel in ("wakes", "reloads"):
            try:
                format.read(Message(channel, payload))
            except ValueError:
                continue
