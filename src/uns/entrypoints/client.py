"""
``Client``: one principal's face of a runtime.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from uns.entrypoints.sdk import Runtime
from uns.ports.checks import name
from uns.ports.replies import Projection, SendNotificationResponse, SimulationResponse
from uns.ports.requests import SendNotificationRequest

_name = name(255)


class Client:
    """
    Sends as ``principal``, which the host vouches for.

    Raises:
        ValueError: no principal.
    """

    def __init__(self, runtime: Runtime, *, principal: str) -> None:
        self._runtime = runtime
        self._principal = str(_name(principal, "principal"))

    async def simulate(self, request: SendNotificationRequest) -> SimulationResponse:
        """
        What a request would resolve to. No side effects.
        """
        # Aside: it reads the policies in force, and a busy database takes its time.
        return await asyncio.to_thread(self._runtime.simulate, request, principal=self._principal)

    async def send(self, request: SendNotificationRequest) -> SendNotificationResponse:
        """
        Accept and attempt delivery; what fails is recovered by a worker.
        """
        return await self._runtime.send(request, principal=self._principal)

    async def wait(
        self,
        notification_id: UUID | str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the documented name; ends with an answer, not an error
    ) -> Projection:
        """
        The response view once it is terminal, or after ``timeout`` seconds as it stands.
        """
        return await self._runtime.wait(notification_id, timeout=timeout)
