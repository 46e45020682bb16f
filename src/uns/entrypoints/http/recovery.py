"""
Operations over HTTP: raw rows, dead letters, replay, callbacks.
"""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Controller, delete, get, post
from litestar.params import FromPath, FromQuery, QueryParameter, RawBody

from uns.entrypoints.http.bodies import EmptyBody, decoded
from uns.entrypoints.http.pages import DEFAULT_LIMIT, Limit, Listing, Page
from uns.entrypoints.http.types import Caller, Service
from uns.ports.errors import NotFound, Rejected

EXHAUSTED = "exhausted"

DEAD_LETTERS = Listing("dead-letters", "accepted_at")
CALLBACKS = Listing("callbacks", "at")

State = Annotated[str, QueryParameter(name="state")]


class RuntimeController(Controller):
    """
    ``/api/v1/runtime``: rows as stored, times as Unix seconds.
    """

    path = "/api/v1/runtime"

    @get(
        "/notifications/{notification_id:str}", summary="The stored row and its timeline", sync_to_thread=True
    )
    def row(self, notification_id: FromPath[str], service: Service) -> dict[str, Any]:
        """
        The row's columns, its response projection, and ``events``.
        """
        row = service.runtime.get(notification_id)
        return row | {"events": service.runtime.events(notification_id)}

    @post(
        "/notifications/{notification_id:str}/replay",
        status_code=200,
        summary="Begin a new delivery cycle",
        sync_to_thread=True,
    )
    def replay(
        self, notification_id: FromPath[str], body: RawBody, request: Caller, service: Service
    ) -> dict[str, Any]:
        """
        409 while the obligation is pending or satisfied elsewhere.
        """
        decoded(body, EmptyBody)
        service.runtime.replay(notification_id, actor=request.user.principal)
        return service.runtime.get(notification_id)

    @get("/dead-letters", summary="Exhausted notifications", sync_to_thread=True)
    def dead_letters(
        self, service: Service, limit: Limit = DEFAULT_LIMIT, cursor: FromQuery[str | None] = None
    ) -> Page:
        """
        Oldest first, each with what blocks its replay.
        """
        letters = service.runtime.dead_letters_after(DEAD_LETTERS.after(cursor), limit + 1)
        return DEAD_LETTERS.page(letters, limit)

    @get("/callbacks", summary="Callbacks that wait for an operator", sync_to_thread=True)
    def callbacks(
        self,
        service: Service,
        wanted: State = EXHAUSTED,
        limit: Limit = DEFAULT_LIMIT,
        cursor: FromQuery[str | None] = None,
    ) -> Page:
        """
        Those that failed three times, oldest first.
        """
        if wanted != EXHAUSTED:
            raise Rejected(f'state must be "{EXHAUSTED}"', path="state")
        events = service.runtime.exhausted_callbacks_after(CALLBACKS.after(cursor), limit + 1)
        return CALLBACKS.page(events, limit)

    @post(
        "/callbacks/{event_id:str}/rearm", status_code=200, summary="Try a callback anew", sync_to_thread=True
    )
    def rearm(self, event_id: FromPath[str], body: RawBody, service: Service) -> dict[str, Any]:
        """
        Three fresh attempts, the first at once.
        """
        decoded(body, EmptyBody)
        return {"event_id": event_id, "rearmed": service.runtime.rearm_callback(event_id)}


@delete(
    "/api/v1/dlq/{notification_id:str}", status_code=200, summary="Clear a dead letter", sync_to_thread=True
)
def resolve_failure(notification_id: FromPath[str], request: Caller, service: Service) -> dict[str, Any]:
    """
    After remediation outside: nothing is sent again.
    """
    if not service.runtime.resolve_failure(notification_id, actor=request.user.principal):
        raise NotFound("Dead letter not found")
    return {"notification_id": notification_id, "resolved": True}
