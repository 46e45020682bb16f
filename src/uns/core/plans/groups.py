"""
Reads that several plans share, in the one lock order: window first, then rows.
"""

from __future__ import annotations

from uns.core.rules.followers import Group
from uns.ports.errors import NotFound
from uns.ports.queries import DedupKeyOf, FollowerCount, FollowersOf
from uns.ports.rows import DedupWindow, Notification
from uns.ports.store import Tx
from uns.ports.vocabulary import Status


def window_of(tx: Tx, dedup_key: str | None) -> DedupWindow | None:
    """
    The window of a key, locked; None without a key.
    """
    return None if dedup_key is None else tx.get(DedupWindow, dedup_key)


def key_of(tx: Tx, id: str) -> str | None:
    """
    The dedup key of a notification, learnt without a lock.

    Raises:
        NotFound: there is no such notification.
    """
    found = tx.find(DedupKeyOf(id))
    if not found:
        raise NotFound
    return found[0]


def row_of(tx: Tx, id: str) -> Notification:
    """
    The notification, locked.

    Raises:
        NotFound: there is no such notification.
    """
    row = tx.get(Notification, id)
    if row is None:
        raise NotFound
    return row


def group_of(tx: Tx, row: Notification, window: DedupWindow | None) -> Group:
    """
    ``row`` as the leader of those behind it. Followers are read only when there are any.
    """
    if window is None or window.owner_id != row.id or not window.followers:
        return Group(row, window)
    heirs = tx.find(FollowersOf(row.id, Status.PENDING, 1))
    if not heirs:
        return Group(row, window)
    waiting = tx.find(FollowerCount(row.id, (Status.PENDING,)))[0]
    return Group(row, window, heirs[0], waiting)
