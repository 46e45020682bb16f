"""
What all faces of a runtime share: its parts, and how a plan is run without an event loop.
"""

from __future__ import annotations

import time
from typing import TypeVar
from uuid import UUID

from uns.core.loops.insist import Patience
from uns.entrypoints.wiring import Ledger
from uns.ports.checks import name
from uns.ports.errors import NotFound, StoreUnavailable
from uns.ports.store import Plan

T = TypeVar("T")

Id = UUID | str

_name = name(255)


class Face:
    """
    Some methods of a runtime over its ledger.
    """

    _ledger: Ledger

    def _call(self, plan: Plan[T]) -> T:
        # ``Insistent`` for callers without an event loop: same ids until the store answers.
        patience = Patience(self._ledger.insistent.patience_seconds, time.monotonic())
        while True:
            try:
                return self._ledger.commits.call(plan)
            except StoreUnavailable as error:
                pause = patience.after(error, time.monotonic())
            time.sleep(pause)

    def _read(self, plan: Plan[T]) -> T:
        return self._ledger.store.read(plan)


def named(value: str, path: str) -> str:
    """
    The name of an actor or principal.

    Raises:
        Rejected: it is missing, blank, too long or no single line.
    """
    return str(_name(value, path))


def id_of(value: Id) -> str | None:
    """
    An id in its text form; None for what is no UUID.
    """
    try:
        return str(value if isinstance(value, UUID) else UUID(value))
    except (ValueError, AttributeError, TypeError):
        return None


def known(value: Id) -> str:
    """
    An id in its text form.

    Raises:
        NotFound: it is no UUID, so nothing has it.
    """
    id = id_of(value)
    if id is None:
        raise NotFound
    return id
