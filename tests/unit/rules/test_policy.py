import json
from hashlib import sha256
from uuid import UUID

import msgspec
import pytest

from kit.policies import a_policy, a_shape, a_snapshot
from uns.core.rules.policy import (
    Resolver,
    channel_set,
    check_overrides,
    content_hash,
    content_of,
    resolve,
    snapshot_of,
)
from uns.ports.errors import NoPolicy, Rejected
from uns.ports.policy import ChannelPlan, EscalationStep, Overlay, SnapshotRecord
from uns.ports.requests import AutonomyContextRequest, SendNotificationRequest
from uns.ports.vocabulary import AutonomyMode, DeliveryMode, NotificationIntent, Priority

QUIET = [AutonomyMode.SHADOW, AutonomyMode.PREVIEW]
TO_SLACK = ChannelPlan(primary=("SLACK",), fallback=("PAGERDUTY",))
PAGE = EscalationStep(channels=("PAGERDUTY",), priority=Priority.HIGH)


def resolved(policy, **shape):
    return resolve(a_snapshot(policy), a_shape(**shape))


def steps_of(found):
    return [(step.step, step.changed) for step in found.steps]


def test_no_policy_covers_the_type():
    """
    A type that nothing covers is NoPolicy, which names the type and the source.
    """
    with pytest.raises(NoPolicy, match=r"no ACTIVE policy covers a\.b from app") as refusal:
        resolve(a_snapshot(a_policy("x", "x.*")), a_shape())

    assert refusal.value.code == "no_policy"


def test_another_intent_is_refused():
    """
    A policy that is for one intent refuses a request with another, at path ``intent``.
    """
    safety = a_policy(intent=NotificationIntent.SAFETY)

    with pytest.raises(
        Rejected, match="intent must be SAFETY, as policy ops says, not OPERATIONAL"
    ) as refusal:
        resolved(safety)

    assert refusal.value.path == "intent"
    assert resolved(safety, intent=NotificationIntent.SAFETY).effective.intent is NotificationIntent.SAFETY
    assert resolved(a_policy(), intent=NotificationIntent.SAFETY).effective.intent is None


def test_the_base_is_the_policy_as_written():
    """
    Without layers the effective settings are the policy's, and the one step shows them all.
    """
    policy = a_policy(
        primary=("SLACK",),
        require_ack=True,
        ack_timeout_minutes=15,
        dedup_window_seconds=60.0,
        max_attempts=4,
        priority=Priority.LOW,
        targets={"SLACK": {"channel": "#ops"}},
        responders=("slack:T1:*",),
        links=False,
    )

    found = resolved(policy)

    assert found.effective.targets == {"SLACK": {"channel": "#ops"}}
    assert found.effective.responders == ("slack:T1:*",)
    assert found.effective.links is False
    assert steps_of(found) == [
        (
            "base",
            {
                "delivery_mode": "GUARANTEED",
                "priority": "LOW",
                "require_ack": True,
                "ack_timeout_minutes": 15,
                "dedup_window_seconds": 60.0,
                "max_attempts": 4,
                "channels": {"primary": ("SLACK",), "fallback": (), "require": "any"},
            },
        )
    ]


@pytest.mark.parametrize("mode", QUIET)
def test_shadow_and_preview_ask_and_wake_nobody(mode):
    """
    Without a layer for its mode such a request needs no answer, does not escalate and is logged.
    """
    policy = a_policy(
        require_ack=True, channels=TO_SLACK, escalation=(PAGE,), targets={"SLACK": {"channel": "#o"}}
    )

    found = resolved(policy, autonomy_mode=mode, irreversible=True)

    assert found.effective.require_ack is False
    assert found.effective.escalation == ()
    assert found.effective.channels == ChannelPlan(primary=("LOG",))
    assert found.effective.targets == {}
    assert found.effective.delivery_mode is DeliveryMode.GUARANTEED
    assert found.channels == "|LOG|"
    assert steps_of(found)[1:] == [
        (
            "autonomy",
            {"require_ack": False, "channels": {"primary": ("LOG",), "fallback": (), "require": "any"}},
        )
    ]


@pytest.mark.parametrize("mode", QUIET)
def test_a_mode_may_name_its_channels_but_never_ask(mode):
    """
    The layer of a mode chooses channels and settings; an answer it cannot require.
    """
    loud = Overlay(require_ack=True, channels=TO_SLACK, delivery_mode=DeliveryMode.BEST_EFFORT)
    policy = a_policy(require_ack=True, escalation=(PAGE,), autonomy={mode: loud})

    effective = resolved(policy, autonomy_mode=mode).effective

    assert effective.channels == TO_SLACK
    assert effective.delivery_mode is DeliveryMode.BEST_EFFORT
    assert effective.require_ack is False
    assert effective.escalation == ()


IRREVERSIBLE = Overlay(require_ack=True, priority=Priority.HIGH, ack_timeout_minutes=5)


@pytest.mark.parametrize(
    ("mode", "irreversible", "applies"),
    [
        (AutonomyMode.LIVE, True, True),
        (AutonomyMode.LIVE, False, False),
        (AutonomyMode.SHADOW, True, False),
        (AutonomyMode.PREVIEW, True, False),
    ],
)
def test_irreversible_applies_to_live_only(mode, irreversible, applies):
    """
    The irreversible layer is laid on exactly when a LIVE request says that it is.
    """
    found = resolved(a_policy(irreversible=IRREVERSIBLE), autonomy_mode=mode, irreversible=irreversible)

    assert (found.effective.priority is Priority.HIGH) is applies
    assert ("irreversible" in [step.step for step in found.steps]) is applies


def test_layers_apply_in_order_and_tell_what_they_changed():
    """
    Autonomy is laid over the base and irreversible over both; a step shows only what differs.
    """
    live = Overlay(priority=Priority.LOW, max_attempts=2, require_ack=False)
    policy = a_policy(autonomy={AutonomyMode.LIVE: live}, irreversible=IRREVERSIBLE)

    found = resolved(policy, irreversible=True)

    assert steps_of(found)[1:] == [
        ("autonomy", {"priority": "LOW", "max_attempts": 2}),
        ("irreversible", {"require_ack": True, "priority": "HIGH", "ack_timeout_minutes": 5}),
    ]


@pytest.mark.parametrize(("irreversible", "steps"), [(True, (PAGE,)), (False, ())])
def test_escalation_needs_an_answer_to_wait_for(irreversible, steps):
    """
    Where no answer is required in the end, escalation is dropped, its targets with it.
    """
    policy = a_policy(
        irreversible=IRREVERSIBLE,
        escalation=(PAGE,),
        targets={"PAGERDUTY": {}, "SLACK": {"channel": "#unused"}},
    )

    effective = resolved(policy, irreversible=irreversible).effective

    assert effective.escalation == steps
    assert effective.targets == ({"PAGERDUTY": {}} if irreversible else {})


def test_the_effective_hash_is_of_the_settings_alone():
    """
    Revision and policy id do not count; autonomy mode and a target that is called do.
    """
    slack = {"channels": TO_SLACK, "targets": {"SLACK": {"channel": "#ops"}}}
    here = resolve(a_snapshot(a_policy("here", **slack), revision=1), a_shape())
    there = resolve(a_snapshot(a_policy("there", **slack), revision=9), a_shape())
    moved = resolve(
        a_snapshot(a_policy("here", **slack | {"targets": {"SLACK": {"channel": "#new"}}})), a_shape()
    )
    live = resolved(a_policy())
    shadow = resolved(a_policy(), autonomy_mode=AutonomyMode.SHADOW)

    assert here.effective_hash == there.effective_hash
    assert here.policy_hash != there.policy_hash
    assert moved.effective_hash != here.effective_hash
    assert shadow.effective_hash != live.effective_hash
    canonical = json.dumps(msgspec.to_builtins(here.effective), sort_keys=True, separators=(",", ":"))
    assert here.effective_hash == sha256(canonical.encode()).hexdigest()


def test_a_default_written_out_is_the_same_policy():
    """
    A document is what it means: defaults never appear in it, so its digest does not move with them.
    """
    written_out = a_policy(
        priority=Priority.NORMAL, links=True, dedup_window_seconds=float("300"), targets={}
    )

    assert json.loads(content_of(a_policy())) == {
        "policy_id": "ops",
        "notification_type": "*",
        "status": "ACTIVE",
        "delivery_mode": "GUARANTEED",
        "require_ack": False,
        "channels": {"primary": ["LOG"], "fallback": [], "require": "any"},
    }
    assert content_of(written_out) == content_of(a_policy())
    assert content_of(a_policy(links=False)) != content_of(a_policy())
    assert resolved(a_policy()).policy_hash == content_hash(content_of(a_policy()))


def test_provenance_is_encoded_once_for_events_and_rows():
    """
    ACCEPTED gets the settings with provenance, the row's metadata the provenance alone.
    """
    found = resolve(a_snapshot(a_policy(), revision=7), a_shape())

    accepted, resolution = json.loads(found.accepted_json), json.loads(found.resolution_json)

    keys = {"policy_id", "policy_hash", "revision", "effective_hash", "steps"}
    assert set(resolution) == keys
    assert set(accepted) == keys | {"effective"}
    assert accepted == resolution | {"effective": json.loads(msgspec.json.encode(found.effective))}
    assert resolution["revision"] == found.revision == 7
    assert resolution["steps"][0]["step"] == "base"
    assert found.snapshot_hash == "ops"


def test_provenance_shows_no_credentials():
    """
    A URL in a target may be a credential: events and metadata have its host at most.
    """
    url = "https://ann:secret@hooks.example.org/secret"
    found = resolved(a_policy(primary=("WEBHOOK",), targets={"WEBHOOK": {"url": url}}))

    assert found.effective.targets["WEBHOOK"]["url"] == url
    assert "secret" not in found.accepted_json + found.resolution_json
    assert "hooks.example.org" in found.accepted_json


@pytest.mark.parametrize(
    ("channels", "stored"),
    [((), ""), (("LOG",), "|LOG|"), (("SLACK", "LOG", "SLACK"), "|LOG||SLACK|")],
)
def test_a_channel_set_is_sorted_and_each_name_wrapped(channels, stored):
    """
    Names are stored so that SQL can take known ones away one by one, in any order.
    """
    assert channel_set(channels) == stored


def a_request(**wishes):
    return SendNotificationRequest(
        notification_type="a.b",
        intent=NotificationIntent.OPERATIONAL,
        title="t",
        message="m",
        source="app",
        autonomy_context=AutonomyContextRequest(autonomy_mode=AutonomyMode.LIVE, agent_id=UUID(int=1)),
        **wishes,
    )


@pytest.mark.parametrize(
    ("field", "same", "other", "told"),
    [
        ("delivery_mode", DeliveryMode.GUARANTEED, DeliveryMode.BEST_EFFORT, "GUARANTEED"),
        ("require_ack", True, False, "true"),
        ("priority", Priority.HIGH, Priority.LOW, "HIGH"),
    ],
)
def test_an_override_may_only_repeat_the_policy(field, same, other, told):
    """
    A wish that differs is refused at its field and told what the policy says; an equal one passes.
    """
    found = resolved(a_policy(require_ack=True, priority=Priority.HIGH))

    check_overrides(found, a_request())
    check_overrides(found, a_request(**{field: same}))
    with pytest.raises(
        Rejected, match=f"{field} must be {told}, as policy ops says, or be left out"
    ) as refusal:
        check_overrides(found, a_request(**{field: other}))

    assert refusal.value.path == field


def test_an_override_is_held_against_the_layers_too():
    """
    What counts is what the layers come to: under SHADOW nobody may require an answer.
    """
    found = resolved(a_policy(require_ack=True), autonomy_mode=AutonomyMode.SHADOW)

    with pytest.raises(Rejected, match="require_ack must be false"):
        check_overrides(found, a_request(require_ack=True))


def a_record(*policies, hash="h1"):
    return SnapshotRecord(hash=hash, content=msgspec.json.encode(policies).decode(), created_at=0.0)


def test_a_snapshot_is_read_as_it_was_stored():
    """
    Decoding a stored snapshot gives the same policies back.
    """
    policy = a_policy(escalation=(PAGE,), autonomy={AutonomyMode.SHADOW: Overlay(require_ack=False)})

    assert snapshot_of(a_record(policy), 3).policies == (policy,)
    assert snapshot_of(a_record(policy), 3).revision == 3


def test_the_resolver_remembers():
    """
    The same record is decoded once, and the same shape resolved once, per revision.
    """
    resolver, record = Resolver(), a_record(a_policy())
    snapshot = resolver.snapshot_of(record, 1)

    first = resolver.resolve(snapshot, a_shape())

    assert resolver.snapshot_of(record, 1) is snapshot
    assert resolver.resolve(snapshot, a_shape()) is first
    assert first == resolve(snapshot, a_shape())


def test_the_resolver_forgets_with_the_snapshot():
    """
    Another content or another revision is never answered from memory.
    """
    resolver = Resolver()
    first = resolver.resolve(resolver.snapshot_of(a_record(a_policy("one")), 1), a_shape())
    again = resolver.resolve(resolver.snapshot_of(a_record(a_policy("one")), 2), a_shape())
    other = resolver.resolve(resolver.snapshot_of(a_record(a_policy("two"), hash="h2"), 3), a_shape())

    assert [first.policy_id, again.policy_id, other.policy_id] == ["one", "one", "two"]
    assert [first.revision, again.revision, other.revision] == [1, 2, 3]


def test_the_resolver_is_bounded():
    """
    A full memory is dropped whole, and answers stay right.
    """
    resolver, snapshot = Resolver(limit=2), a_snapshot(a_policy())
    shapes = [a_shape(f"t{n}") for n in range(3)]
    first, *_ = [resolver.resolve(snapshot, shape) for shape in shapes]

    assert resolver.resolve(snapshot, shapes[2]) is resolver.resolve(snapshot, shapes[2])
    assert resolver.resolve(snapshot, shapes[0]) is not first
    assert resolver.resolve(snapshot, shapes[0]) == first


def test_the_resolver_does_not_remember_refusals():
    """
    A refusal is worked out anew, and leaves what is remembered alone.
    """
    resolver, snapshot = Resolver(), a_snapshot(a_policy("x", "x"))
    kept = resolver.resolve(snapshot, a_shape("x"))

    for _ in range(2):
        with pytest.raises(NoPolicy):
            resolver.resolve(snapshot, a_shape("y"))

    assert resolver.resolve(snapshot, a_shape("x")) is kept


def test_the_resolver_guesses_by_what_it_saw_last():
    """
    A guess is the resolution under the snapshot last asked for; before the first, and where that
    refuses, there is none.
    """
    resolver = Resolver()
    assert resolver.guess(a_shape("x")) is None

    snapshot = resolver.snapshot_of(a_record(a_policy("x", "x")), 4)

    assert resolver.guess(a_shape("x")) == resolve(snapshot, a_shape("x"))
    assert resolver.guess(a_shape("y")) is None
