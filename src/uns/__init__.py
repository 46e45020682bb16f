"""
uns: the Unified Notification Service.

An obligation to tell or ask a human is put here once, and never lost, never answered twice, never
silently repeated, and always explained. Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uns.adapters.channels.registry import SimpleAdapterRegistry
    from uns.entrypoints.client import Client
    from uns.entrypoints.sdk import Runtime
    from uns.entrypoints.signals import SignalClient
    from uns.ports.channel import ChannelMessage, ChannelResult
    from uns.ports.errors import Conflict, Forbidden, NotFound, Rejected, StoreUnavailable, UnsError
    from uns.ports.requests import AutonomyContextRequest, SendNotificationRequest

_HOMES = {
    "SimpleAdapterRegistry": "uns.adapters.channels.registry",
    "Client": "uns.entrypoints.client",
    "Runtime": "uns.entrypoints.sdk",
    "SignalClient": "uns.entrypoints.signals",
    "ChannelMessage": "uns.ports.channel",
    "ChannelResult": "uns.ports.channel",
    "AutonomyContextRequest": "uns.ports.requests",
    "SendNotificationRequest": "uns.ports.requests",
    "Conflict": "uns.ports.errors",
    "Forbidden": "uns.ports.errors",
    "NotFound": "uns.ports.errors",
    "Rejected": "uns.ports.errors",
    "StoreUnavailable": "uns.ports.errors",
    "UnsError": "uns.ports.errors",
}

__all__ = [
    "AutonomyContextRequest",
    "ChannelMessage",
    "ChannelResult",
    "Client",
    "Conflict",
    "Forbidden",
    "NotFound",
    "Rejected",
    "Runtime",
    "SendNotificationRequest",
    "SignalClient",
    "SimpleAdapterRegistry",
    "StoreUnavailable",
    "UnsError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'uns' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
