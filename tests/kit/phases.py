"""
A valid row for every phase of its life.
"""

from __future__ import annotations

from typing import Any

from kit.builders import NOW, a_notification, an_effective
from uns.core.rules.lifecycle import Phase
from uns.ports.rows import Notification, Outcome
from uns.ports.vocabulary import Ack, Status

OWNER = "owner"
TOKEN = "token"
ACK_SECONDS = 900.0

_ASKING = an_effective(require_ack=True, ack_timeout_minutes=15)
_DELIVERED: dict[str, Any] = {
    "status": Status.DELIVERED,
    "outcome": Outcome(channels_attempted=("SLACK",), channels_succeeded=("SLACK",)),
    "attempts": 1,
    "cycle_attempts": 1,
    "delivered_at": NOW,
}
_ASKED = _DELIVERED | {"effective": _ASKING, "ack_status": Ack.PENDING, "deadline": NOW + ACK_SECONDS}
_FAILED: dict[str, Any] = {
    "status": Status.FAILED,
    "outcome": Outcome(channels_attempted=("SLACK",), channels_failed=("SLACK",), error_message="SLACK: no"),
    "attempts": 3,
    "cycle_attempts": 3,
}

_FIELDS: dict[Phase, dict[str, Any]] = {
    Phase.LEADING: {},
    Phase.LEASED: {"lease_token": TOKEN, "lease_until": NOW + 60, "attempts": 1, "cycle_attempts": 1},
    Phase.FOLLOWING: {"dedup_owner_id": OWNER},
    Phase.DELIVERED: _DELIVERED,
    Phase.AWAITING: _ASKED,
    Phase.ANSWERED: _ASKED | {"ack_status": Ack.ACKED, "actor": "ann", "responded_at": NOW},
    Phase.TIMED_OUT: _ASKED
    | {
        "ack_status": Ack.TIMED_OUT,
        "actor": "uns-timeout-worker",
        "deadline": NOW,
        "responded_at": NOW,
        "response_metadata": '{"escalation_required":true}',
    },
    Phase.DEDUPLICATED: {"status": Status.DEDUPLICATED, "dedup_owner_id": OWNER},
    Phase.DEAD_LETTER: _FAILED | {"dead_letter": True},
    Phase.FAILED: _FAILED,
    Phase.FAILED_WITH_OWNER: {
        "status": Status.FAILED,
        "dedup_owner_id": OWNER,
        "outcome": Outcome(error_message="failed with its owner"),
    },
    Phase.WITHDRAWN: {
        "status": Status.FAILED,
        "withdrawn": True,
        "outcome": Outcome(error_message="withdrawn"),
    },
}


def a_row_in(phase: Phase, id: str = "n1", **fields: Any) -> Notification:
    """
    A row of generation 1 that stands in ``phase`` at ``NOW``.

    Followers belong to ``OWNER``, the lease to ``TOKEN`` for 60 s, an answer is due in 900 s.
    """
    return a_notification(id, **(_FIELDS[phase] | fields))
