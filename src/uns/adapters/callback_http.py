"""
The callback over HTTP: one terminal event, posted to the one address that the operator configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from uns.adapters.egress import Egress, EgressError, GuardedClient, Refused, classify, destination
from uns.adapters.standard_webhooks import Signer
from uns.ports.errors import Rejected
from uns.ports.sources import Clock

URL_SETTING = "UNS_CALLBACK_URL"
SECRET_SETTING = "UNS_CALLBACK_SECRET"  # noqa: S105 - its name

SECONDS = 9.5
"""Within the ten seconds that a callback has, so that it ends by itself and says how."""

Sign = Callable[[bytes, Sequence[str], int], Mapping[str, str]]
"""From the body, the secrets and Unix seconds to headers: the signature that uns itself defines."""


class CallbackFailed(Exception):
    """
    The event was not taken. The message is fit to be stored.
    """


class HttpCallback:
    """
    Posts events as JSON, with the headers of Standard Webhooks and those that ``sign`` makes.

    ``webhook-id`` is the event's id, so it is the same for every attempt; the time is the attempt's.

    Raises:
        Rejected: the URL may not be called, or a secret cannot be one; names the setting.
    """

    def __init__(
        self, client: GuardedClient, clock: Clock, url: str, *, secrets: Sequence[str] = (), sign: Sign
    ) -> None:
        _check(url, client.egress)
        self._client = client
        self._clock = clock
        self._url = url
        self._secrets = tuple(secrets)
        self._signer = Signer(secrets, SECRET_SETTING)
        self._sign = sign

    async def __call__(self, event: dict[str, Any], /) -> None:
        """
        Deliver ``event``.

        Raises:
            CallbackFailed: it was not answered with success, within 9.5 seconds.
        """
        body, now = msgspec.json.encode(event), self._clock.now()
        headers = {
            "Content-Type": "application/json",
            **self._signer.headers(str(event["id"]), now, body),
            **self._sign(body, self._secrets, int(now)),
        }
        try:
            answer = await self._client.request(
                "POST", self._url, headers=headers, body=body, seconds=SECONDS
            )
        except EgressError as error:
            raise CallbackFailed(str(error)) from None
        result = classify(answer, now)
        if not result.success:
            raise CallbackFailed(result.error)


def _check(url: str, egress: Egress) -> None:
    try:
        destination(url, egress)
    except Refused as error:
        raise Rejected(f"{URL_SETTING}: {error}", path=URL_SETTING) from None
