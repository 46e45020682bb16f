"""
Dead letters: what blocks a replay, how a replay turns its line, and resolving without one.

A line is a row and the successors it leads to; its *end* is the obligation that is alive.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from uns.core.rules.events import Stamp
from uns.core.rules.lineage import Lineage
from uns.ports.decision import Change, Decision, Signal, SignalKind
from uns.ports.errors import Conflict
from uns.ports.rows import DedupWindow, Notification
from uns.ports.vocabulary import EventKind, ReplayBlock, Status

REPLAY_ID, TURNED_ID = 0, 1

_SENTENCES = {
    ReplayBlock.SUCCESSOR_PENDING: "its successor is still being delivered",
    ReplayBlock.SUCCESSOR_SATISFIED: "Obligation already satisfied by its successor",
    ReplayBlock.RESOLVED: "the end of its line was resolved or ended without a dead letter",
    ReplayBlock.WINDOW_OWNER_PENDING: "another notification of the same key is being delivered",
    ReplayBlock.WINDOW_OWNER_DELIVERED: "another notification of the same key was delivered",
    ReplayBlock.UNRESOLVED_LINEAGE: "its lineage does not resolve",
}


class Blocked(Struct, frozen=True):
    """
    Why a replay is refused, and which row stands in the way (None: the lineage itself).
    """

    reason: ReplayBlock
    by: str | None

    @property
    def sentence(self) -> str:
        return _SENTENCES[self.reason]


class Line(Struct, frozen=True):
    """
    What a replay of ``row`` depends on.

    ``through`` are the ids on the way to the end, ``row`` and the end included.
    """

    row: Notification
    lineage: Lineage
    through: frozenset[str]
    window: DedupWindow | None = None
    window_owner_status: Status | None = None


def blockers(line: Line) -> Blocked | None:
    """
    What stands in the way of replaying a dead letter; None when nothing does.
    """
    end = line.lineage.owner
    if end is None:
        return Blocked(ReplayBlock.UNRESOLVED_LINEAGE, None)
    if end.id != line.row.id:
        if end.status is Status.PENDING:
            return Blocked(ReplayBlock.SUCCESSOR_PENDING, end.id)
        if end.status is not Status.FAILED:
            return Blocked(ReplayBlock.SUCCESSOR_SATISFIED, end.id)
        if not end.dead_letter:
            return Blocked(ReplayBlock.RESOLVED, end.id)
    return _window_blocks(line)


def replay(line: Line, end: Notification, *, actor: str, cycle: int, stamp: Stamp) -> Decision[Notification]:
    """
    Begin a new delivery cycle of ``line.row`` and make it the end of its line.

    Args:
        end: the row at the end of the line (``line.row`` itself without a successor).
        cycle: the cycle the caller decided from; another one means the replay came twice.

    Raises:
        Conflict: not a dead letter, or blocked (see ``blockers``). Not retryable as it stands.
    """
    row = line.row
    if not row.dead_letter or row.cycle != cycle:
        raise Conflict("only a dead-lettered notification can be replayed", reason="NOT_DEAD_LETTERED")
    if (blocked := blockers(line)) is not None:
        raise Conflict(blocked.sentence, replay_blocked_by=blocked.by, reason=blocked.reason)
    after = replace(
        row,
        status=Status.PENDING,
        dead_letter=False,
        cycle=row.cycle + 1,
        cycle_attempts=0,
        paced_since=None,
        next_attempt=stamp.now,
        lease_token=None,
        lease_until=0.0,
        dedup_successor_id=None,
    )
    requested = stamp.event(
        EventKind.REPLAY_REQUESTED,
        row.id,
        REPLAY_ID,
        actor=actor,
        cycle=after.cycle,
        cumulative_attempts=row.attempts,
    )
    changes = [Change(row, after)]
    events = [requested]
    if end.id != row.id:
        changes.append(Change(end, replace(end, dedup_successor_id=row.id)))
        events.append(
            stamp.event(
                EventKind.OBLIGATION_HANDED_OFF,
                end.id,
                TURNED_ID,
                successor_id=row.id,
                generation=row.dedup_generation,
            )
        )
    return Decision(after, tuple(changes), (), tuple(events), (Signal(SignalKind.DUE, row.id),))


def reopen(line: Line, *, waiting: int, now: float) -> Decision[None]:
    """
    Make the replayed row the owner of its window again.

    A pruned window is made anew. ``generation`` never goes down: it numbers new leaders.

    Args:
        waiting: how many rows are still linked behind the row (they had failed with it).
    """
    row, window = line.row, line.window
    if row.dedup_key is None:
        return Decision(None)
    own = row.dedup_generation or 1
    same = window is not None and window.generation == own
    opened = DedupWindow(
        key=row.dedup_key,
        until=now + row.effective.dedup_window_seconds,
        owner_id=row.id,
        generation=max(own, window.generation if window is not None else own),
        handed_on=window.handed_on if window is not None and same else 0,
        followers=waiting,
    )
    return Decision(None, (Change(window, opened),))


def resolve(rows: Sequence[Notification], *, actor: str, stamp: Stamp) -> Decision[bool]:
    """
    Clear ``dead_letter`` on ``rows`` after remediation outside. FAILED and the audit stay.
    """
    dead = [row for row in rows if row.dead_letter]
    return Decision(
        bool(dead),
        tuple(Change(row, replace(row, dead_letter=False)) for row in dead),
        (),
        tuple(stamp.event(EventKind.FAILURE_RESOLVED, row.id, n, actor=actor) for n, row in enumerate(dead)),
    )


def _window_blocks(line: Line) -> Blocked | None:
    window = line.window
    if window is None or window.owner_id in line.through:
        return None
    if line.window_owner_status is Status.PENDING:
        return Blocked(ReplayBlock.WINDOW_OWNER_PENDING, window.owner_id)
    if line.window_owner_status is Status.DELIVERED:
        return Blocked(ReplayBlock.WINDOW_OWNER_DELIVERED, window.owner_id)
    return None
