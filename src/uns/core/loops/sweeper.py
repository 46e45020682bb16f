"""
Overdue responses: time them out, a hundred at a time.
"""

from __future__ import annotations

from uns.core.plans import response as plans
from uns.ports.commits import Commits
from uns.ports.sources import Ids, NewId


class Sweeper:
    """
    Times out responses whose deadline has passed.
    """

    def __init__(self, commits: Commits, new_id: NewId, *, callback: bool) -> None:
        self._commits = commits
        self._new_id = new_id
        self._callback = callback

    async def sweep(self) -> int:
        """
        Time out up to a hundred; how many were.
        """
        plan = plans.expire(at=None, callback=self._callback, ids=Ids(self._new_id()))
        return await self._commits.run(plan)
