"""
Views: stored rows as replies, and as plain dictionaries.
"""

import math
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest

from kit.builders import AGENT, NOW, a_notification, a_request, an_acceptance, an_effective
from kit.policies import a_policy, a_snapshot
from uns.adapters.sources import new_id
from uns.core.plans.intake import shape_of
from uns.core.plans.reading import View
from uns.core.plans.recovery import DeadLetter
from uns.core.rules.policy import resolve
from uns.core.rules.recovery import Blocked
from uns.entrypoints import views
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Event, Notification, Outcome
from uns.ports.vocabulary import Ack, EventKind, ReplayBlock, Status

ID = "01a22e60-1083-707f-9579-c8195265540e"
OWNER = "01a22e60-1083-707f-9579-000000000001"
TOKEN = "https://hooks.example.org/T1/SECRET"
OUTCOME = Outcome(
    channels_attempted=("SLACK", "LOG"),
    channels_succeeded=("LOG",),
    channels_failed=("SLACK",),
    error_message="SLACK: no",
)


def a_row(**fields):
    return a_notification(ID, **fields)


def only_json(value):
    """
    Whether ``value`` is made of nothing but the plain types that JSON has, subclasses not counted.
    """
    if type(value) is dict:
        return all(type(key) is str and only_json(part) for key, part in value.items())
    if type(value) is list:
        return all(map(only_json, value))
    return value is None or type(value) in {str, int, float, bool}


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0, datetime(1970, 1, 1, tzinfo=UTC)),
        (NOW, datetime(2027, 1, 15, 8, 0, tzinfo=UTC)),
        (NOW + 0.25, datetime(2027, 1, 15, 8, 0, 0, 250_000, tzinfo=UTC)),
    ],
)
def test_instants_are_aware_and_in_utc(seconds, told):
    """
    Unix seconds become an aware datetime in UTC, fractions included.
    """
    assert told == views.instant(seconds)
    assert UTC is views.instant(seconds).tzinfo


SPOKEN = [
    ({}, "accepted"),
    ({"outcome": OUTCOME}, "will be tried again: SLACK: no"),
    ({"dedup_owner_id": OWNER}, "waiting for the delivery of the notification it repeats"),
    ({"status": Status.DELIVERED, "outcome": OUTCOME}, "delivered"),
    ({"status": Status.DEDUPLICATED, "dedup_owner_id": OWNER}, "deduplicated"),
    ({"status": Status.FAILED, "outcome": OUTCOME}, "failed: SLACK: no"),
    ({"status": Status.FAILED}, "failed"),
    ({"status": Status.FAILED, "outcome": Outcome()}, "failed"),
]


@pytest.mark.parametrize(("fields", "message"), SPOKEN)
def test_a_reply_says_what_became_of_it(fields, message):
    """
    The message of a reply tells acceptance from delivery, and a retry from a failure.
    """
    row = a_row(**fields)

    assert message == views.sent(row, views.own_projection(row), replayed=False).message


def test_a_reply_has_uuids_datetimes_and_states():
    """
    A reply has the row's state in the types of Python callers, and the projection it was given.
    """
    row = a_row(status=Status.DELIVERED, outcome=OUTCOME, ack_status=Ack.PENDING)
    sent = views.sent(row, views.own_projection(row), replayed=True)

    assert UUID(ID) == sent.notification_id == sent.obligation_owner_id
    assert datetime(2027, 1, 15, 8, 0, tzinfo=UTC) == sent.created_at
    assert (Status.DELIVERED, Ack.PENDING, Ack.PENDING) == (
        sent.status,
        sent.ack_status,
        sent.effective_ack_status,
    )
    assert (True, False, "RESOLVED") == (
        sent.idempotent_replay,
        sent.ack_inherited,
        sent.obligation_resolution_status,
    )
    assert (("SLACK", "LOG"), ("LOG",), ("SLACK",)) == (
        sent.channels_attempted,
        sent.channels_succeeded,
        sent.channels_failed,
    )


def test_an_answer_is_told_as_it_stands_on_record():
    """
    The view of an answer has who, when and what; without metadata it is an empty object.
    """
    answered = a_row(
        ack_status=Ack.DISMISSED, actor="ann", responded_at=NOW + 1, response_metadata='{"ticket":7}'
    )
    bare = msgspec.structs.replace(answered, response_metadata=None)

    told = views.answered(answered)
    assert (UUID(ID), "DISMISSED", "ann") == (told.notification_id, told.ack_status, told.acked_by)
    assert (NOW + 1, {"ticket": 7}) == (told.acked_at.timestamp(), told.metadata)
    assert {} == views.answered(bare).metadata


@pytest.mark.parametrize("fields", [{}, {"ack_status": Ack.PENDING}, {"responded_at": NOW}])
def test_without_an_answer_there_is_no_view_of_it(fields):
    """
    A row that has no answer cannot be shown as answered.
    """
    if fields == {"ack_status": Ack.PENDING}:
        fields = fields | {"responded_at": None}
    with pytest.raises(ValueError, match=f"{ID} has no answer"):
        views.answered(a_row(**fields))


def full_row():
    """
    A row with something in every column.
    """
    row = a_row(
        body=msgspec.json.encode({"title": "t", "metadata": {"a": [1, None]}}).decode(),
        effective=an_effective(
            channels=ChannelPlan(primary=("SLACK",), fallback=("LOG",)),
            targets={"SLACK": {"url": TOKEN, "channel": "#ops"}},
        ),
        correlation_id="c",
        escalation_of=OWNER,
        status=Status.DELIVERED,
        outcome=OUTCOME,
        dedup_owner_id=OWNER,
        dedup_successor_id=OWNER,
        lease_until=NOW,
        lease_token=OWNER,
        paced_since=NOW,
        delivered_at=NOW,
        deadline=NOW,
        ack_status=Ack.ACKED,
        actor="ann",
        responded_at=NOW,
        response_metadata='{"ticket": 7}',
    )
    assert None not in msgspec.structs.astuple(row)
    return row


def test_a_row_becomes_a_plain_dictionary():
    """
    A row is shown by its columns, in plain types: text ids and states, float times, lists.
    """
    shown = views.row_dict(full_row())

    assert only_json(shown)
    assert {name for name in Notification.__struct_fields__ if name != "body"} | {"notification"} == set(
        shown
    )
    assert (ID, "DELIVERED", "ACKED", AGENT) == tuple(
        shown[name] for name in ("id", "status", "ack_status", "agent_id")
    )
    assert all(
        type(shown[name]) is float for name in ("accepted_at", "next_attempt", "lease_until", "deadline")
    )
    assert {"title": "t", "metadata": {"a": [1, None]}} == shown["notification"]
    assert {"ticket": 7} == shown["response_metadata"]
    assert ["SLACK", "LOG"] == shown["outcome"]["channels_attempted"]


def test_a_row_without_more_has_nulls():
    """
    What a row has not got is None, not left out; of an attempt there is only its empty outcome.
    """
    shown = views.row_dict(a_row())
    nothing = {"channels_attempted": [], "channels_succeeded": [], "channels_failed": []}

    assert (None, None) == (shown["response_metadata"], shown["deadline"])
    assert nothing | {"error_message": None} == shown["outcome"]


def test_no_view_shows_a_credential():
    """
    Of a URL in a target nothing but its host is shown; the rest of the target is.
    """
    shown = views.row_dict(full_row())["effective"]["targets"]["SLACK"]

    assert {"channel", "url"} == set(shown)
    assert "#ops" == shown["channel"]
    assert "SECRET" not in str(views.row_dict(full_row()))
    assert "hooks.example.org" in shown["url"]


def test_a_view_joins_row_and_projection():
    """
    The view of a notification is its row, and the seven fields of the projection.
    """
    row = full_row()
    shown = views.view_dict(View(row, views.own_projection(row)))

    assert only_json(shown)
    assert {
        "notification_id": ID,
        "ack_status": "ACKED",
        "obligation_owner_id": ID,
        "effective_ack_status": "ACKED",
        "ack_inherited": False,
        "obligation_resolution_status": "RESOLVED",
        "obligation_resolution_error": None,
    } == {name: value for name, value in shown.items() if name not in views.row_dict(row)} | {
        "ack_status": shown["ack_status"]
    }


@pytest.mark.parametrize(
    ("blocked", "by", "reason"),
    [
        (None, None, None),
        (Blocked(ReplayBlock.SUCCESSOR_PENDING, OWNER), OWNER, "SUCCESSOR_PENDING"),
        (Blocked(ReplayBlock.UNRESOLVED_LINEAGE, None), None, "UNRESOLVED_LINEAGE"),
    ],
)
def test_a_dead_letter_says_what_blocks_its_replay(blocked, by, reason):
    """
    A dead letter is its row with what stands in the way, in plain types.
    """
    shown = views.dead_letter_dict(DeadLetter(full_row(), blocked))

    assert (by, reason) == (shown["replay_blocked_by"], shown["replay_block_reason"])
    assert only_json(shown)


def test_an_event_becomes_a_plain_dictionary():
    """
    An event is shown by its columns, its payload decoded.
    """
    event = Event(id=new_id(), notification_id=ID, kind=EventKind.ACKED, at=NOW, payload='{"actor":"ann"}')
    shown = views.event_dict(event)

    assert only_json(shown)
    assert set(Event.__struct_fields__) == set(shown)
    assert ("ACKED", NOW, {"actor": "ann"}) == (shown["kind"], shown["at"], shown["payload"])
    assert (False, 0, None) == (
        shown["callback_pending"],
        shown["callback_attempts"],
        shown["callback_error"],
    )


@pytest.mark.parametrize("spoilt", [" ", "{", "[]", "null", "7", "NaN"])
def test_a_spoilt_text_is_shown_as_such(spoilt):
    """
    A stored text that is no JSON object hides neither its row nor the list it is in.
    """
    row = msgspec.structs.replace(full_row(), body=spoilt, response_metadata=spoilt)
    event = Event(id=new_id(), notification_id=ID, kind=EventKind.ACKED, at=NOW, payload=spoilt)

    for told in (views.row_dict(row)["notification"], views.row_dict(row)["response_metadata"]):
        assert ["unreadable"] == list(told)
    assert ["unreadable"] == list(views.event_dict(event)["payload"])
    assert ["unreadable"] == list(views.answered(row).metadata)


def test_a_simulation_tells_the_resolution():
    """
    A simulation has the settings, where they came from and the key it would coalesce under.
    """
    request = a_request()
    resolved = resolve(a_snapshot(a_policy(primary=("SLACK",)), revision=7), shape_of(request))
    told = views.simulated(an_acceptance(request), resolved)

    assert ("system.alert", "ops", 7) == (told.notification_type, told.policy_id, told.revision)
    assert (("SLACK",), "GUARANTEED", False, "NORMAL") == (
        told.channels,
        told.delivery_mode,
        told.require_ack,
        told.priority,
    )
    assert (resolved.effective_hash, resolved.policy_hash) == (told.effective_hash, told.policy_hash)
    assert 64 == len(told.dedup_key)
    assert told.delivered is False


def test_a_simulation_without_a_window_has_no_key():
    """
    Where the policy opts out of deduplication there is no key.
    """
    request = a_request()
    resolved = resolve(a_snapshot(a_policy(dedup_window_seconds=0.0)), shape_of(request))

    assert views.simulated(an_acceptance(request), resolved).dedup_key is None


def test_numbers_stay_what_they_are():
    """
    Neither large nor small floats lose a digit on their way into a dictionary.
    """
    for at in (0.1, 1_800_000_000.123456, 1e-9, math.pi * 1e9):
        assert at == views.row_dict(a_row(next_attempt=at))["next_attempt"]
