"""
The one judgement of what came of an HTTP call: delivered, to be tried again, or refused for good.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite

from uns.adapters.egress.client import Answer
from uns.adapters.egress.errors import EgressError
from uns.ports.channel import ChannelResult

REASON_CHARS = 200
HIDDEN = "..."

_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def classify(outcome: Answer | EgressError, now: float) -> ChannelResult:
    """
    What a channel reports of an answer, or of having had none.

    2xx is success. 408, 425, 429, 5xx and whatever the network does are worth another attempt;
    other 4xx, redirects and refusals are not. A 429 is paced whether or not it says for how long.

    Args:
        now: Unix seconds, to measure a Retry-After date by.
    """
    if isinstance(outcome, EgressError):
        return ChannelResult(False, error=str(outcome), retryable=outcome.retryable)
    status = outcome.status
    metadata = {"http_status": status}
    if 200 <= status <= 299:  # noqa: PLR2004 - successes
        return ChannelResult(True, metadata=metadata)
    return ChannelResult(
        False,
        error=_told(outcome),
        metadata=metadata,
        retryable=status in _LATER or 500 <= status <= 599,  # noqa: PLR2004 - the server's own faults
        retry_after=_pace(outcome, now),
    )


def retry_after(value: str | None, now: float) -> float | None:
    """
    The seconds that a Retry-After header asks for; None when it is none, or not in the future.

    Seconds may be a fraction, as some providers have it. A date is read as HTTP writes it.
    """
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return seconds if isfinite(seconds := float(text)) else None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    wait = (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp() - now
    return wait if wait >= 0 else None


def reason(answer: Answer) -> str:
    """
    The start of a body as one printable line, without what it repeats of the request's secrets.
    """
    words = answer.body.decode("utf-8", "replace")
    for secret in answer.hidden:
        words = words.replace(secret, HIDDEN)
    line = " ".join("".join(c if c.isprintable() else " " for c in words).split())
    return line if len(line) <= REASON_CHARS else f"{line[: REASON_CHARS - 1]}…"


def _told(answer: Answer) -> str:
    said = f"{answer.shown} answered {answer.status}{_phrase(answer.status)}"
    if 300 <= answer.status <= 399:  # noqa: PLR2004 - redirects
        return f"{said}: redirects are not followed"
    why = reason(answer)
    return f"{said}: {why}" if why else said


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _pace(answer: Answer, now: float) -> float | None:
    match answer.status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            # 0.0 still says that the call was paced; the ordinary backoff is never undercut by it.
            return retry_after(answer.header("retry-after"), now) or 0.0
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return retry_after(answer.header("retry-after"), now)
        case _:
            return None
