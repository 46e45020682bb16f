"""
The lineage rules once more, walked row by row: what the ledger's own queries are checked against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from uns.ports.rows import Notification
from uns.ports.vocabulary import Status

Rows = Mapping[str, Notification]


def lineage_error(rows: Rows, id: str) -> str | None:
    """
    Why ``id`` does not resolve to an owner; None when it does.
    """
    seen, row = {id}, rows[id]
    while (target := row.dedup_owner_id or (row.dedup_successor_id if failed(row) else None)) is not None:
        if target in seen:
            return "CYCLE"
        if target not in rows:
            return "MISSING_TARGET"
        following, row = row, rows[target]
        if following.dedup_key != row.dedup_key:
            return "GROUP_MISMATCH"
        if following.dedup_owner_id is not None and following.dedup_generation != row.dedup_generation:
            return "GROUP_MISMATCH"
        seen.add(target)
    return None


def line_end(rows: Rows, id: str) -> Notification:
    """
    The last row that the successors of ``id`` lead to.
    """
    seen, row = {id}, rows[id]
    while failed(row) and row.dedup_successor_id is not None and row.dedup_successor_id not in seen:
        seen.add(row.dedup_successor_id)
        row = rows[row.dedup_successor_id]
    return row


def components(rows: Rows) -> list[list[Notification]]:
    """
    All rows, grouped by what their links join in either direction.
    """
    group_of: dict[str, set[str]] = {id: {id} for id in rows}
    for row in rows.values():
        for target in (row.dedup_owner_id, row.dedup_successor_id):
            if target in rows and group_of[target] is not group_of[row.id]:
                merged = group_of[target] | group_of[row.id]
                group_of.update(dict.fromkeys(merged, merged))
    distinct = {id(group): group for group in group_of.values()}
    return [[rows[member] for member in sorted(group)] for group in distinct.values()]


def component(rows: Rows, id: str) -> list[Notification]:
    """
    The group of ``id`` among ``components``.
    """
    return next(group for group in components(rows) if any(row.id == id for row in group))


def live(group: Iterable[Notification]) -> list[Notification]:
    """
    The obligations of a group that are delivered or being delivered.
    """
    return [row for row in group if row.status is Status.DELIVERED or leading(row)]


def leading(row: Notification) -> bool:
    return row.status is Status.PENDING and row.dedup_owner_id is None


def failed(row: Notification) -> bool:
    return row.status is Status.FAILED
