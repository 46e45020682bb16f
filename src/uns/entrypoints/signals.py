"""
``SignalClient``: policy resolution and a handler of one's own, without a ledger.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from uns.adapters.policy_files import packaged_policies
from uns.adapters.sources import new_id
from uns.core.plans.intake import shape_of
from uns.core.rules.policy import check_overrides, resolve
from uns.ports.channel import ChannelResult
from uns.ports.policy import Policy, Resolved, Snapshot
from uns.ports.replies import SendNotificationResponse
from uns.ports.requests import SendNotificationRequest
from uns.ports.vocabulary import Status

Handler = Callable[[SendNotificationRequest, Resolved], ChannelResult | Awaitable[ChannelResult]]


class SignalClient:
    """
    Low-level: nothing is stored, retried or deduplicated.

    Args:
        handler: called with the request and what it resolved to. Without one every result is
            PENDING: nobody was told.
        policies: the policies to resolve by, else the packaged ones.
    """

    def __init__(self, handler: Handler | None = None, *, policies: Sequence[Policy] | None = None) -> None:
        self._handler = handler
        chosen = policies if policies is not None else [d.policy for d in packaged_policies()]
        self._snapshot = Snapshot(hash="", revision=0, policies=tuple(chosen))

    async def send(self, request: SendNotificationRequest) -> SendNotificationResponse:
        """
        Resolve the policy of a request and hand both to the handler.

        Raises:
            ValueError: no policy covers the type, or it forbids an override.
        """
        resolved = resolve(self._snapshot, shape_of(request))
        check_overrides(resolved, request)
        if self._handler is None:
            return _response(resolved, None)
        told = self._handler(request, resolved)
        return _response(resolved, await told if inspect.isawaitable(told) else told)


def _response(resolved: Resolved, result: ChannelResult | None) -> SendNotificationResponse:
    channels = resolved.effective.all_channels if result is not None else ()
    delivered = result is not None and result.success
    status = Status.PENDING if result is None else Status.DELIVERED if delivered else Status.FAILED
    failure = (result.error if result is not None else None) or "failed"
    return SendNotificationResponse(
        notification_id=UUID(new_id()),
        status=status,
        channels_attempted=channels,
        channels_succeeded=channels if delivered else (),
        channels_failed=() if delivered else channels,
        require_ack=resolved.effective.require_ack,
        created_at=datetime.now(UTC),
        message={Status.PENDING: "no handler: nobody was told", Status.DELIVERED: "delivered"}.get(
            status, failure
        ),
    )
