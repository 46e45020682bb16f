"""
Notifications over HTTP: send one, look at one.
"""

from __future__ import annotations

from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, RawBody, SkipValidation
from msgspec import MsgspecError
from msgspec.json import decode

from uns.entrypoints.sdk import Runtime
from uns.ports.replies import SendNotificationResponse
from uns.ports.requests import SendNotificationRequest, fault_of

PRINCIPAL = "local-producer"


class NotificationController(Controller):
    """
    ``/api/v1/notifications``.
    """

    path = "/api/v1/notifications"

    @post("/", status_code=202, summary="Accept a notification and attempt its delivery")
    async def send(
        self, body: RawBody, runtime: NamedDependency[SkipValidation[Runtime]]
    ) -> SendNotificationResponse:
        """
        202 says that the obligation is durable; ``status`` in the body says what became of it.
        """
        return await runtime.send(_request(body), principal=PRINCIPAL)

    @get("/{notification_id:str}", summary="Status of a notification", sync_to_thread=True)
    def look(
        self, notification_id: FromPath[str], runtime: NamedDependency[SkipValidation[Runtime]]
    ) -> SendNotificationResponse:
        """
        The stored state, and the response state of the obligation it belongs to.
        """
        return runtime.status(notification_id)


def _request(body: bytes) -> SendNotificationRequest:
    # Decoded here and not by the framework, whose decoding is lax: "true" is no boolean.
    try:
        return decode(body, type=SendNotificationRequest)
    except (MsgspecError, UnicodeError, RecursionError) as error:
        raise fault_of(error) from error
