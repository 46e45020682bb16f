"""
How the ledger must look after every commit: its leaders, lines and windows.

Each function looks at the whole and yields what it finds broken. The labels are those of the
exhaustive model of the rules where it has the same property.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation.lines import components, failed, leading, line_end, lineage_error, live
from simulation.step import UNANSWERED, Step
from uns.ports.rows import Notification
from uns.ports.vocabulary import Status


def lines(step: Step) -> Iterator[str]:
    """
    One pending leader per key, nobody behind an owner that ended, every line resolves.
    """
    leaders: dict[str, str] = {}
    for row in step.new.values():
        if (error := lineage_error(step.new, row.id)) is not None:
            yield f"P1 the lineage of a row does not resolve: {error}"
        if row.dedup_key is not None and leading(row):
            if row.dedup_key in leaders:
                yield "P3 two pending leaders of one key"
            leaders[row.dedup_key] = row.id
        if row.dedup_owner_id is not None:
            yield from _behind(row, step.new[row.dedup_owner_id])
    group_of = {}
    for group in components(step.new):
        group_of.update({row.id: group for row in group})
        if len(live(group)) > 1:
            yield "P3b two live obligations in one lineage"
        if sum(row.ack_status not in UNANSWERED for row in group) > 1:
            yield "P12 two terminal answers in one lineage"
    for before, after in step.changes:
        for target in (before.dedup_owner_id, before.dedup_successor_id) if before is not None else ():
            if target is not None and group_of[target] is not group_of[after.id]:
                yield "a lineage fell apart"


def dead_letters(step: Step) -> Iterator[str]:
    """
    All that can be replayed of one key is one line, and it ends at the window's owner.
    """
    for row in step.new.values():
        if not row.dead_letter or row.dedup_key is None:
            continue
        end = line_end(step.new, row.id)
        if end.dead_letter and step.windows[row.dedup_key].owner_id != end.id:
            yield "a dead letter can be replayed beside its window's owner"
        if not end.dead_letter and failed(end) and not end.withdrawn:
            yield "the end of a line was resolved, and not the whole of it"


def windows(step: Step) -> Iterator[str]:
    """
    A window is owned by nobody's follower, and knows how many wait.
    """
    for window in step.windows.values():
        owner = step.new.get(window.owner_id)
        if owner is None or owner.status is Status.DEDUPLICATED or owner.dedup_owner_id is not None:
            yield "P8 the owner of a window is a follower, or missing"
        elif failed(owner) and owner.dedup_successor_id is not None:
            yield "P8b the owner of a window has failed and has a successor"
        behind = sum(
            row.dedup_owner_id == window.owner_id and row.status is not Status.DEDUPLICATED
            for row in step.new.values()
        )
        if behind != window.followers:
            yield f"a window counts {window.followers} followers where {behind} wait"


EVERY_CHANGE = (lines, windows, dead_letters)


def _behind(row: Notification, owner: Notification) -> Iterator[str]:
    if row.status is Status.PENDING and not leading(owner):
        yield "P4 a follower waits behind an owner that ended"
    if row.status is Status.FAILED and owner.status is Status.DELIVERED:
        yield "C1 a follower says FAILED although its owner was delivered"
    if row.status is Status.DEDUPLICATED and owner.status is not Status.DELIVERED:
        yield "a duplicate is satisfied by an owner that was not delivered"
