"""
The ledger in a database on this machine.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from uns.entrypoints.cli.database import container_of, file_of
from uns.entrypoints.cli.exits import Failed
from uns.entrypoints.cli.ledger import Json
from uns.entrypoints.http.bodies import decoded
from uns.entrypoints.logs import set_up_logs
from uns.entrypoints.settings import Settings
from uns.ports.errors import NotFound
from uns.ports.requests import SendNotificationRequest


class LocalLedger:
    """
    Acts as the principal that ``UNS_API_PRINCIPAL`` names: who can open the file is trusted.

    Raises:
        Failed: there is no such database. Visiting one must not make one.
    """

    def __init__(self, settings: Settings) -> None:
        file = file_of(settings.database_url)
        if file is not None and not file.exists():
            raise Failed(
                f"there is no database at {file}: make one with `uns init` or `uns serve`, name it "
                "in UNS_DATABASE_URL, or name a service in UNS_URL"
            )
        self._actor = settings.principal
        self._runtime = container_of(settings, create_tables=False).runtime()

    def send(self, body: bytes) -> Json:
        set_up_logs()  # what a channel has to say while it sends
        request = decoded(body, SendNotificationRequest)
        return _plain(asyncio.run(self._runtime.send(request, principal=self._actor)))

    def get(self, id: str) -> Json:
        return _plain(self._runtime.look(id))

    def events(self, id: str) -> list[Json]:
        return self._runtime.events(id)

    def answer(self, id: str, *, dismiss: bool, metadata: Json) -> Json:
        return _plain(self._runtime.acknowledge(id, actor=self._actor, dismiss=dismiss, metadata=metadata))

    def withdraw(self, id: str) -> Json:
        return _plain(self._runtime.withdraw(id, actor=self._actor))

    def replay(self, id: str) -> None:
        self._runtime.replay(id, actor=self._actor)

    def resolve(self, id: str) -> None:
        if not self._runtime.resolve_failure(id, actor=self._actor):
            raise NotFound("Dead letter not found")

    def dead_letters(self) -> list[Json]:
        return self._runtime.dead_letters()

    def exhausted_callbacks(self) -> list[Json]:
        return self._runtime.exhausted_callbacks()

    def rearm(self, event_id: str) -> bool:
        return self._runtime.rearm_callback(event_id)

    def close(self) -> None:
        self._runtime.close()


def _plain(struct: msgspec.Struct) -> Json:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(struct))
    return plain
