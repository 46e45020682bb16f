"""
The callback socket: tell the producer's side that a response is terminal.
"""

from __future__ import annotations

from typing import Any, Protocol


class Callback(Protocol):
    """
    Deliver one terminal event (ACKED, DISMISSED, TIMED_OUT). Raising means: try again later.
    """

    async def __call__(self, event: dict[str, Any], /) -> None: ...
