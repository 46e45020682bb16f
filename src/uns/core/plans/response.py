"""
Responses in one transaction each: acknowledge, dismiss, time out, withdraw.
"""

from __future__ import annotations

from typing import NoReturn

from uns.core.plans.groups import group_of, key_of, row_of, window_of
from uns.core.rules import ack, lineage
from uns.core.rules.ack import Answer
from uns.core.rules.events import Stamp
from uns.core.rules.withdraw import withdraw as decide_withdrawal
from uns.ports.errors import Conflict, Forbidden
from uns.ports.queries import CopiesOfLine, EventsWithIds, LineOf, Overdue
from uns.ports.rows import Notification
from uns.ports.sources import Ids
from uns.ports.store import Plan, Tx, Wants

SWEEP_LIMIT = 100


def respond(id: str, answer: Answer, ids: Ids) -> Plan[Notification]:
    """
    Acknowledge or dismiss the obligation that ``id`` owns.

    Raises:
        NotFound: no such notification.
        Conflict: see ``rules.ack.respond``; or ``id`` is not its own canonical owner, which the
            error then names.
    """

    def run(tx: Tx) -> Notification:
        window = window_of(tx, key_of(tx, id))
        row = row_of(tx, id)
        if lineage.onward(row) is not None:
            _refuse_for_owner(tx, id)
        if ack.provable(row):
            group = group_of(tx, row, window)
            if copies := tuple(tx.find(CopiesOfLine(id))):
                return tx.apply(ack.prove(group, copies, answer, Stamp(ids, tx.now)))
        return tx.apply(ack.respond(row, answer, Stamp(ids, tx.now)))

    return Plan(run, Wants(groups=(id,)))


def expire(*, at: float | None, callback: bool, ids: Ids) -> Plan[int]:
    """
    Time out up to 100 overdue responses; the reply is how many.

    Args:
        at: the instant to judge by, else the transaction's.
    """

    def run(tx: Tx) -> int:
        instant = tx.now if at is None else at
        rows = tx.find(Overdue(instant, SWEEP_LIMIT))
        if rows and (swept := _swept(tx, ids)):
            return swept  # this very plan, committed by an earlier run; its ids are used up
        return sum(
            tx.apply(ack.time_out(row, callback=callback, stamp=Stamp(ids.part(n), instant)))
            for n, row in enumerate(rows)
        )

    return Plan(run)


def withdraw(id: str, *, actor: str, operator: bool, callback: bool, ids: Ids) -> Plan[Notification]:
    """
    Withdraw the obligation that ``id`` owns, as its producer or as an operator.

    Raises:
        NotFound: no such notification.
        Forbidden: ``actor`` neither produced it nor is an operator.
        Conflict: see ``rules.withdraw``; or ``id`` is not its own canonical owner.
    """

    def run(tx: Tx) -> Notification:
        window = window_of(tx, key_of(tx, id))
        row = row_of(tx, id)
        if not operator and actor != row.principal:
            raise Forbidden("only its producer or an operator may withdraw a notification")
        if lineage.onward(row) is not None:
            _refuse_for_owner(tx, id)
        group = group_of(tx, row, window)
        return tx.apply(decide_withdrawal(group, actor=actor, callback=callback, stamp=Stamp(ids, tx.now)))

    return Plan(run, Wants(groups=(id,)))


def _swept(tx: Tx, ids: Ids) -> int:
    told = (ids.part(n).nth(ack.RESPONSE_ID) for n in range(SWEEP_LIMIT))
    return len(tx.find(EventsWithIds(tuple(told))))


def _refuse_for_owner(tx: Tx, id: str) -> NoReturn:
    found = lineage.resolve(id, tx.find(LineOf(id)))
    if found.owner is None:
        raise Conflict(f"the owner of this obligation cannot be found: {found.error}", reason=found.error)
    raise Conflict(
        f"the obligation is owned by {found.owner.id}", obligation_owner_id=found.owner.id, reason="NOT_OWNER"
    )
