"""
The environment, read once into one frozen struct. Nothing else reads ``os.environ``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from uns.adapters.pubsub.envelope import POLICY_CHANNEL
from uns.core.rules.access import digest
from uns.ports.checks import line
from uns.ports.errors import Rejected
from uns.ports.identity import Credential, Role

T = TypeVar("T")
D = TypeVar("D")

DEFAULT_DATABASE_URL = "sqlite:///uns.db"
DEFAULT_PORT = 8000
LAST_PORT = 65_535
LOCAL_OPERATOR = "local-operator"

KEYS = {
    Role.OPERATOR: ("UNS_API_KEY", "UNS_API_PRINCIPAL"),
    Role.PRODUCER: ("UNS_PRODUCER_API_KEY", "UNS_PRODUCER_API_PRINCIPAL"),
    Role.RESPONDER: ("UNS_RESPONDER_API_KEY", "UNS_RESPONDER_API_PRINCIPAL"),
    Role.OBSERVER: ("UNS_OBSERVER_API_KEY", "UNS_OBSERVER_API_PRINCIPAL"),
}
_RESERVED = ("uns", "slack:", "pagerduty:", "link:", "key:", "producer:")
"""How the service's own actors begin; nobody may be configured to look like one."""

_name = line(255)
_DIGITS = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")


class Switch(StrEnum):
    """
    What is on or off.
    """

    ON = "on"
    OFF = "off"


class Settings(Struct, frozen=True, kw_only=True):
    """
    How a process is set up. Seconds may be fractions; secrets have two values while they rotate.

    ``targets`` are the ``UNS_TARGET_*`` values that policies refer to by name. ``principal`` is who
    acts on this machine. ``service_url`` is set where commands go to a service elsewhere, and
    ``service_key`` is what they show it; a process that serves has no use for either.
    """

    database_url: str = DEFAULT_DATABASE_URL
    pg_prepare: Switch = Switch.ON
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    credentials: tuple[Credential, ...] = ()
    policy_dir: str | None = None
    worker_concurrency: int = 64
    worker_poll_seconds: float = 1.0
    max_attempts: int = 10
    retry_seconds: float = 2.0
    send_wait_seconds: float = 5.0
    callback_url: str | None = None
    callback_secrets: tuple[str, ...] = ()
    webhook_secrets: tuple[str, ...] = ()
    egress_allow: str = ""
    targets: dict[str, str] = {}
    principal: str = LOCAL_OPERATOR
    service_url: str | None = None
    service_key: str | None = None
    redis_url: str | None = None
    policy_redis_channel: str = POLICY_CHANNEL
    database_listen_url: str | None = None


def read_settings(environ: Mapping[str, str]) -> Settings:
    """
    The settings in ``environ``; an empty or blank value counts as not set.

    Raises:
        Rejected: a value is wrong; the message is one line that names its variable.
    """
    given = _Given({name: value.strip() for name, value in environ.items() if value.strip()})
    return Settings(
        database_url=given.get("UNS_DATABASE_URL", str, DEFAULT_DATABASE_URL),
        pg_prepare=given.get("UNS_PG_PREPARE", _switch, Switch.ON),
        host=given.get("UNS_HOST", str, "127.0.0.1"),
        port=given.get("UNS_PORT", _whole(1, LAST_PORT), DEFAULT_PORT),
        credentials=tuple(_credentials(given)),
        policy_dir=given.get("UNS_POLICY_DIR", str, None),
        worker_concurrency=given.get("UNS_WORKER_CONCURRENCY", _whole(1, 10_000), 64),
        worker_poll_seconds=given.get("UNS_WORKER_POLL_SECONDS", _seconds(0.01, 3600), 1.0),
        max_attempts=given.get("UNS_MAX_ATTEMPTS", _whole(1, 1000), 10),
        retry_seconds=given.get("UNS_RETRY_SECONDS", _seconds(0, 300), 2.0),
        send_wait_seconds=given.get("UNS_SEND_WAIT_SECONDS", _seconds(0, 60), 5.0),
        callback_url=given.get("UNS_CALLBACK_URL", str, None),
        callback_secrets=given.get("UNS_CALLBACK_SECRET", _secrets, ()),
        webhook_secrets=given.get("UNS_WEBHOOK_SIGNING_SECRET", _secrets, ()),
        egress_allow=given.get("UNS_EGRESS_ALLOW", str, ""),
        targets=given.beginning("UNS_TARGET_"),
        principal=given.get("UNS_API_PRINCIPAL", _principal, LOCAL_OPERATOR),
        service_url=(service := given.get("UNS_URL", _url, None)),
        service_key=given.get("UNS_API_KEY", _secrets, (None,))[0] if service else None,
        redis_url=given.get("UNS_REDIS_URL", _redis_url, None),
        policy_redis_channel=given.get("UNS_POLICY_REDIS_CHANNEL", _channel, POLICY_CHANNEL),
        database_listen_url=given.get("UNS_DATABASE_LISTEN_URL", _postgres_url, None),
    )


class _Given:
    """
    The variables that are set.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, name: str, read: Callable[[str], T], default: D) -> T | D:
        """
        The value of ``name``, read; a fault is told by the name alone, since values may be secret.
        """
        value = self._values.get(name)
        if value is None:
            return default
        try:
            return read(_text(value))
        except ValueError as error:
            raise Rejected(f"{name} {error}", path=name) from None

    def beginning(self, prefix: str) -> dict[str, str]:
        """
        The values of all names that begin so.
        """
        return {name: self.get(name, str, "") for name in self._values if name.startswith(prefix)}


def _text(value: str) -> str:
    # An environment holds bytes. Those that are no text reach Python as half characters, which can
    # neither be signed with, nor called, nor told.
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must be UTF-8") from None
    return value


def _credentials(given: _Given) -> Iterator[Credential]:
    for role, (key, principal) in KEYS.items():
        values = given.get(key, _keys, None)
        named = given.get(principal, _principal, f"local-{role.lower()}")
        if values:
            yield Credential(role=role, principal=named, digests=tuple(map(digest, values)))


def _principal(value: str) -> str:
    try:
        _name(value, "principal")
    except Rejected:
        raise ValueError("must be one line of at most 255 characters") from None
    if value.startswith(_RESERVED):
        raise ValueError(f"must not begin with any of {', '.join(_RESERVED)}: those are the service's own")
    return value


def _secrets(value: str) -> tuple[str, ...]:
    values = tuple(part.strip() for part in value.split(",") if part.strip())
    if not 1 <= len(values) <= 2:  # noqa: PLR2004 - the present one and, while rotating, its successor
        raise ValueError("must hold one value, or two with a comma between while it rotates")
    return values


def _keys(value: str) -> tuple[str, ...]:
    values = _secrets(value)
    if not all(each.isascii() and each.isprintable() for each in values):
        raise ValueError("must be printable ASCII, which is what a header can carry")
    return values


def _channel(value: str) -> str:
    try:
        return str(_name(value, "channel"))
    except Rejected:
        raise ValueError("must be one line of at most 255 characters") from None


def _url_of(*schemes: str, told: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        try:
            parts = urlsplit(value)
            fit = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:  # whose text would repeat the value
            fit = False
        if not fit:
            raise ValueError(f"must be {told}")
        return value

    return read


_url = _url_of("http", "https", told="an http or https URL")
_redis_url = _url_of("redis", "rediss", told="a redis:// or rediss:// URL")
_postgres_url = _url_of("postgresql", "postgresql+psycopg", told="a postgresql:// URL")


def _switch(value: str) -> Switch:
    if value not in {*Switch}:
        raise ValueError("must be on or off")
    return Switch(value)


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        # Python reads more than a person writes: other scripts' digits, underscores, a thousand digits.
        number = int(value) if _DIGITS.fullmatch(value) else None
        if number is None or not least <= number <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return number

    return read


def _seconds(least: float, most: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        number = float(value) if _DECIMAL.fullmatch(value) else None
        if number is None or not least <= number <= most:
            raise ValueError(f"must be a number of seconds from {least:g} to {most:g}")
        return number

    return read
