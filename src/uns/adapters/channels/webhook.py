"""
WEBHOOK: the notification as JSON, to any HTTP endpoint, signed as Standard Webhooks has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from uns.adapters.egress import EgressError, GuardedClient, Refused, classify, destination
from uns.adapters.standard_webhooks import Signer, secrets_in
from uns.ports.channel import ChannelMessage, ChannelResult, Content
from uns.ports.errors import Rejected
from uns.ports.sources import Clock
from uns.ports.strict import convert
from uns.ports.targets import WebhookTarget

SETTING = "UNS_WEBHOOK_SIGNING_SECRET"

_SHARE = 0.95
"""Of the time that a call has: what is left lets it end by itself, and say how."""

_INTERNAL = "uns_resolution"

_encode = msgspec.json.Encoder().encode


class Payload(Struct, frozen=True, gc=False):
    """
    What arrives. The same bytes for every attempt, after a replay too, but for ``attempt``.
    """

    type: str
    attempt: int
    data: Content


class WebhookChannel:
    """
    Posts to ``url`` or the setting named by ``url_env`` of the target.

    Args:
        environ: the settings that ``url_env`` and ``secret_env`` refer to, by name.
        secrets: what to sign with where the target names no secret of its own.

    Raises:
        Rejected: a secret cannot be one; names the setting.
    """

    def __init__(
        self,
        client: GuardedClient,
        clock: Clock,
        *,
        environ: Mapping[str, str],
        secrets: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._clock = clock
        self._environ = environ
        self._signer = Signer(secrets, SETTING)

    def destination(self, target: Mapping[str, object]) -> str:
        """
        The host, and the port if it is an unusual one.

        Raises:
            Rejected: the target names no URL, or a setting that is not set.
            Refused: the URL may not be called.
        """
        url, _ = self._destination(target)
        return destination(url, self._client.egress).shown

    def check_target(self, target: Mapping[str, object]) -> None:
        """
        Refuse a target inside the network, as far as can be told without asking for addresses.

        A setting that is not set here may be set where notifications are sent from.

        Raises:
            Rejected: the URL may not be called; ``path`` names the field.
        """
        to = convert(dict(target), WebhookTarget, "targets.WEBHOOK")
        field = "url" if to.url is not None else "url_env"
        url = to.url or self._environ.get(to.url_env or "", "").strip()
        if not url:
            return
        try:
            destination(url, self._client.egress)
        except Refused as refused:
            raise Rejected(f"{field}: {refused}", path=field) from None

    async def send(self, message: ChannelMessage) -> ChannelResult:
        try:
            url, signer = self._destination(message.target)
        except Rejected as fault:  # settings may be put right while the notification is tried again
            return ChannelResult(False, error=str(fault))
        content = message.notification
        body = _encode(_payload(content, message.attempt))
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": message.idempotency_token,
            **signer.headers(content.id, self._clock.now(), body),
        }
        seconds = message.deadline * _SHARE
        try:
            answer = await self._client.request("POST", url, headers=headers, body=body, seconds=seconds)
        except EgressError as error:
            return classify(error, self._clock.now())
        result = classify(answer, self._clock.now())
        return replace(result, message_id=content.id) if result.success else result

    def _destination(self, target: Mapping[str, object]) -> tuple[str, Signer]:
        to = convert(dict(target), WebhookTarget, "targets.WEBHOOK")
        signer = self._signer
        if to.secret_env is not None:
            signer = Signer(secrets_in(self._setting(to.secret_env)), to.secret_env)
        if to.url is None and to.url_env is None:
            raise Rejected("targets.WEBHOOK has neither url nor url_env", path="targets.WEBHOOK")
        return to.url or self._setting(to.url_env or ""), signer

    def _setting(self, name: str) -> str:
        if value := self._environ.get(name, "").strip():
            return value
        raise Rejected(f"{name} is not set", path=name)


def _payload(content: Content, attempt: int) -> Payload:
    metadata = {key: value for key, value in content.metadata.items() if key != _INTERNAL}
    return Payload(content.notification_type, attempt, replace(content, metadata=metadata))
