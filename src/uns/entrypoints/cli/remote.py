"""
The ledger of a service elsewhere, over HTTP.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
import msgspec

from uns.entrypoints.cli.exits import Failed
from uns.entrypoints.cli.ledger import Json
from uns.ports.errors import NotFound, UnsError

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 75.0
"""A service may be set to wait a minute for a first attempt."""

PAGE = 200
NO_LETTER = "Dead letter not found"
NO_EVENT = "Callback event not found"

_NOTIFICATIONS = "/api/v1/notifications"
_RUNTIME = "/api/v1/runtime"
_UNAUTHORIZED = 401
_REFUSAL = 400


class Answered(UnsError):
    """
    The service refused. ``status`` and ``code`` are those of its answer.
    """

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status  # type: ignore[misc]  # the answer's, not the class's
        self.code = code  # type: ignore[misc]


class RemoteLedger:
    """
    Acts as whoever the key belongs to.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self._shown = _without_credentials(url)
        self._key = key
        self._client = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"} if key is not None else {},
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        )

    def send(self, body: bytes) -> Json:
        return self._object("POST", _NOTIFICATIONS, body)

    def get(self, id: str) -> Json:
        return self._object("GET", f"{_NOTIFICATIONS}/{_part(id)}")

    def events(self, id: str) -> list[Json]:
        row = self._object("GET", f"{_RUNTIME}/notifications/{_part(id)}")
        events: list[Json] = row["events"]
        return events

    def answer(self, id: str, *, dismiss: bool, metadata: Json) -> Json:
        verb = "dismiss" if dismiss else "ack"
        body = msgspec.json.encode({"metadata": metadata})
        return self._object("POST", f"{_NOTIFICATIONS}/{_part(id)}/{verb}", body)

    def withdraw(self, id: str) -> Json:
        return self._object("POST", f"{_NOTIFICATIONS}/{_part(id)}/withdraw")

    def replay(self, id: str) -> None:
        self._object("POST", f"{_RUNTIME}/notifications/{_part(id)}/replay")

    def resolve(self, id: str) -> None:
        self._object("DELETE", f"/api/v1/dlq/{_part(id, NO_LETTER)}")

    def dead_letters(self) -> list[Json]:
        return self._items(f"{_RUNTIME}/dead-letters")

    def exhausted_callbacks(self) -> list[Json]:
        return self._items(f"{_RUNTIME}/callbacks")

    def rearm(self, event_id: str) -> bool:
        done = self._object("POST", f"{_RUNTIME}/callbacks/{_part(event_id, NO_EVENT)}/rearm")
        return done["rearmed"] is True

    def close(self) -> None:
        self._client.close()

    def _items(self, path: str) -> list[Json]:
        items: list[Json] = []
        query = {"limit": str(PAGE)}
        while True:
            page = self._object("GET", path, query=query)
            items += page["items"]
            if page["next_cursor"] is None:
                return items
            query["cursor"] = page["next_cursor"]

    def _object(
        self, method: str, path: str, body: bytes | None = None, query: dict[str, str] | None = None
    ) -> Json:
        answer = self._exchange(method, path, body, query)
        found = _json_object(answer.content)
        if found is not None and answer.is_success:
            return found
        if found is None or "code" not in found or answer.status_code < _REFUSAL:
            raise Failed(
                f"what answers at {self._shown} is no uns service (HTTP {answer.status_code}): check UNS_URL"
            )
        if answer.status_code == _UNAUTHORIZED:
            raise Answered(self._unknown_key(), status=_UNAUTHORIZED, code=str(found["code"]))
        raise Answered(str(found.get("detail", "")), status=answer.status_code, code=str(found["code"]))

    def _exchange(
        self, method: str, path: str, body: bytes | None, query: dict[str, str] | None
    ) -> httpx2.Response:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            return self._client.request(method, path, content=body, params=query, headers=headers)
        except UnicodeError:
            raise Failed(f"{self._shown} is no name that a host can have: check UNS_URL") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Failed(
                f"nothing answers at {self._shown} ({error}): start the service, or check UNS_URL"
            ) from None
        except httpx2.TransportError as error:
            raise Failed(
                f"{self._shown} took the request and did not answer ({str(error) or type(error).__name__}): "
                "look before you repeat it"
            ) from None

    def _unknown_key(self) -> str:
        if self._key is None:
            return f"{self._shown} wants a key: set UNS_API_KEY to one of its keys"
        return f"{self._shown} does not know this key: set UNS_API_KEY to one of its keys"


def _json_object(content: bytes) -> Json | None:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _part(id: str, unknown: str | None = None) -> str:
    try:
        return str(UUID(id))
    except ValueError:  # nothing has it, and in a path it might name something else
        raise NotFound(unknown) from None


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
