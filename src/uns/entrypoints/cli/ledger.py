"""
The one face that commands see, whether the ledger is a service elsewhere or a database here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from uns.entrypoints.cli.exits import Usage
from uns.entrypoints.settings import Settings, read_settings
from uns.ports.errors import Rejected

Json = dict[str, Any]


class Ledger(Protocol):
    """
    A ledger, in the JSON of the HTTP API. Every method raises ``UnsError`` for what is refused.
    """

    def send(self, body: bytes) -> Json:
        """
        Accept a request, given as JSON, and wait for its first attempt.
        """
        ...

    def get(self, id: str) -> Json: ...

    def events(self, id: str) -> list[Json]: ...

    def answer(self, id: str, *, dismiss: bool, metadata: Json) -> Json: ...

    def withdraw(self, id: str) -> Json: ...

    def replay(self, id: str) -> None: ...

    def resolve(self, id: str) -> None:
        """
        Clear a dead letter; ``NotFound`` when it is none.
        """
        ...

    def dead_letters(self) -> list[Json]:
        """
        Every one, oldest first.
        """
        ...

    def exhausted_callbacks(self) -> list[Json]: ...

    def rearm(self, event_id: str) -> bool:
        """
        False when the callback is not exhausted.
        """
        ...

    def close(self) -> None: ...


def settings_of(environ: dict[str, str]) -> Settings:
    """
    The settings of a command.

    Raises:
        Usage: a variable is wrong; names it.
    """
    try:
        return read_settings(environ)
    except Rejected as error:
        raise Usage(str(error)) from None


@contextmanager
def opened(settings: Settings) -> Iterator[Ledger]:
    """
    The service at ``UNS_URL`` where that is set, else the database.
    """
    ledger = _ledger(settings)
    try:
        yield ledger
    finally:
        ledger.close()


def _ledger(settings: Settings) -> Ledger:
    # Loaded when used: each side brings libraries that the other can do without, and a command is
    # over in less time than they take to load.
    if settings.service_url is not None:
        from uns.entrypoints.cli.remote import RemoteLedger

        return RemoteLedger(settings.service_url, settings.service_key)
    from uns.entrypoints.cli.local import LocalLedger

    return LocalLedger(settings)
