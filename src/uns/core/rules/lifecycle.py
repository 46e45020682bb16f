"""
The life of a notification as one table: phases, moves, and which move leads where.

``phase`` names where a row stands. ``MOVES`` holds every legal step; what is not in it is refused
or changes nothing. The diagrams of ``ARCHITECTURE.md`` are drawn from this table.
"""

from __future__ import annotations

from enum import StrEnum

from uns.ports.rows import NOTHING_YET, Notification
from uns.ports.vocabulary import Ack, Status


class Phase(StrEnum):
    """
    Where one row stands, delivery and response together.
    """

    LEADING = "LEADING"
    LEASED = "LEASED"
    FOLLOWING = "FOLLOWING"
    DELIVERED = "DELIVERED"
    AWAITING = "AWAITING"
    ANSWERED = "ANSWERED"
    TIMED_OUT = "TIMED_OUT"
    DEDUPLICATED = "DEDUPLICATED"
    DEAD_LETTER = "DEAD_LETTER"
    FAILED = "FAILED"
    FAILED_WITH_OWNER = "FAILED_WITH_OWNER"
    WITHDRAWN = "WITHDRAWN"


class Move(StrEnum):
    """
    What can happen to a row.
    """

    ACCEPT = "ACCEPT"
    CLAIM = "CLAIM"
    START = "START"
    GIVE_BACK = "GIVE_BACK"
    SETTLE = "SETTLE"
    PROMOTE = "PROMOTE"
    RELINK = "RELINK"
    SATISFY = "SATISFY"
    FAIL_WITH_OWNER = "FAIL_WITH_OWNER"
    HAND_OFF = "HAND_OFF"
    RESPOND = "RESPOND"
    TIME_OUT = "TIME_OUT"
    WITHDRAW = "WITHDRAW"
    REPLAY = "REPLAY"
    RESOLVE = "RESOLVE"


_P = Phase
_M = Move

MOVES: dict[tuple[Phase | None, Move], frozenset[Phase]] = {
    (None, _M.ACCEPT): frozenset({_P.LEADING, _P.FOLLOWING, _P.DEDUPLICATED}),
    (_P.LEADING, _M.CLAIM): frozenset({_P.LEASED}),
    (_P.LEASED, _M.CLAIM): frozenset({_P.LEASED}),  # once the lease before it has ended
    (_P.LEASED, _M.START): frozenset({_P.LEASED}),
    (_P.LEASED, _M.GIVE_BACK): frozenset({_P.LEADING, _P.LEASED}),  # its token may stay, and its time ends
    (_P.LEASED, _M.SETTLE): frozenset({_P.LEADING, _P.DELIVERED, _P.AWAITING, _P.DEAD_LETTER, _P.FAILED}),
    (_P.FOLLOWING, _M.PROMOTE): frozenset({_P.LEADING}),
    (_P.FOLLOWING, _M.RELINK): frozenset({_P.FOLLOWING}),
    (_P.FOLLOWING, _M.SATISFY): frozenset({_P.DEDUPLICATED}),
    (_P.FAILED_WITH_OWNER, _M.SATISFY): frozenset({_P.DEDUPLICATED}),
    (_P.FOLLOWING, _M.FAIL_WITH_OWNER): frozenset({_P.FAILED_WITH_OWNER}),
    (_P.DEAD_LETTER, _M.HAND_OFF): frozenset({_P.DEAD_LETTER}),
    (_P.LEADING, _M.RESPOND): frozenset({_P.ANSWERED}),  # an answer that proves delivery
    (_P.LEASED, _M.RESPOND): frozenset({_P.ANSWERED}),
    (_P.AWAITING, _M.RESPOND): frozenset({_P.ANSWERED}),
    (_P.AWAITING, _M.TIME_OUT): frozenset({_P.TIMED_OUT}),
    (_P.LEADING, _M.WITHDRAW): frozenset({_P.WITHDRAWN}),
    (_P.LEASED, _M.WITHDRAW): frozenset({_P.WITHDRAWN}),
    (_P.AWAITING, _M.WITHDRAW): frozenset({_P.ANSWERED}),
    (_P.DEAD_LETTER, _M.REPLAY): frozenset({_P.LEADING}),
    (_P.DEAD_LETTER, _M.RESOLVE): frozenset({_P.FAILED}),
}


def phase(row: Notification) -> Phase:
    """
    Where ``row`` stands. A lease counts as held until somebody clears or replaces it.
    """
    match row.status:
        case Status.PENDING if not row.leads:
            return Phase.FOLLOWING
        case Status.PENDING:
            return Phase.LEADING if row.lease_token is None else Phase.LEASED
        case Status.DEDUPLICATED:
            return Phase.DEDUPLICATED
        case Status.DELIVERED:
            return _answered(row)
        case Status.FAILED:
            return _failed(row)


def attempted(row: Notification) -> bool:
    """
    Whether ``row`` has been settled once, or is nothing that a worker will attempt.
    """
    return row.status is not Status.PENDING or not row.leads or row.outcome != NOTHING_YET


def _answered(row: Notification) -> Phase:
    match row.ack_status:
        case None:
            return Phase.DELIVERED
        case Ack.PENDING:
            return Phase.AWAITING
        case Ack.TIMED_OUT:
            return Phase.TIMED_OUT
        case Ack.ACKED | Ack.DISMISSED:
            return Phase.ANSWERED


def _failed(row: Notification) -> Phase:
    if row.withdrawn:
        return Phase.WITHDRAWN
    if not row.leads:
        return Phase.FAILED_WITH_OWNER
    return Phase.DEAD_LETTER if row.dead_letter else Phase.FAILED
