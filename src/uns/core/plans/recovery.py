"""
Dead letters in one transaction each: replay, resolve, and the list with what blocks each.
"""

from __future__ import annotations

from msgspec import Struct

from uns.core.plans.groups import key_of, row_of, window_of
from uns.core.rules import recovery as rules
from uns.core.rules.events import Stamp
from uns.core.rules.lineage import onward, resolve
from uns.core.rules.recovery import Blocked, Line
from uns.ports.errors import Conflict
from uns.ports.queries import DeadLetters, FollowerCount, LineInto, LineOf
from uns.ports.rows import DedupWindow, Event, Notification
from uns.ports.sources import Ids
from uns.ports.store import Plan, Tx, Wants
from uns.ports.vocabulary import Status


class DeadLetter(Struct, frozen=True):
    """
    A dead-lettered row and what blocks its replay, if anything does.
    """

    row: Notification
    blocked: Blocked | None


def replay(id: str, *, actor: str, cycle: int, ids: Ids) -> Plan[Notification]:
    """
    Begin a new delivery cycle of a dead letter.

    Args:
        cycle: the row's cycle when the caller decided.

    Raises:
        NotFound: no such notification.
        Conflict: see ``rules.recovery.replay``.
    """

    def run(tx: Tx) -> Notification:
        window = window_of(tx, key_of(tx, id))
        row = row_of(tx, id)
        line = _line(tx, row, window)
        owner = line.lineage.owner
        end = row if owner is None or owner.id == id else row_of(tx, owner.id)
        waiting = tx.find(FollowerCount(id, (Status.PENDING, Status.FAILED)))[0]
        if row.cycle != cycle and tx.get(Event, ids.nth(rules.REPLAY_ID)) is not None:
            return row  # this very plan, committed by an earlier run
        replayed = tx.apply(rules.replay(line, end, actor=actor, cycle=cycle, stamp=Stamp(ids, tx.now)))
        tx.apply(rules.reopen(line, waiting=waiting, now=tx.now))
        return replayed

    return Plan(run, Wants(groups=(id,)))


def resolve_failure(id: str, *, actor: str, ids: Ids) -> Plan[bool]:
    """
    Clear a dead letter, and the whole line when ``id`` is its end.

    The reply is False when the row is unknown or no dead letter.
    """

    def run(tx: Tx) -> bool:
        row = tx.get(Notification, id)
        if row is None:
            return False
        if not row.dead_letter:
            return tx.get(Event, ids.nth(0)) is not None  # this very plan, committed before
        rows = tx.find(LineInto(id)) if onward(row) is None else [row]
        return tx.apply(rules.resolve(rows, actor=actor, stamp=Stamp(ids, tx.now)))

    return Plan(run, Wants(rows=(id,)))


def dead_letters(limit: int, after: tuple[float, str] = (0.0, "")) -> Plan[list[DeadLetter]]:
    """
    The dead letters after a position, each with what blocks its replay. Applies nothing.
    """

    def run(tx: Tx) -> list[DeadLetter]:
        rows = tx.find(DeadLetters(limit, after))
        return [DeadLetter(row, rules.blockers(_line(tx, row, window_of(tx, row.dedup_key)))) for row in rows]

    return Plan(run)


def dead_letter_cycle(id: str) -> Plan[int]:
    """
    The cycle to replay from. Applies nothing.

    Raises:
        NotFound: no such notification.
        Conflict: it is not a dead letter.
    """

    def run(tx: Tx) -> int:
        row = row_of(tx, id)
        if not row.dead_letter:
            raise Conflict(
                f"only a dead-lettered notification can be replayed; it is {row.status}",
                reason="NOT_DEAD_LETTERED",
            )
        return row.cycle

    return Plan(run)


def _line(tx: Tx, row: Notification, window: DedupWindow | None) -> Line:
    links = tx.find(LineOf(row.id))
    through = frozenset(link.id for link in links)
    outside = window is not None and window.owner_id not in through
    owner = tx.get(Notification, window.owner_id) if window is not None and outside else None
    return Line(
        row=row,
        lineage=resolve(row.id, links),
        through=through,
        window=window,
        window_owner_status=owner.status if owner is not None else None,
    )
