import math

import pytest

from kit.policies import a_document
from uns.core.rules.policy_document import BOUNDS, checked
from uns.ports.documents import Origin, PolicyDocument
from uns.ports.errors import Rejected
from uns.ports.policy import ChannelPlan, EscalationStep, Match, Overlay
from uns.ports.vocabulary import AutonomyMode, PolicyStatus

REGISTERED = {"SLACK", "PAGERDUTY", "WEBHOOK", "EMAIL", "PAGER"}
FULL = {
    "require_ack": True,
    "channels": ChannelPlan(primary=("SLACK",), fallback=("PAGERDUTY", "LOG")),
    "match": Match(source=("pay", "pay-*")),
    "targets": {"SLACK": {"channel": "#ops", "rate": {"per_second": 1, "burst": 5}}, "PAGERDUTY": {}},
    "autonomy": {AutonomyMode.SHADOW: Overlay(channels=ChannelPlan(primary=("LOG",)))},
    "irreversible": Overlay(ack_timeout_minutes=5, channels=ChannelPlan(primary=("PAGER",))),
    "escalation": (EscalationStep(channels=("PAGERDUTY", "PAGER"), ack_timeout_minutes=10),),
    "responders": ("slack:T1:*", "slack:T1:U1", "key:local-responder", "key:ops-*", "key:*", "pagerduty:*"),
}


def test_a_whole_policy_passes():
    """
    A policy that uses every feature passes, and comes back as it went in.
    """
    document = a_document("ops-alerts", "system.*", **FULL)

    assert checked(document, REGISTERED) == document


def test_a_policy_comes_back_as_storage_would_give_it():
    """
    A number that a program wrote as int where the field is a float is a float afterwards.
    """
    policy = checked(a_document(dedup_window_seconds=60), ()).policy

    assert isinstance(policy.dedup_window_seconds, float)


@pytest.mark.parametrize(
    ("change", "path", "told"),
    [
        ({"policy_id": ""}, "policy_id", "must be 1 to 128 letters"),
        ({"policy_id": "a@b"}, "policy_id", "must be 1 to 128 letters"),
        ({"policy_id": "-a"}, "policy_id", "must be 1 to 128 letters"),
        ({"policy_id": "a" * 129}, "policy_id", "must be 1 to 128 letters"),
        ({"policy_id": "a\n"}, "policy_id", "must be 1 to 128 letters"),
        ({"notification_type": ""}, "notification_type", "must be a type"),
        ({"notification_type": "A.b"}, "notification_type", "must be a type"),
        ({"notification_type": "a.*.b"}, "notification_type", "must be a type"),
        ({"notification_type": "a*"}, "notification_type", "must be a type"),
        ({"notification_type": "**"}, "notification_type", "must be a type"),
        ({"notification_type": "a..b"}, "notification_type", "must be a type"),
        ({"notification_type": "a.b\n"}, "notification_type", "must be a type"),
        ({"notification_type": "a" * 256}, "notification_type", "must be a type"),
        ({"match": Match()}, "match.source", "must name a source"),
        ({"match": Match(source=("",))}, "match.source.0", "must have 1 to 255 characters"),
        ({"match": Match(source=("a", "a*b"))}, "match.source.1", "only at its end"),
        ({"match": Match(source=("a", "**"))}, "match.source.1", "only at its end"),
        ({"match": Match(source=("a\nb",))}, "match.source.0", "must be one line"),
        ({"channels": ChannelPlan(primary=())}, "channels.primary", "must name at least one channel"),
        ({"channels": ChannelPlan(primary=("slack",))}, "channels.primary.0", "must be a channel name"),
        ({"channels": ChannelPlan(primary=("LOG", "LOG"))}, "channels.primary.1", "names LOG a second time"),
        (
            {"channels": ChannelPlan(primary=("LOG",), fallback=("RECORDING", "LOG"))},
            "channels.fallback.1",
            "names LOG a second time",
        ),
        (
            {"channels": ChannelPlan(primary=("FAX",))},
            "channels.primary.0",
            "names FAX, which is neither built in nor registered with this process",
        ),
        (
            {"autonomy": {AutonomyMode.SHADOW: Overlay(channels=ChannelPlan(primary=()))}},
            "autonomy.SHADOW.channels.primary",
            "must name at least one channel",
        ),
        (
            {"autonomy": {AutonomyMode.LIVE: Overlay(channels=ChannelPlan(primary=("FAX",)))}},
            "autonomy.LIVE.channels.primary.0",
            "names FAX",
        ),
        (
            {"irreversible": Overlay(channels=ChannelPlan(primary=("LOG",), fallback=("LOG",)))},
            "irreversible.channels.fallback.0",
            "a second time",
        ),
        ({"escalation": (EscalationStep(channels=("LOG",)),)}, "escalation", "needs require_ack"),
        (
            {
                "escalation": (EscalationStep(channels=("LOG",)),),
                "autonomy": {AutonomyMode.SHADOW: Overlay(require_ack=True)},
            },
            "escalation",
            "needs require_ack",
        ),
        (
            {"require_ack": True, "escalation": (EscalationStep(channels=()),)},
            "escalation.0.channels",
            "must name at least one channel",
        ),
        (
            {"require_ack": True, "escalation": (EscalationStep(channels=("LOG", "FAX")),)},
            "escalation.0.channels.1",
            "names FAX",
        ),
        ({"targets": {"SLAK": {}}}, "targets.SLAK", "names SLAK, which is neither built in nor registered"),
        ({"targets": {"SLACK": {}}}, "targets.SLACK.channel", "is missing"),
        ({"targets": {"LOG": {"file": "x"}}}, "targets.LOG.file", "is not a key that is known here"),
        ({"targets": {"PAGER": {"at": math.inf}}}, "targets.PAGER.at", "must be a finite number"),
        ({"responders": ("key:a", "ann")}, "responders.1", "must be like slack:T1:U1"),
        ({"responders": ("slack:T1",)}, "responders.0", "must be like slack:T1:U1"),
        ({"responders": ("key:",)}, "responders.0", "must be like slack:T1:U1"),
        ({"responders": ("email:ann@example.org",)}, "responders.0", "must be like slack:T1:U1"),
        ({"require_ack": 1}, "require_ack", "is wrong: expected bool, got int"),
    ],
)
def test_a_policy_is_refused_at_its_fault(change, path, told):
    """
    What a policy may not say is refused with the file, the path of the key and the reason.
    """
    settings = {"policy_id": "ops", "notification_type": "*", **change}

    with pytest.raises(Rejected) as refusal:
        checked(a_document(file="ops.yaml", **settings), REGISTERED)

    assert refusal.value.path == path
    assert str(refusal.value).startswith(f"ops.yaml: {path} ")
    assert told in str(refusal.value)


@pytest.mark.parametrize("status", PolicyStatus)
def test_status_excuses_nothing(status):
    """
    A policy that is not in force is judged like one that is.
    """
    with pytest.raises(Rejected, match="names FAX"):
        checked(a_document(status=status, primary=("FAX",)), ())


@pytest.mark.parametrize(("field", "low", "high"), [(field, *bounds) for field, bounds in BOUNDS.items()])
@pytest.mark.parametrize("layer", ["", "autonomy.PREVIEW.", "irreversible."])
def test_numbers_have_bounds_in_every_layer(field, low, high, layer):
    """
    Both ends of a range pass; one more or less is refused, in the base and in each layer.
    """

    def with_value(value):
        overlay = Overlay(**{field: value})
        changes = {
            "": {field: value},
            "autonomy.PREVIEW.": {"autonomy": {AutonomyMode.PREVIEW: overlay}},
            "irreversible.": {"irreversible": overlay},
        }
        return a_document(**changes[layer])

    for value in (low, high):
        checked(with_value(value), ())
    for value in (low - 1, high + 1):
        with pytest.raises(Rejected, match=f"must be {low} to {high}, not {value}") as refusal:
            checked(with_value(value), ())
        assert refusal.value.path == f"{layer}{field}"


@pytest.mark.parametrize("minutes", [0, 10_081])
def test_an_escalation_step_has_bounds_too(minutes):
    """
    A step's time limit is bounded like the policy's.
    """
    step = EscalationStep(channels=("LOG",), ack_timeout_minutes=minutes)

    with pytest.raises(Rejected, match="must be 1 to 10080") as refusal:
        checked(a_document(require_ack=True, escalation=(step,)), ())

    assert refusal.value.path == "escalation.0.ack_timeout_minutes"


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_a_window_is_a_finite_number(seconds):
    """
    NaN and infinities lie within no bounds.
    """
    with pytest.raises(Rejected, match="dedup_window_seconds must be 0 to 604800"):
        checked(a_document(dedup_window_seconds=seconds), ())


@pytest.mark.parametrize(
    "layer",
    [
        {"irreversible": Overlay(require_ack=True)},
        {"autonomy": {AutonomyMode.LIVE: Overlay(require_ack=True)}},
    ],
    ids=["irreversible", "live"],
)
def test_escalation_may_be_for_a_layer_that_asks(layer):
    """
    Escalation passes where some LIVE request can require an answer.
    """
    checked(a_document(escalation=(EscalationStep(channels=("LOG",)),), **layer), ())


def test_a_channel_of_the_host_may_go_without_a_target():
    """
    The host's own adapter under a known name needs no target; if there is one, it is checked.
    """
    checked(a_document(primary=("EMAIL",)), {"EMAIL"})

    with pytest.raises(Rejected, match=r"targets\.EMAIL\.to is missing"):
        checked(a_document(primary=("EMAIL",), targets={"EMAIL": {"cc": []}}), {"EMAIL"})


@pytest.mark.parametrize(
    "policy",
    [
        {"primary": ("EMAIL",)},
        {"autonomy": {AutonomyMode.PREVIEW: Overlay(channels=ChannelPlan(primary=("EMAIL",)))}},
        {"irreversible": Overlay(channels=ChannelPlan(primary=("LOG",), fallback=("EMAIL",)))},
        {"require_ack": True, "escalation": (EscalationStep(channels=("EMAIL",)),)},
    ],
    ids=["base", "autonomy", "irreversible", "escalation"],
)
def test_a_channel_of_our_own_may_not(policy, monkeypatch):
    """
    Our own adapter would have nowhere to deliver to, wherever in the policy it is named.
    """
    monkeypatch.setattr("uns.core.rules.policy_document.BUILT_IN", ("LOG", "EMAIL"))

    with pytest.raises(Rejected, match=r"targets\.EMAIL\.to is missing"):
        checked(a_document(**policy), ())


def test_a_channel_without_a_schema_takes_any_target():
    """
    What a registered adapter of an unknown name obeys is between it and the operator.
    """
    checked(a_document(primary=("PAGER",), targets={"PAGER": {"any": [{"thing": 1}]}}), {"PAGER"})


def test_a_fault_is_told_with_its_line():
    """
    The message has the line of the key, or of the nearest thing around it that has one.
    """
    lines = {"": 1, "channels": 5, "channels.primary": 6}
    document = PolicyDocument(a_document(primary=("FAX",)).policy, Origin("ops.yaml", lines))

    with pytest.raises(Rejected, match=r"^ops\.yaml, line 6: channels\.primary\.0 names FAX"):
        checked(document, ())


def test_a_fault_of_a_policy_from_no_file_is_told_with_its_id():
    """
    What a program made is named by its policy id.
    """
    with pytest.raises(Rejected, match=r"^policy ops: channels\.primary\.0 names FAX"):
        checked(a_document(primary=("FAX",)), ())
