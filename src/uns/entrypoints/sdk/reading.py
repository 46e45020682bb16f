"""
Reads: rows, timelines, responses, histories. Nothing here writes.
"""

from __future__ import annotations

from typing import Any

from uns.core.plans import policies, reading
from uns.core.rules.policy import channels_named
from uns.entrypoints import views
from uns.entrypoints.sdk.face import Face, Id, known
from uns.ports.replies import DeliveryHistory, NotificationStatus, Projection


class Reading(Face):
    """
    What is on record.
    """

    def get(self, notification_id: Id) -> dict[str, Any]:
        """
        The stored row by column names, with the response projection.

        Raises:
            KeyError: no such notification.
        """
        return views.view_dict(self._read(reading.view(known(notification_id))))

    def events(self, notification_id: Id) -> list[dict[str, Any]]:
        """
        The timeline in the order it was written.

        Raises:
            KeyError: no such notification.
        """
        found = self._read(reading.timeline(known(notification_id)))
        return [views.event_dict(event) for event in found]

    def response(self, notification_id: Id) -> Projection:
        """
        The response projection alone.

        Raises:
            KeyError: no such notification.
        """
        return self._read(reading.response(known(notification_id)))

    def look(self, notification_id: Id) -> NotificationStatus:
        """
        A notification and its response, as they stand.

        Raises:
            KeyError: no such notification.
        """
        return views.status(self._read(reading.view(known(notification_id))))

    def delivery_history(self, notification_id: Id) -> DeliveryHistory:
        """
        The settlements of a notification, oldest first.

        Raises:
            KeyError: no such notification.
        """
        id = known(notification_id)
        return views.delivery_history(id, self._read(reading.audits(id)))

    def ping(self) -> None:
        """
        Ask the database the least it must be able to answer.

        Raises:
            StoreUnavailable: it does not answer.
        """
        self._read(reading.authority())

    def missing_channels(self) -> frozenset[str]:
        """
        The channels that policies in force name and this process cannot call.
        """
        snapshot = self._read(policies.active_snapshot(self._ledger.resolver))
        return channels_named(snapshot) - self._ledger.dispatcher.channels
