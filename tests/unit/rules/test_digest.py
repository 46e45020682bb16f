"""
Digests: blind to spelling, sensitive to meaning, and the same for ever.
"""

import json
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uns.core.rules.digest import (
    canonical,
    content_dedup_key,
    dedup_digest,
    fingerprint,
    idempotency_digest,
    internal_digest,
)
from uns.ports.requests import SendNotificationRequest
from uns.ports.vocabulary import Ack

AGENT = "018f5e6a-7c1b-7d00-8000-000000000001"
OTHER = "018f5e6a-7c1b-7d00-8000-000000000002"
MINIMAL = {
    "notification_type": "system.alert",
    "intent": "OPERATIONAL",
    "title": "Caf\u00e9 full",
    "message": "The disk of db1 is full.",
    "source": "pay",
    "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": AGENT},
}
DEFAULTS = {
    "irreversible": False,
    "idempotency_key": None,
    "dedup_key": None,
    "correlation_id": None,
    "delivery_mode": None,
    "require_ack": None,
    "priority": None,
    "metadata": {},
}
CHANGED = {
    "notification_type": "system.alerts",
    "intent": "SAFETY",
    "title": "Cafe full",
    "message": "The disk of db2 is full.",
    "source": "pay2",
    "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": OTHER},
    "irreversible": True,
    "idempotency_key": "k",
    "dedup_key": "k",
    "correlation_id": "k",
    "delivery_mode": "GUARANTEED",
    "require_ack": False,
    "priority": "NORMAL",
    "metadata": {"k": None},
}
RICH = (
    MINIMAL
    | CHANGED
    | {
        "title": 'Caf\u00e9 "full" \\ / \u2603 \U0001f600',
        "message": "one\n\ttwo\r\x07\x1f\x7f\x85\u2028",
        "metadata": {
            "b": [1, -(2**63), 2**64 - 1, 2**53 + 1, True, None],
            "a": {"\U0001f600": 1, "\uff5e": 2, "B": 3, "a": 4, "": 5},
            "f": [0.1, 1.0, -0.0, 1e16, 1e22, 1e-7, 5e-324, 1.7976931348623157e308],
        },
    }
)


def built(fields):
    return SendNotificationRequest(**fields)


def decoded(body):
    return msgspec.json.decode(body, type=SendNotificationRequest)


def backwards(value):
    if isinstance(value, dict):
        return {key: backwards(part) for key, part in reversed(value.items())}
    return value


def test_canonical_json_is_compact_sorted_and_exact():
    """
    Keys go by code point, text stays UTF-8, integers keep their digits, enums and ids are text.
    """
    given_object = {"b": Ack.ACKED, "\U0001f600": 2**53 + 1, "\uff5e": UUID(AGENT), "a": "\u00e9/"}

    expected = f'{{"a":"\u00e9/","b":"ACKED","\uff5e":"{AGENT}","\U0001f600":9007199254740993}}'
    assert canonical(given_object) == expected.encode()


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(MINIMAL, ensure_ascii=False),
        json.dumps(MINIMAL, ensure_ascii=True),
        json.dumps(MINIMAL, indent=4),
        json.dumps(backwards(MINIMAL)),
        json.dumps(MINIMAL | DEFAULTS),
        json.dumps(backwards(DEFAULTS | MINIMAL)),
        json.dumps(MINIMAL).replace(AGENT, AGENT.upper()),
        json.dumps(MINIMAL).replace("full", "\\u0066ull"),
    ],
    ids=[
        "plain",
        "escaped",
        "spaced",
        "reordered",
        "defaults",
        "reordered-defaults",
        "upper-id",
        "escaped-ascii",
    ],
)
def test_an_equivalent_retry_has_the_same_fingerprint(body):
    """
    Key order, white space, escapes, written-out defaults and the case of ids make no other request.
    """
    assert fingerprint(decoded(body)) == fingerprint(built(MINIMAL))
    assert content_dedup_key(decoded(body)) == content_dedup_key(built(MINIMAL))


@pytest.mark.parametrize(
    ("written", "whole", "same"),
    [
        (1.0, 1, True),
        (-0.0, 0, True),
        (2.0**53 - 1, 2**53 - 1, True),
        (-(2.0**53) + 1, -(2**53) + 1, True),
        (2.0**53, 2**53, False),
        (1.5, 1, False),
        (True, 1, False),
        ("1", 1, False),
    ],
)
def test_a_whole_number_is_one_with_and_without_its_fraction(written, whole, same):
    """
    As far as a double is exact; clients write what they please, and mean the same.
    """
    one, other = (built(MINIMAL | {"metadata": {"a": [{"n": n}]}}) for n in (written, whole))

    assert same is (fingerprint(one) == fingerprint(other))


def test_metadata_counts_by_value_not_by_order():
    """
    Reordering nested metadata changes nothing, changing one nested value changes everything.
    """
    one = built(MINIMAL | {"metadata": {"a": {"x": 1, "y": [1, 2]}, "b": "\u00e9"}})
    same = built(MINIMAL | {"metadata": {"b": "\u00e9", "a": {"y": [1, 2], "x": 1}}})
    other = built(MINIMAL | {"metadata": {"a": {"x": 1, "y": [2, 1]}, "b": "\u00e9"}})

    assert fingerprint(one) == fingerprint(same)
    assert fingerprint(one) != fingerprint(other)


def test_every_field_counts():
    """
    A change of any single field gives another fingerprint, and no two of them the same.
    """
    prints = {fingerprint(built(MINIMAL | {name: value})) for name, value in CHANGED.items()}

    assert set(CHANGED) == set(SendNotificationRequest.__struct_fields__)
    assert len(prints | {fingerprint(built(MINIMAL))}) == len(CHANGED) + 1


@pytest.mark.parametrize(
    "part",
    [
        "autonomy_mode",
        "agent_id",
        "plan_id",
        "decision_snapshot_id",
        "execution_snapshot_id",
        "skip_snapshot_id",
    ],
)
def test_every_part_of_the_context_counts(part):
    """
    A change of any part of the autonomy context gives another fingerprint.
    """
    changed = "SHADOW" if part == "autonomy_mode" else OTHER
    context = MINIMAL["autonomy_context"] | {part: changed}

    assert fingerprint(built(MINIMAL | {"autonomy_context": context})) != fingerprint(built(MINIMAL))


def test_a_door_that_asks_for_more_has_the_same_fingerprint():
    """
    Fields that a door adds to the request for itself are no part of the request.
    """

    class AtTheDoor(SendNotificationRequest, frozen=True, kw_only=True):
        deliver: bool = False

    assert fingerprint(AtTheDoor(**MINIMAL, deliver=True)) == fingerprint(built(MINIMAL))


def test_content_is_type_intent_title_message_and_agent():
    """
    Exactly the five content fields make the dedup key of a request that names none.
    """
    key = content_dedup_key(built(MINIMAL))
    counting = {
        name for name, value in CHANGED.items() if content_dedup_key(built(MINIMAL | {name: value})) != key
    }

    assert counting == {"notification_type", "intent", "title", "message", "autonomy_context"}
    context = MINIMAL["autonomy_context"] | {"autonomy_mode": "SHADOW", "plan_id": OTHER}
    assert content_dedup_key(built(MINIMAL | {"autonomy_context": context})) == key


PARTS = st.lists(st.text('",[]\\a', max_size=3), min_size=3, max_size=3)


@given(PARTS, PARTS)
def test_parts_cannot_run_into_each_other(one, other):
    """
    Two keys are equal only when all their parts are, wherever quotes and commas stand.
    """
    assert (idempotency_digest(*one) == idempotency_digest(*other)) is (one == other)


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5) | st.integers(0, 9))
def test_a_producers_key_is_never_an_internal_one(purpose, id, step):
    """
    Three parts never equal four, even for a producer that calls itself uns.
    """
    internal = internal_digest(purpose, id, step)

    assert internal != idempotency_digest("uns", purpose, id)
    assert internal != idempotency_digest("uns", purpose, f'{id}","{step}')


VECTORS = {
    "minimal": (fingerprint, [built(MINIMAL)]),
    "rich": (fingerprint, [built(RICH)]),
    "content": (content_dedup_key, [built(MINIMAL)]),
    "rich-content": (content_dedup_key, [built(RICH)]),
    "key": (idempotency_digest, ["producer", "pay", "key-1"]),
    "odd-key": (idempotency_digest, ["pro\u00fcducer", 'pa"y', "\U0001f600\\"]),
    "escalation": (internal_digest, ["escalation", AGENT, 2]),
    "chain": (internal_digest, ["chain", "testnet", "event-1"]),
    "dedup": (dedup_digest, ["producer", "pay", "key-1", "e" * 64]),
}
FROZEN = {
    "minimal": "cf784855240d413636d3dcb5c8ef7da7f759221e1f69d197e6ee46277923a832",
    "rich": "36f25e886fb3c30bfe56408c67a791316aec5c5c23928c462e98bf3b2e94f20f",
    "content": "f002b273d6f084766e035bb4fb90896ec723c32bfd94943f1e6ed9f42d06de2f",
    "rich-content": "d01c40e8d92664730306b95719950fac370dd6977b818556b096207d25fc3baf",
    "key": "36fde15336c6427c3d23b365c7bd6dcfb8baee251895a4d39d4775094aff96ef",
    "odd-key": "e2fe0e5599d6dc3adbf5239e53772682126fe4faed640e40f22bc61ac9a35f19",
    "escalation": "816e3aef260cd4c0037638441afcb4ad3f5edd1c3450fd65845f48a9a7cb3d47",
    "chain": "831d4445f7b2410b442b0558ef596ae60db6b7304202ebbced286794b96637f6",
    "dedup": "6b7d229361f921971b34ae77789e34713626186dd8dae366ec731ac86c57720b",
}


@pytest.mark.parametrize("name", VECTORS)
def test_digests_are_the_same_for_ever(name):
    """
    Digests stand in databases: a change of any vector, by us or by a library, is a migration.
    """
    digest, parts = VECTORS[name]

    assert digest(*parts) == FROZEN[name]
