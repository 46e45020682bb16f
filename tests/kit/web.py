"""
The service in this process: a database of its own, keys for every role, channels that do as they are told.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dependency_injector import providers

from kit.asgi import Asgi, running
from kit.builders import AGENT
from kit.channels import ScriptedChannel
from kit.runtimes import a_document
from uns import Runtime, SimpleAdapterRegistry
from uns.adapters.channels.log import LogChannel
from uns.adapters.sources import ManualClock
from uns.core.loops.worker import Worker
from uns.core.rules.access import digest
from uns.entrypoints.container import Container
from uns.entrypoints.http.app import create_app
from uns.entrypoints.settings import Settings
from uns.ports.identity import Credential, Role

KEYS = {role: f"{role.lower()}-key" for role in Role}
OPERATOR, RESPONDER, PRODUCER, OBSERVER = KEYS.values()

NOTIFICATIONS = "/api/v1/notifications"
RUNTIME = "/api/v1/runtime"
NOBODYS = "01890000-0000-7000-8000-000000000000"
"""An id that no notification has."""


class Web(Asgi):
    """
    A client of the service, an operator unless told otherwise, and the parts behind it.
    """

    def __init__(self, container: Container, app: Any, worker: Worker | None) -> None:
        super().__init__(app, OPERATOR)
        self.container = container
        self.worker = worker

    @property
    def runtime(self) -> Runtime:
        runtime: Runtime = self.container.runtime()
        return runtime

    async def sent(self, **fields: Any) -> str:
        """
        The id of a notification that the producer sent; nothing is attempted yet.
        """
        answer = await self.post(NOTIFICATIONS, a_body(**fields), key=PRODUCER, headers=ASYNC)
        assert 202 == answer.status, answer
        id: str = answer.json["notification_id"]
        return id


ASYNC = {"Prefer": "respond-async"}

Serving = Callable[..., AbstractAsyncContextManager[Web]]


def a_body(**fields: Any) -> dict[str, Any]:
    """
    What a producer posts.
    """
    plain: dict[str, Any] = {
        "notification_type": "system.alert",
        "intent": "OPERATIONAL",
        "title": "disk is filling up",
        "message": "/var is at 91 %",
        "source": "pay",
        "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": AGENT},
    }
    return plain | fields


def credentials(**values: str) -> tuple[Credential, ...]:
    """
    Credentials by role in lower case; ``"old,new"`` while one rotates.
    """
    return tuple(
        Credential(
            role=Role(role.upper()),
            principal=f"local-{role}",
            digests=tuple(digest(value) for value in given.split(",")),
        )
        for role, given in values.items()
    )


EVERY_ROLE = credentials(**{role.lower(): key for role, key in KEYS.items()})


@pytest.fixture
def serving(url: str, clock: ManualClock, channel: ScriptedChannel, in_force: Callable[..., Path]) -> Serving:
    """
    Serves, by default without a worker; everything goes to PAGER, ``ask.*`` wants an answer.
    """

    @asynccontextmanager
    async def serving(
        *documents: dict[str, Any],
        work: bool = False,
        adapters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        callback: Any = None,
    ) -> AsyncIterator[Web]:
        plain = {"database_url": url, "credentials": EVERY_ROLE, "worker_poll_seconds": 0.02}
        registry = SimpleAdapterRegistry({"PAGER": channel, "LOG": LogChannel()} | dict(adapters or {}))
        container = Container(settings=providers.Object(Settings(**(plain | dict(settings or {})))))
        container.clock.override(providers.Object(clock))
        container.channels.override(providers.Object(registry))
        container.callback.override(providers.Object(callback))
        app = create_app(container, work=work)
        in_force(container.runtime(), *(documents or POLICIES))
        async with running(app):
            yield Web(container, app, container.worker() if work else None)

    return serving


@pytest.fixture
async def web(serving: Serving) -> AsyncIterator[Web]:
    """
    The service without a worker.
    """
    async with serving() as web:
        yield web


POLICIES = (
    a_document(),
    a_document("ask", notification_type="ask.*", require_ack=True, ack_timeout_minutes=15),
    a_document("calm", notification_type="calm.*", dedup_window_seconds=300),
)
