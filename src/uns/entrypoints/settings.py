"""
The environment, read once into one frozen struct. Nothing else reads ``os.environ``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from uns.ports.errors import Rejected

DEFAULT_DATABASE_URL = "sqlite:///uns.db"
DEFAULT_PORT = 8000
LAST_PORT = 65_535


class Settings(Struct, frozen=True, kw_only=True):
    """
    How a process is set up. The service listens on loopback unless told otherwise.
    """

    database_url: str = DEFAULT_DATABASE_URL
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT


def read_settings(environ: Mapping[str, str]) -> Settings:
    """
    The settings in ``environ``; an empty or blank value counts as not set.

    Raises:
        Rejected: a value is wrong; the message names its variable.
    """
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    return Settings(
        database_url=given.get("UNS_DATABASE_URL", DEFAULT_DATABASE_URL),
        host=given.get("UNS_HOST", "127.0.0.1"),
        port=_port(given.get("UNS_PORT", str(DEFAULT_PORT))),
    )


def _port(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= LAST_PORT:
        raise Rejected(f"UNS_PORT must be a port from 1 to {LAST_PORT}", path="UNS_PORT")
    return int(value)
