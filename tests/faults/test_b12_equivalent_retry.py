"""
B12: an equivalent retry is a replay, for the fingerprint is of what was meant, not of its bytes.
"""

import sqlite3
from contextlib import closing
from hashlib import sha256

import msgspec
import pytest

from kit.builders import AGENT
from kit.runtimes import PRINCIPAL
from uns import Conflict, SendNotificationRequest
from uns.responses import AutonomyContextRequest

BODY = """{
  "notification_type": "system.alert", "intent": "OPERATIONAL", "title": "caf\u00e9", "message": "m",
  "source": "pay", "idempotency_key": "K2",
  "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": "AGENT"},
  "metadata": {"a": {"b": [1, 2.5, null]}, "c": true}
}""".replace("AGENT", AGENT)
SHUFFLED = """{"metadata":{"c":true,"a":{"b":[1,2.5,null]}},"idempotency_key":"K2","source":"pay",
  "message":"m",
  "title":"café","intent":"OPERATIONAL","notification_type":"system.alert",
  "autonomy_context":{"agent_id":"AGENT","autonomy_mode":"LIVE"}}""".replace("AGENT", AGENT)
DEFAULTS = BODY.replace(
    '"source"', '"irreversible": false, "correlation_id": null, "priority": null, "dedup_key": null, "source"'
)
CONTEXT_DEFAULTS = BODY.replace('"LIVE",', '"LIVE", "plan_id": null, "skip_snapshot_id": null,')

SAME = {
    "itself": BODY,
    "keys in another order": SHUFFLED,
    "no white space": msgspec.json.format(BODY.encode(), indent=-1).decode(),
    "more white space": msgspec.json.format(BODY.encode(), indent=8).decode(),
    "defaults written out": DEFAULTS,
    "the context's too": CONTEXT_DEFAULTS,
    "an escape": BODY.replace("\u00e9", "\\u00e9"),
    "another escape": BODY.replace("/", "\\/"),
    "a number in another form": BODY.replace("2.5", "2.50"),
    "an exponent": BODY.replace("2.5", "25e-1"),
    "a whole number with its fraction": BODY.replace("[1,", "[1.0,"),
    "a whole number as an exponent": BODY.replace("[1,", "[1e0,"),
    "the id in capitals": BODY.replace(AGENT, AGENT.upper()),
}
OTHER = {
    "a nested value": BODY.replace("2.5", "2.6"),
    "a nested null": BODY.replace("null]", "0]"),
    "an order that means something": BODY.replace("[1, 2.5", "[2.5, 1"),
    "a key more": BODY.replace('"c": true', '"c": true, "d": null'),
    "another composition of a letter": BODY.replace("\u00e9", "e\u0301"),
    "a default replaced": BODY.replace('"source"', '"irreversible": true, "source"'),
    "a space in a text": BODY.replace('"m"', '"m "'),
    "text for a number": BODY.replace("[1,", '["1",'),
}


def request_of(body):
    return msgspec.json.decode(body, type=SendNotificationRequest)


@pytest.fixture
def first(runtime):
    return runtime.accept(request_of(BODY), principal=PRINCIPAL)


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_what_means_the_same_is_a_replay(body, first, runtime):
    """
    B12: given a stored request, when it comes again in other words, then it is a replay of it.
    """
    again = runtime.accept(request_of(body), principal=PRINCIPAL)

    assert (first.notification_id, True) == (again.notification_id, again.idempotent_replay)


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
def test_what_means_something_else_is_a_conflict(body, first, runtime):
    """
    B12: given a stored request, when its key comes with anything else, nested ever so deep, then
    that is a conflict.
    """
    with pytest.raises(Conflict) as refused:
        runtime.accept(request_of(body), principal=PRINCIPAL)

    assert ("conflict", 409) == (refused.value.code, refused.value.status)


PLAIN = {
    "notification_type": "system.alert",
    "intent": "OPERATIONAL",
    "title": "caf\u00e9",
    "message": "m",
    "source": "pay",
    "idempotency_key": "K2",
    "metadata": {"a": {"b": [1, 2.5, None]}, "c": True},
}


@pytest.mark.parametrize(
    "context",
    [
        {"autonomy_mode": "LIVE", "agent_id": AGENT},
        AutonomyContextRequest(autonomy_mode="LIVE", agent_id=AGENT),
    ],
    ids=["plain", "struct"],
)
def test_python_and_json_are_one(context, first, runtime):
    """
    B12: given a request that came as JSON, when it comes again from Python, then it is a replay.
    """
    again = runtime.accept(SendNotificationRequest(**PLAIN, autonomy_context=context), principal=PRINCIPAL)

    assert again.idempotent_replay


def test_the_fingerprint_survives_a_restart(first, runtime, open_runtime):
    """
    B12: given a request accepted by a runtime that is gone, when another one meets its retry, then
    it is a replay.
    """
    runtime.close()
    again = open_runtime().accept(request_of(SHUFFLED), principal=PRINCIPAL)

    assert (first.notification_id, True) == (again.notification_id, again.idempotent_replay)


def test_the_fingerprint_is_of_a_fixed_form(first, tmp_path):
    """
    B12: the stored digests are those of the first release: whoever changes the form makes a
    conflict of every retry across the upgrade.
    """
    with closing(sqlite3.connect(tmp_path / "uns.db")) as connection:
        stored = connection.execute("SELECT fingerprint, key FROM uns_notifications").fetchone()

    written_down = "ec0d9d587927b479f9cfcbf2720883118205a3088a048275b2a462ca74ec6e5b"
    assert (written_down, sha256(b'["agent-7","pay","K2"]').hexdigest()) == stored
