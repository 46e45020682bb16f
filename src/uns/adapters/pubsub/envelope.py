"""
What signals look like between processes.

Wake-ups are one JSON object for many signals; a policy reload has a message and a channel of its own,
which others than uns may listen to, and publish on. What is read was written by anybody.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from msgspec import Struct

from uns.adapters.pubsub.outbox import Batch
from uns.ports.decision import Signal, SignalKind

POLICY_CHANNEL = "uns:policies:reload"
"""Where Redis carries reloads, unless told otherwise."""

VERSION = 1
LIMIT_BYTES = 7_900
"""Of a message we write. PostgreSQL refuses a NOTIFY of 8,000 bytes, and with it what it announces."""

MOST_BYTES = 65_536
"""Of a message that is worth reading."""

_YIELDING = (SignalKind.DUE, SignalKind.CALLBACK, SignalKind.ANSWERED, SignalKind.SETTLED)
"""Which kinds lose their subjects first: the last are those that somebody waits for by subject."""

_REVISION = re.compile(r"[0-9]{1,18}")
_KINDS = {kind.value: kind for kind in _YIELDING}

T = TypeVar("T")


class Message(Struct, frozen=True, gc=False):
    """
    A payload on its channel.
    """

    channel: str
    payload: str | bytes


class Told(Struct, frozen=True):
    """
    What a message says, and which process it is from; the empty origin is nobody's.
    """

    origin: str
    signals: tuple[Signal, ...]


class WakeEnvelope(Struct, frozen=True):
    """
    Subjects by kind.
    """

    version: int
    origin: str
    signals: dict[str, list[str]]


class PolicyReloadEnvelope(Struct, frozen=True, kw_only=True):
    """
    Which revision of the policies came into force. 0 is one that was not named.
    """

    version: int = VERSION
    origin: str = ""
    revision: int


class Format(Struct, frozen=True, kw_only=True):
    """
    The channels, and how a reload is written: in its envelope, or as the bare revision.
    """

    wake_channel: str
    reload_channel: str
    bare_revision: bool = False

    def write(self, origin: str, batch: Batch) -> list[Message]:
        """
        One message of wake-ups and one of a reload, at most; none is longer than ``LIMIT_BYTES``.
        """
        wakes = {kind: batch[kind] for kind in _YIELDING if kind in batch}
        messages = [Message(self.wake_channel, _wake(origin, wakes))] if wakes else []
        for subject in batch.get(SignalKind.POLICIES, ())[-1:]:
            revision = int(subject) if _REVISION.fullmatch(subject) else 0
            reload = PolicyReloadEnvelope(origin=origin, revision=revision)
            payload = str(revision) if self.bare_revision else msgspec.json.encode(reload).decode()
            messages.append(Message(self.reload_channel, payload))
        return messages

    def read(self, message: Message) -> Told:
        """
        What another process, or anybody, meant.

        Raises:
            ValueError: nothing that we know; the text says why, and repeats none of it.
        """
        if len(message.payload) > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES} bytes")
        if message.channel != self.reload_channel:
            return _woken(_known(message.payload, WakeEnvelope))
        if self.bare_revision:
            return _reloaded(PolicyReloadEnvelope(revision=_revision(message.payload)))
        return _reloaded(_known(message.payload, PolicyReloadEnvelope))


def _wake(origin: str, wakes: Batch) -> str:
    signals = {kind: list(subjects) for kind, subjects in wakes.items()}
    for kind in (None, *_YIELDING):
        if kind in signals:
            signals[kind] = [""]
        payload = _encoded(WakeEnvelope(VERSION, origin, {kind.value: signals[kind] for kind in signals}))
        if payload is not None:
            return payload
    raise AssertionError("hints alone are short")


def _encoded(wake: WakeEnvelope) -> str | None:
    try:
        payload = msgspec.json.encode(wake)
    except UnicodeEncodeError:  # a subject that is no text
        return None
    return payload.decode() if len(payload) <= LIMIT_BYTES else None


def _known(payload: str | bytes, envelope: type[T]) -> T:
    try:
        read = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        version = msgspec.json.decode(read["version"]) if "version" in read else VERSION
        if version != VERSION:
            raise ValueError("its version is another")
        return msgspec.json.decode(payload, type=envelope)
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # whose texts may quote it
        raise ValueError("it is no envelope of ours") from None


def _revision(payload: str | bytes) -> int:
    if not isinstance(payload, str) or not _REVISION.fullmatch(payload):
        raise ValueError("it is no revision")
    return int(payload)


def _woken(wake: WakeEnvelope) -> Told:
    # A kind that is not known is a later version's, which took care to stay readable.
    known = ((_KINDS[kind], subjects) for kind, subjects in wake.signals.items() if kind in _KINDS)
    return Told(wake.origin, tuple(Signal(kind, subject) for kind, subjects in known for subject in subjects))


def _reloaded(reload: PolicyReloadEnvelope) -> Told:
    subject = str(reload.revision) if reload.revision > 0 else ""
    return Told(reload.origin, (Signal(SignalKind.POLICIES, subject),))
