"""
The callback outbox: claim a batch, record an outcome, re-arm.
"""

from __future__ import annotations

from collections.abc import Sequence

from uns.core.rules import callbacks as rules
from uns.ports.errors import NotFound
from uns.ports.queries import CallbacksDue, CallbacksExhausted
from uns.ports.rows import Event
from uns.ports.store import Plan, Tx


def claim(tokens: Sequence[str]) -> Plan[tuple[Event, ...]]:
    """
    Lease up to one due callback for each token.
    """

    def run(tx: Tx) -> tuple[Event, ...]:
        # Nothing is due with fewer than 0 attempts: only what an earlier run of this plan leased.
        leased_before = tx.find(CallbacksDue(0, len(tokens), tuple(tokens)))
        held = {event.callback_token for event in leased_before}
        due = tx.find(CallbacksDue(rules.CALLBACK_ATTEMPTS, len(tokens)))
        free = iter([token for token in tokens if token not in held])
        # One whose lease has ended since may be somebody else's to call.
        claimed = [event for event in leased_before if event.callback_until > tx.now]
        for event in due:
            if event.callback_token in held or (token := next(free, None)) is None:
                continue
            if (leased := tx.apply(rules.claim(event, token=token, now=tx.now))) is not None:
                claimed.append(leased)
        return tuple(claimed)

    return Plan(run)


def settle(id: str, *, token: str, error: str | None) -> Plan[bool]:
    """
    Record what a callback came to; False when its lease passed on.
    """

    def run(tx: Tx) -> bool:
        event = tx.get(Event, id)
        return event is not None and tx.apply(rules.settle(event, token=token, error=error, now=tx.now))

    return Plan(run)


def rearm(id: str) -> Plan[bool]:
    """
    Give an exhausted callback three fresh attempts.

    Raises:
        NotFound: no such event.
    """

    def run(tx: Tx) -> bool:
        event = tx.get(Event, id)
        if event is None:
            raise NotFound("Callback event not found")
        return tx.apply(rules.rearm(event, now=tx.now))

    return Plan(run)


def exhausted(limit: int, after: tuple[float, str] = (0.0, "")) -> Plan[list[Event]]:
    """
    The callbacks after a position that nobody will make without an operator. Applies nothing.
    """

    def run(tx: Tx) -> list[Event]:
        found = tx.find(CallbacksExhausted(rules.CALLBACK_ATTEMPTS, limit, after))
        return [event for event in found if rules.exhausted(event, tx.now)]

    return Plan(run)
