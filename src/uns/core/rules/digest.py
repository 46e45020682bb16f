"""
Digests: by what the ledger recognises a request, a retry and an obligation.

Digests are stored and compared for years, so they hash what was meant, never how it was written:
canonical JSON, in which key order, white space, escapes, omitted defaults and the fraction of whole
numbers are gone. All are 64 lower-case hexadecimal digits of SHA-256. The vectors in the tests hold
them still.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from uns.ports.requests import SendNotificationRequest

_FORM = 1
_EXACT = 2.0**53
_FIELDS = SendNotificationRequest.__struct_fields__
_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(obj: object) -> bytes:
    """
    The one JSON text of ``obj``: compact UTF-8, keys sorted by code point, defaults written out.

    Enums and UUIDs become text; integers keep every digit. For finite numbers only: NaN and
    infinities would become null.
    """
    return _encode(obj)


def fingerprint(request: SendNotificationRequest) -> str:
    """
    What tells a retry from another request under the same idempotency key.

    Every field counts, with its default where none was given. A field that is added to requests
    later must be left out of the form while it has its default, or every retry across that upgrade
    would be a conflict.
    """
    fields = {name: getattr(request, name) for name in _FIELDS}  # a door's subclass may have more
    if request.metadata:
        fields["metadata"] = _whole(request.metadata)
    return _digest({"form": _FORM, "request": fields})


def idempotency_digest(principal: str, source: str, idempotency_key: str) -> str:
    """
    The stored ``key`` of a producer's request.
    """
    return _digest([principal, source, idempotency_key])


def internal_digest(purpose: str, id: str, step: str | int) -> str:
    """
    The stored ``key`` of work that the service gives itself. Four parts: no producer's equals it.
    """
    return _digest(["uns", purpose, id, step])


def content_dedup_key(request: SendNotificationRequest) -> str:
    """
    The dedup key of a request that names none. Metadata does not count: it carries times.
    """
    return _digest(
        [
            request.notification_type,
            request.intent,
            request.title,
            request.message,
            request.autonomy_context.agent_id,
        ]
    )


def dedup_digest(principal: str, source: str, dedup_key: str, effective_hash: str) -> str:
    """
    The stored ``dedup_key``: who coalesces with whom, under which settings.
    """
    return _digest([principal, source, dedup_key, effective_hash])


def _whole(value: Any) -> Any:
    # 1 and 1.0 are one number in JSON (RFC 8785, section 3.2.2.3), and a retry may come from a client
    # that writes the other: whole numbers count without their fraction, as far as a double is exact.
    if isinstance(value, dict):
        return {key: _whole(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    whole = isinstance(value, float) and abs(value) < _EXACT and value.is_integer()
    return int(value) if whole else value


def _digest(obj: object) -> str:
    return sha256(canonical(obj)).hexdigest()
