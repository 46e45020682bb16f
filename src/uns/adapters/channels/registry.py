"""
The channel adapters of a process, by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from uns.ports.channel import Channel, ChannelRegistry


class SimpleAdapterRegistry:
    """
    A dictionary of adapters. Names are upper case, as in policies.
    """

    def __init__(self, adapters: Mapping[str, Channel] | None = None) -> None:
        self._adapters: dict[str, Channel] = dict(adapters or {})

    def register(self, name: str, adapter: Channel) -> None:
        """
        Add an adapter, or replace the one of this name.
        """
        self._adapters[name] = adapter

    def get(self, name: str) -> Channel | None:
        return self._adapters.get(name)

    def names(self) -> Iterable[str]:
        return tuple(self._adapters)


class LayeredRegistry:
    """
    A registry over another: what the upper one does not know is looked up below.
    """

    def __init__(self, upper: ChannelRegistry, lower: ChannelRegistry) -> None:
        self._upper = upper
        self._lower = lower

    def get(self, name: str) -> Channel | None:
        found = self._upper.get(name)  # asked by identity: an adapter may be falsy, as an empty list is
        return found if found is not None else self._lower.get(name)

    def names(self) -> Iterable[str]:
        return {*self._upper.names(), *self._lower.names()}
