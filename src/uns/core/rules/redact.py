"""
What of a channel's target may be shown: everything but the secret parts of URLs.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

_HIDDEN = "..."


def shown(value: Any) -> Any:
    """
    A copy of a JSON ``value`` fit for events, pages and logs.

    User, path and query of a URL may each be a credential, so of ``http`` and ``https`` only the
    host is left; other schemes (Apprise) carry tokens in its place and keep nothing.
    """
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return _shown_text(value) if isinstance(value, str) else value


def _shown_text(text: str) -> str:
    scheme, mark, _ = text.partition("://")
    if not mark:
        return text
    if scheme.strip().lower() not in {"http", "https"}:
        return _HIDDEN
    try:
        host = urlsplit(text.strip()).hostname
    except ValueError:  # brackets that do not pair up
        host = None
    return f"{scheme}://{host or _HIDDEN}/{_HIDDEN}"
