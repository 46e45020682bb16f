"""
What an operator may write under ``targets`` for each channel, and what no producer may say.

A channel's schema is the only place that knows which settings its adapter obeys. The protected
metadata keys are derived from it, so a new channel cannot forget them: give it a schema here.
Secrets stand in a policy by reference only, as names of environment variables.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from uns.ports.checks import fault
from uns.ports.strict import convert

BUILT_IN = ("LOG", "RECORDING")

SecretRef = Annotated[str, Meta(pattern=r"^UNS_TARGET_[A-Z0-9_]+\Z")]
Url = Annotated[str, Meta(pattern=r"^https?://[^\s/?#]+\S*\Z", max_length=2048)]
Name = Annotated[str, Meta(pattern=r"^\S+\Z", max_length=255)]
Address = Annotated[str, Meta(pattern=r"^[^@\s]+@[^@\s]+\Z", max_length=320)]


class Rate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    The pace a destination is held to: ``burst`` calls at once, then ``per_second``.
    """

    per_second: Annotated[float, Meta(gt=0, le=10_000)]
    burst: Annotated[int, Meta(ge=1, le=100_000)]


class ChannelTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    What every channel takes. Of the fields in ``one_of``, if any, exactly one must be given.
    """

    one_of: ClassVar[tuple[str, ...]] = ()

    rate: Rate | None = None


class LogTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    The service's own log. Needs nothing.
    """


class RecordingTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    A list in memory, for trying things out. Needs nothing.
    """


class SlackTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    A Slack channel, by the default bot token unless a token or incoming webhook is referred to.
    """

    channel: Name
    bot_token_env: SecretRef | None = None
    webhook_url_env: SecretRef | None = None


class PagerDutyTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    A PagerDuty service, by the default routing key unless another is referred to.
    """

    routing_key_env: SecretRef | None = None
    severity: Literal["critical", "error", "warning", "info"] | None = None


class EmailTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Mail addresses.
    """

    to: Annotated[tuple[Address, ...], Meta(min_length=1, max_length=100)]
    cc: Annotated[tuple[Address, ...], Meta(max_length=100)] = ()


class SmsTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Phone numbers.
    """

    to: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=100)]


class DiscordTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    A Discord webhook.
    """

    one_of = ("url", "url_env")

    url: Url | None = None
    url_env: SecretRef | None = None


class WebhookTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Any HTTP endpoint; signed when it or the service has a secret.
    """

    one_of = ("url", "url_env")

    url: Url | None = None
    url_env: SecretRef | None = None
    secret_env: SecretRef | None = None


class AppriseTarget(ChannelTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Whatever an Apprise URL leads to.
    """

    url_env: SecretRef


TARGETS: dict[str, type[ChannelTarget]] = {
    "LOG": LogTarget,
    "RECORDING": RecordingTarget,
    "SLACK": SlackTarget,
    "PAGERDUTY": PagerDutyTarget,
    "EMAIL": EmailTarget,
    "SMS": SmsTarget,
    "DISCORD": DiscordTarget,
    "WEBHOOK": WebhookTarget,
    "APPRISE": AppriseTarget,
}


def check_target(channel: str, target: dict[str, Any], path: str) -> None:
    """
    Let the ``target`` of a channel that has a schema pass, or refuse it.

    Raises:
        Rejected: it is not what the channel takes. The message repeats no value: a URL may hold
            credentials.
    """
    schema = TARGETS[channel]
    typed = convert(target, schema, path)
    given = [name for name in schema.one_of if getattr(typed, name) is not None]
    if schema.one_of and len(given) != 1:
        raise fault(path, f"must have exactly one of {', '.join(schema.one_of)}, not {len(given)} of them")


def protected_keys(channel: str, schema: type[ChannelTarget]) -> frozenset[str]:
    """
    The metadata keys that would say what only the operator's target may: ``<channel>_<setting>``.

    A setting that refers to a secret is protected under its own name and that of the secret.
    """
    settings = set(schema.__struct_fields__) - {"rate"}
    settings |= {name.removesuffix("_env") for name in settings}
    return frozenset(f"{channel.lower()}_{name}" for name in settings)


PROTECTED_METADATA = frozenset({"uns_resolution"}).union(
    *(protected_keys(channel, schema) for channel, schema in TARGETS.items())
)
