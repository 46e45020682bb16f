"""
Where notifications go: what a call that hangs would keep waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uns.ports.channel import ChannelRegistry
from uns.ports.rows import Notification

_KEPT = 1024


class Destinations:
    """
    Names the destinations of rows: the channel, and what its adapter tells of the target.

    An adapter may have ``destination(target) -> str | None``: its own name for what is behind a
    target, None where nothing is that could hang. One without it is a single destination.
    """

    def __init__(self, channels: ChannelRegistry) -> None:
        self._channels = channels
        self._known: dict[str, tuple[str, ...]] = {}

    def of_row(self, row: Notification) -> tuple[str, ...]:
        """
        Those of the primaries: fallbacks are called rarely, and never first.
        """
        known = self._known.get(row.effective_hash)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            targets = row.effective.targets
            found = {self.of(name, targets.get(name, {})) for name in row.effective.channels.primary}
            known = self._known[row.effective_hash] = tuple(sorted(filter(None, found)))
        return known

    def of(self, channel: str, target: Mapping[str, Any]) -> str | None:
        """
        The destination of one call.
        """
        ask = getattr(self._channels.get(channel), "destination", None)
        if ask is None:
            return channel
        try:
            told = ask(target)
        except Exception:  # the call itself will say what is wrong with its target
            return channel
        return None if told is None else f"{channel} {told}"

    def leading_to(self, full: set[str]) -> tuple[str, ...]:
        """
        The effective hashes of the rows seen lately that go to one of these destinations.
        """
        return tuple(hash for hash, to in self._known.items() if not full.isdisjoint(to)) if full else ()
