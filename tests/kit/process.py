"""
The loops of a process over a ``Ledger``: inline commits, channels by name, no jitter.
"""

from __future__ import annotations

from typing import Any

from kit.commits import InlineCommits
from kit.ledger import Ledger
from uns.adapters.channels.registry import SimpleAdapterRegistry
from uns.core.loops.dispatcher import Dispatcher, Sources
from uns.core.loops.sender import Intake, Sender
from uns.ports.commits import Commits


class Even:
    """
    A chance that always draws the same fraction.
    """

    def __init__(self, fraction: float = 0.0) -> None:
        self._fraction = fraction

    def fraction(self) -> float:
        return self._fraction


def sources(ledger: Ledger, *, jitter: float = 0.0) -> Sources:
    return Sources(ledger.clock, ledger.new_id, Even(jitter))


def a_dispatcher(
    ledger: Ledger, commits: Commits | None = None, *, jitter: float = 0.0, **channels: Any
) -> Dispatcher:
    """
    A dispatcher with these adapters (name=adapter) over the ledger's store.
    """
    return Dispatcher(
        commits or InlineCommits(ledger.store),
        SimpleAdapterRegistry(channels),
        sources(ledger, jitter=jitter),
        ledger.retry,
    )


def a_sender(
    ledger: Ledger, commits: Commits | None = None, *, wants_callback: bool = False, **channels: Any
) -> Sender:
    """
    A sender with these adapters (name=adapter) over the ledger's store.
    """
    commits = commits or InlineCommits(ledger.store)
    intake = Intake(ledger.resolver, sources(ledger), wants_callback=wants_callback)
    return Sender(intake, commits, a_dispatcher(ledger, commits, **channels))
