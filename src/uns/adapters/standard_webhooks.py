"""
The headers of Standard Webhooks 1.0.0, by which a receiver tells who sent and what it has seen.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from standardwebhooks import Webhook

from uns.ports.errors import Rejected

_PREFIX = "whsec_"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class Signer:
    """
    Signs with every secret it was given: the present one and, while it rotates, its successor.

    Args:
        setting: the name of the setting that the secrets come from, for complaints.

    Raises:
        Rejected: what follows ``whsec_`` is not base64. The message names the setting, no value.
    """

    def __init__(self, secrets: Sequence[str], setting: str) -> None:
        keys = [key for secret in secrets for key in _keys(secret, setting)]
        self._hooks = tuple(Webhook(key) for key in dict.fromkeys(keys))

    def headers(self, id: str, at: float, body: bytes) -> dict[str, str]:
        """
        The three headers of one attempt, made at ``at`` (Unix seconds); no signature without a secret.

        Args:
            id: the same for every attempt, so that a receiver can tell a repetition by it.
            body: the exact bytes, UTF-8.
        """
        seconds = int(at)
        headers = {"webhook-id": id, "webhook-timestamp": str(seconds)}
        if self._hooks:
            time, text = datetime.fromtimestamp(seconds, UTC), body.decode()
            headers["webhook-signature"] = " ".join(hook.sign(id, time, text) for hook in self._hooks)
        return headers


def secrets_in(value: str) -> tuple[str, ...]:
    """
    The secrets that a setting holds: one, or several with commas between while it rotates.
    """
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _keys(secret: str, setting: str) -> Iterable[bytes]:
    """
    The keys that a receiver may make of a secret.

    Without ``whsec_`` the libraries read a secret as base64 too, where a human takes it as it
    stands: each gets a signature.
    """
    if secret.startswith(_PREFIX):
        if (key := _decoded(secret.removeprefix(_PREFIX))) is None:
            raise Rejected(f"{setting}: what follows {_PREFIX} must be base64", path=setting)
        return (key,)
    return (secret.encode(), *filter(None, (_decoded(secret),)))


def _decoded(text: str) -> bytes | None:
    if _BASE64.fullmatch(text):
        with suppress(binascii.Error):  # a length that base64 does not have
            return b64decode(text.rstrip("=") + "==")
    return None
