"""
What a channel adapter is: any object with ``async send(message) -> ChannelResult``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from uns.ports.requests import AutonomyContext
from uns.ports.vocabulary import DeliveryMode, NotificationIntent, Priority


class Content(Struct, frozen=True, gc=False, kw_only=True):
    """
    The notification as a channel sees it: the request's fields and its id.
    """

    id: str
    notification_type: str
    intent: NotificationIntent
    title: str
    message: str
    source: str
    autonomy_context: AutonomyContext
    irreversible: bool = False
    idempotency_key: str | None = None
    dedup_key: str | None = None
    correlation_id: str | None = None
    delivery_mode: DeliveryMode | None = None
    require_ack: bool | None = None
    priority: Priority | None = None
    metadata: dict[str, Any] = {}


class ChannelMessage(Struct, frozen=True, gc=False, kw_only=True):
    """
    One call to one channel.

    ``target`` is operator-owned. ``idempotency_token`` is ``<id>:<cycle>:<channel>``, the same for
    every attempt of a cycle. ``deadline`` is the time limit of this call in seconds from now.
    """

    notification: Content
    target: Mapping[str, Any]
    idempotency_token: str
    attempt: int
    deadline: float


class ChannelResult(Struct, frozen=True, gc=False):
    """
    What the provider said.

    ``retryable`` False means no later call can succeed. ``retry_after`` (seconds) marks a call
    that was paced (HTTP 429 or alike).
    """

    success: bool
    message_id: str | None = None
    error: str | None = None
    metadata: dict[str, Any] = {}
    retryable: bool = True
    retry_after: float | None = None


class Channel(Protocol):
    """
    A channel adapter. Raising, or overrunning the deadline, counts as a retryable failure.

    It may have ``timeout_seconds``, its limit for one call (10 s otherwise), and
    ``destination(target) -> str | None``, a name for what is behind a target: a destination that
    hangs holds up only its own. None is for what cannot hang. Without it the channel is one.

    It may also have ``check_target(target)``, which raises ``Rejected`` for a target that no call can
    ever go to: no policy with such a target comes into force.
    """

    async def send(self, message: ChannelMessage) -> ChannelResult: ...


class ChannelRegistry(Protocol):
    """
    The channel adapters of this process, by name.
    """

    def get(self, name: str) -> Channel | None: ...

    def names(self) -> Iterable[str]: ...
