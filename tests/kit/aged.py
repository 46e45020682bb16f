"""
A ledger that has run for a while: nearly all is delivered, a few wait for something.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from kit.builders import NOW, a_notification, an_effective
from kit.rows import FULL, a_copy, a_window, an_event
from uns.adapters.sql.codec import STORED
from uns.ports.rows import Copy, DedupWindow, Event, Notification
from uns.ports.vocabulary import Ack, Priority, Status

ROWS = 10_000


def aged() -> dict[type, list[Any]]:
    """
    Its rows by type: ten thousand of each of the hot ones, and one of the others.
    """
    rows = [*_hot(), *(row for row in FULL if type(row) not in {Notification, Event, Copy, DedupWindow})]
    return {kind: [row for row in rows if type(row) is kind] for kind in STORED}


def _hot() -> Iterator[Any]:
    chance = random.Random(1)
    effective = an_effective()
    for n in range(ROWS):
        fields: dict[str, Any] = {"accepted_at": NOW + n, "next_attempt": NOW + n, "status": Status.DELIVERED}
        fields |= {"dedup_key": f"d{n // 3}", "notification_type": f"type.{n % 50}"}
        match n % 100:
            case 0:
                fields |= {"status": Status.PENDING, "priority": chance.choice([*Priority])}
            case 1:
                fields |= {"status": Status.PENDING, "dedup_owner_id": f"n{n - 1}"}
            case 2:
                fields |= {"status": Status.FAILED, "dead_letter": True, "dedup_successor_id": f"n{n + 1}"}
            case 3:
                fields |= {"ack_status": Ack.PENDING, "deadline": NOW + n}
        yield a_notification(f"n{n}", effective=effective, **fields)
        yield an_event(f"e{n}", f"n{n // 5}", callback_pending=n % 100 == 0, callback_until=NOW + n)
        yield a_copy(f"n{n}")
        yield a_window(f"d{n}")
