import math

import pytest

from uns.ports.errors import Rejected
from uns.ports.targets import (
    BUILT_IN,
    PROTECTED_METADATA,
    TARGETS,
    ChannelTarget,
    check_target,
    protected_keys,
)

REF = "UNS_TARGET_OPS"
RATE = {"rate": {"per_second": 0.5, "burst": 1}}
ACCEPTED = [
    ("LOG", {}),
    ("LOG", RATE),
    ("RECORDING", {}),
    ("SLACK", {"channel": "#ops"}),
    ("SLACK", {"channel": "C012", "bot_token_env": REF, "webhook_url_env": REF} | RATE),
    ("PAGERDUTY", {}),
    ("PAGERDUTY", {"routing_key_env": REF, "severity": "critical"}),
    ("EMAIL", {"to": ["ann@example.org"], "cc": ["bob@example.org"]}),
    ("SMS", {"to": ["+15550001"]}),
    ("DISCORD", {"url": "https://discord.example/api/webhooks/1/secret"}),
    ("DISCORD", {"url_env": REF}),
    ("WEBHOOK", {"url": "http://127.0.0.1:8080", "secret_env": REF}),
    ("WEBHOOK", {"url_env": REF}),
    ("APPRISE", {"url_env": REF}),
]


@pytest.mark.parametrize(("channel", "target"), ACCEPTED)
def test_a_target_passes(channel, target):
    """
    What the documentation shows for a channel is taken.
    """
    check_target(channel, target, f"targets.{channel}")


@pytest.mark.parametrize("channel", TARGETS)
def test_every_channel_takes_a_rate_and_no_unknown_key(channel):
    """
    Pacing is for every channel; a key that a channel does not know is refused by name.
    """
    target = next(target for name, target in ACCEPTED if name == channel)
    check_target(channel, target | RATE, "t")

    with pytest.raises(Rejected, match=r"t\.chanel is not a key that is known here"):
        check_target(channel, target | {"chanel": "#ops"}, "t")


@pytest.mark.parametrize(
    ("channel", "target", "path", "told"),
    [
        ("SLACK", {}, "t.channel", "is missing"),
        ("SLACK", {"channel": 5}, "t.channel", "expected str, got int"),
        ("SLACK", {"channel": "#o ps"}, "t.channel", "matching regex"),
        (
            "SLACK",
            {"channel": "#ops", "bot_token_env": "UNS_SLACK_BOT_TOKEN"},
            "t.bot_token_env",
            "UNS_TARGET_",
        ),
        ("SLACK", {"channel": "#ops", "bot_token_env": "UNS_TARGET_"}, "t.bot_token_env", "UNS_TARGET_"),
        ("SLACK", {"channel": "#ops", "bot_token_env": "UNS_TARGET_a"}, "t.bot_token_env", "UNS_TARGET_"),
        ("SLACK", {"channel": "#ops", "bot_token_env": "XUNS_TARGET_A"}, "t.bot_token_env", "UNS_TARGET_"),
        ("SLACK", {"channel": "#ops", "bot_token_env": "UNS_TARGET_A\n"}, "t.bot_token_env", "UNS_TARGET_"),
        ("PAGERDUTY", {"routing_key_env": "PATH"}, "t.routing_key_env", "UNS_TARGET_"),
        ("PAGERDUTY", {"severity": "mild"}, "t.severity", "is wrong"),
        ("EMAIL", {"to": []}, "t.to", "length >= 1"),
        ("EMAIL", {"to": "ann@example.org"}, "t.to", "expected array, got str"),
        ("EMAIL", {"to": ["ann@example.org", "bob"]}, "t.to.1", "matching regex"),
        ("EMAIL", {"to": ["ann@example.org\r\nBcc: x@y.z"]}, "t.to.0", "matching regex"),
        ("SMS", {}, "t.to", "is missing"),
        ("SMS", {"to": [15550001]}, "t.to.0", "expected str, got int"),
        ("DISCORD", {}, "t", "must have exactly one of url, url_env, not 0 of them"),
        ("WEBHOOK", {}, "t", "must have exactly one of url, url_env, not 0 of them"),
        ("WEBHOOK", {"url": "http://a", "url_env": REF}, "t", "not 2 of them"),
        ("WEBHOOK", {"url": "ftp://a"}, "t.url", "matching regex"),
        ("WEBHOOK", {"url": "http://"}, "t.url", "matching regex"),
        ("APPRISE", {}, "t.url_env", "is missing"),
        ("LOG", {"rate": {"per_second": 1}}, "t.rate.burst", "is missing"),
        ("LOG", {"rate": {"per_second": 0, "burst": 1}}, "t.rate.per_second", "> 0"),
        ("LOG", {"rate": {"per_second": math.nan, "burst": 1}}, "t.rate.per_second", "> 0"),
        ("LOG", {"rate": {"per_second": math.inf, "burst": 1}}, "t.rate.per_second", "<= 10000"),
        ("LOG", {"rate": {"per_second": 1, "burst": 0}}, "t.rate.burst", ">= 1"),
        ("LOG", {"rate": {"per_second": 1, "burst": 1.5}}, "t.rate.burst", "expected int, got float"),
        ("LOG", {"rate": {"per_second": True, "burst": 1}}, "t.rate.per_second", "expected float, got bool"),
    ],
)
def test_a_target_is_refused(channel, target, path, told):
    """
    What a channel cannot obey is refused when the policy is loaded, at the key that is wrong.
    """
    with pytest.raises(Rejected) as refusal:
        check_target(channel, target, "t")

    assert refusal.value.path == path
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    "target",
    [{"url": "https://ann:hunter2@"}, {"url": "ftp://hunter2"}, {"url_env": "hunter2"}, {"url": ["hunter2"]}],
)
def test_a_refusal_repeats_no_value(target):
    """
    A URL or a misplaced secret in a policy never comes back in a message.
    """
    with pytest.raises(Rejected) as refusal:
        check_target("WEBHOOK", target | {"rate": "hunter2"}, "t")

    assert "hunter2" not in str(refusal.value)


def test_what_targets_say_metadata_may_not():
    """
    The keys that are promised to be protected are, and so is every setting of every channel.
    """
    promised = {"email_to", "slack_channel", "pagerduty_routing_key", "uns_resolution"}

    assert promised <= PROTECTED_METADATA
    for channel, schema in TARGETS.items():
        for setting in set(schema.__struct_fields__) - {"rate"}:
            assert f"{channel.lower()}_{setting}" in PROTECTED_METADATA
    assert {"webhook_url", "webhook_url_env", "slack_bot_token"} <= PROTECTED_METADATA
    assert "log_rate" not in PROTECTED_METADATA


def test_a_new_channel_protects_its_settings_by_having_them():
    """
    Protection is derived from the schema; there is no second list to forget.
    """

    class FaxTarget(ChannelTarget, frozen=True, kw_only=True):
        number: str
        pin_env: str | None = None

    assert protected_keys("FAX", FaxTarget) == {"fax_number", "fax_pin", "fax_pin_env"}


def test_what_is_built_in_has_a_schema():
    """
    A channel that comes with the service knows its target.
    """
    assert set(BUILT_IN) <= set(TARGETS)
