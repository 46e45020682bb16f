"""
Answers: acknowledge, dismiss, withdraw, time out, wait.
"""

from __future__ import annotations

from typing import Any

import msgspec

from uns.core.loops.waiter import wait_for_answer
from uns.core.plans import reading, response
from uns.core.rules.ack import Answer
from uns.core.rules.lineage import onward
from uns.core.rules.projection import unread
from uns.entrypoints import views
from uns.entrypoints.sdk.face import Face, Id, known, named
from uns.ports.checks import json_object
from uns.ports.errors import StoreUnavailable
from uns.ports.replies import AckResponse, Projection, SendNotificationResponse
from uns.ports.rows import Notification
from uns.ports.vocabulary import Ack


class Responding(Face):
    """
    What humans do with an obligation.
    """

    def acknowledge(
        self,
        notification_id: Id,
        *,
        actor: str,
        dismiss: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> AckResponse:
        """
        Answer an obligation as ``actor``.

        Raises:
            ValueError: no actor, or metadata that is not JSON.
            KeyError: no such notification.
            Conflict: the deadline has passed, no answer is awaited, or somebody else gave one.
        """
        answer = Answer(
            to=Ack.DISMISSED if dismiss else Ack.ACKED,
            actor=named(actor, "actor"),
            metadata=_metadata(metadata),
            callback=self._ledger.courier is not None,
        )
        plan = response.respond(known(notification_id), answer, self._ledger.sources.ids())
        return views.answered(self._call(plan))

    def withdraw(self, notification_id: Id, *, actor: str, operator: bool = True) -> SendNotificationResponse:
        """
        Take an obligation back: nothing more of it is sent, and nobody need answer.

        Args:
            operator: whether ``actor`` may withdraw what somebody else produced. The host is
                trusted; doors with credentials decide.

        Raises:
            ValueError: no actor.
            KeyError: no such notification.
            Forbidden: ``actor`` neither produced it nor is an operator.
            Conflict: it is owned by another notification, or has ended.
        """
        plan = response.withdraw(
            known(notification_id),
            actor=named(actor, "actor"),
            operator=operator,
            callback=self._ledger.courier is not None,
            ids=self._ledger.sources.ids(),
        )
        row = self._call(plan)
        return self._sent(row, replayed=False)

    def expire(self, *, now: float | None = None) -> None:
        """
        Time out up to a hundred responses with ``deadline <= now`` (Unix seconds, else the clock's).
        """
        callback = self._ledger.courier is not None
        self._call(response.expire(at=now, callback=callback, ids=self._ledger.sources.ids()))

    async def wait(
        self,
        notification_id: Id,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the documented name; ends with an answer, not an error
    ) -> Projection:
        """
        The response view once the canonical owner's response is terminal, or at the timeout as it is.

        Also returns at once when no answer can come any more. ``timeout`` is in seconds.
        """
        ledger = self._ledger
        return await wait_for_answer(known(notification_id), ledger.insistent, ledger.pubsub, timeout)

    def _sent(self, row: Notification, *, replayed: bool) -> SendNotificationResponse:
        projection = None
        if onward(row) is not None:
            try:
                projection = self._read(reading.response(row.id))
            except StoreUnavailable:  # it is accepted, all the same: the caller must hear its id
                projection = unread(row)
        return views.sent(row, projection, replayed=replayed)


def _metadata(value: dict[str, Any] | None) -> str | None:
    if value is None:
        return None
    return msgspec.json.encode(json_object(value, "metadata")).decode()
