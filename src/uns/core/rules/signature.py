"""
The signature that uns itself defines: ``X-UNS-Timestamp`` and ``X-UNS-Signature``.

``v1=`` and the hexadecimal HMAC-SHA256 of timestamp, a full stop and the raw body; several with
commas between while a secret rotates.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

TIMESTAMP = "X-UNS-Timestamp"
SIGNATURE = "X-UNS-Signature"
WINDOW_SECONDS = 300

_VERSION = b"v1="
_DIGITS = re.compile(r"[0-9]{1,15}")


def sign(body: bytes, secrets: Sequence[str], timestamp: int) -> dict[str, str]:
    """
    The two headers for ``body`` sent at ``timestamp`` (Unix seconds); none without a secret.
    """
    moment = str(int(timestamp))
    signatures = [signature.decode() for signature in _signatures(body, secrets, moment)]
    return {TIMESTAMP: moment, SIGNATURE: ",".join(signatures)} if signatures else {}


def verify(body: bytes, headers: Mapping[str, str], secrets: Sequence[str], now: float) -> bool:
    """
    Whether ``body`` was signed with one of ``secrets`` at most 300 seconds before or after ``now``.

    Never raises, whatever it is given; what cannot be told apart from a forgery is one. A header
    that comes twice, in whatever case, counts as absent.
    """
    try:
        timestamp, offered = _only(headers, TIMESTAMP), _only(headers, SIGNATURE)
        # Both are always judged, so that how long it takes does not tell which one failed.
        genuine = _matches(offered, list(_signatures(body, secrets, timestamp)))
        return fresh(timestamp, now) and genuine
    except Exception:
        return False


def fresh(timestamp: str, now: float) -> bool:
    """
    Whether ``timestamp``, plain decimal Unix seconds, is within 300 seconds of ``now``, inclusive.
    """
    return _DIGITS.fullmatch(timestamp) is not None and abs(now - int(timestamp)) <= WINDOW_SECONDS


def _signatures(body: bytes, secrets: Sequence[str], timestamp: str) -> Iterator[bytes]:
    signed = b".".join((timestamp.encode(), body))
    for secret in (secrets,) if isinstance(secrets, str) else secrets:
        if secret.strip():  # with no key anybody could sign
            yield _VERSION + hmac.new(secret.encode(), signed, sha256).hexdigest().encode()


def _matches(offered: str, expected: Sequence[bytes]) -> bool:
    candidates = [part.strip().encode() for part in offered.split(",")]
    return any(hmac.compare_digest(known, given) for known in expected for given in candidates)


def _only(headers: Mapping[str, str], name: str) -> str:
    (value,) = (value for given, value in headers.items() if given.lower() == name.lower())
    return value
