"""
Notifications over HTTP: simulate, look, answer, withdraw. Sending has a module of its own.
"""

from __future__ import annotations

from litestar import Controller, get, post
from litestar.params import FromPath, RawBody

from uns.entrypoints.http.bodies import AckBody, EmptyBody, decoded
from uns.entrypoints.http.types import Caller, Service
from uns.ports.errors import Forbidden
from uns.ports.identity import Capability
from uns.ports.replies import (
    AckResponse,
    DeliveryHistory,
    NotificationStatus,
    Projection,
    SendNotificationResponse,
    SimulationResponse,
)
from uns.ports.requests import SendNotificationRequest


class PrincipalOverride(Forbidden):
    """
    An answer is given in the caller's own name.
    """

    code = "principal_override_forbidden"


class NotificationController(Controller):
    """
    ``/api/v1/notifications``.
    """

    path = "/api/v1/notifications"

    @post("/simulate", status_code=200, summary="What a notification would resolve to", sync_to_thread=True)
    def simulate(self, body: RawBody, request: Caller, service: Service) -> SimulationResponse:
        """
        No side effects.
        """
        wanted = decoded(body, SendNotificationRequest)
        return service.runtime.simulate(wanted, principal=request.user.principal)

    @get("/{notification_id:str}", summary="Notification and response status", sync_to_thread=True)
    def look(self, notification_id: FromPath[str], service: Service) -> NotificationStatus:
        """
        The stored state, and the response state of the obligation it belongs to.
        """
        return service.runtime.look(notification_id)

    @get("/{notification_id:str}/ack-status", summary="Stored and effective response", sync_to_thread=True)
    def ack_status(self, notification_id: FromPath[str], service: Service) -> Projection:
        """
        Use ``effective_ack_status`` only where the resolution is RESOLVED.
        """
        return service.runtime.response(notification_id)

    @get("/{notification_id:str}/delivery", summary="Delivery audit history", sync_to_thread=True)
    def delivery(self, notification_id: FromPath[str], service: Service) -> DeliveryHistory:
        """
        One record for each settlement, oldest first.
        """
        return service.runtime.delivery_history(notification_id)

    @post("/{notification_id:str}/ack", status_code=200, summary="Acknowledge", sync_to_thread=True)
    def ack(
        self, notification_id: FromPath[str], body: RawBody, request: Caller, service: Service
    ) -> AckResponse:
        """
        Answer as the caller's principal.
        """
        return _answer(notification_id, body, request, service, dismiss=False)

    @post("/{notification_id:str}/dismiss", status_code=200, summary="Dismiss", sync_to_thread=True)
    def dismiss(
        self, notification_id: FromPath[str], body: RawBody, request: Caller, service: Service
    ) -> AckResponse:
        """
        Answer as the caller's principal.
        """
        return _answer(notification_id, body, request, service, dismiss=True)

    @post("/{notification_id:str}/withdraw", status_code=200, summary="Withdraw", sync_to_thread=True)
    def withdraw(
        self, notification_id: FromPath[str], body: RawBody, request: Caller, service: Service
    ) -> SendNotificationResponse:
        """
        Take an obligation back, as its producer or as an operator.
        """
        decoded(body, EmptyBody)
        caller = request.user
        return service.runtime.withdraw(
            notification_id, actor=caller.principal, operator=Capability.ADMIN in caller.capabilities
        )


class AnswerController(Controller):
    """
    The short paths of the two answers.
    """

    path = "/v1/notifications"

    ack = NotificationController.ack
    dismiss = NotificationController.dismiss


def _answer(
    notification_id: str, body: bytes, request: Caller, service: Service, *, dismiss: bool
) -> AckResponse:
    answer = decoded(body, AckBody)
    principal = request.user.principal
    for name in (answer.acked_by, answer.dismissed_by):
        if name is not None and name != principal:
            raise PrincipalOverride
    return service.runtime.acknowledge(
        notification_id, actor=principal, dismiss=dismiss, metadata=answer.metadata
    )
