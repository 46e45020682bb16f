"""
Budgets and delays of a delivery cycle.
"""

from __future__ import annotations

from msgspec import Struct

from uns.ports.rows import Notification

MAX_DELAY_SECONDS = 300.0
MAX_RETRY_AFTER_SECONDS = 3600.0
PACED_SECONDS = 900.0
SHORTEST_PACED_SECONDS = 1.0
JITTER = 0.2
_MAX_DOUBLINGS = 30  # beyond this every delay is capped anyway, and floats would overflow


class Retry(Struct, frozen=True):
    """
    How often, and how soon, a GUARANTEED notification is tried again.

    ``jitter`` is a fraction 0 <= x < 1 drawn for one decision; it adds up to 20 %.
    """

    max_attempts: int = 3
    base_seconds: float = 1.0
    jitter: float = 0.0

    def budget(self, row: Notification) -> int:
        """
        Attempts per cycle: one for BEST_EFFORT, else the policy's number or this runtime's.
        """
        if not row.guaranteed:
            return 1
        return row.effective.max_attempts or self.max_attempts

    def delay(self, attempt: int, *, retry_after: float | None = None) -> float:
        """
        Seconds to wait after the ``attempt``-th attempt (from 1) of a cycle has failed.

        Args:
            retry_after: what the provider asked for; raises the delay, up to one hour.
        """
        doublings = min(max(attempt, 1) - 1, _MAX_DOUBLINGS)
        backoff = min(self.base_seconds * 2.0**doublings, MAX_DELAY_SECONDS) * (1 + JITTER * self.jitter)
        return max(backoff, min(retry_after or 0.0, MAX_RETRY_AFTER_SECONDS))
