"""
Where a request goes: its URL, read once and by one parser, refused when it is spelled oddly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from urllib.parse import parse_qsl, unquote

import httpcore2
import httpx2
from msgspec import Struct

from uns.adapters.egress.addresses import SETTING, Address, Egress, is_host_name
from uns.adapters.egress.errors import Refused
from uns.ports.checks import quoted

NOT_PUBLIC = f"leads to an address that is not public, and {SETTING} does not admit it"

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LAST_PORT = 65_535
_SECRET_LENGTH = 4
_AUTHORITY_END = re.compile(r"[/?#]")
_WORD = re.compile(r"[a-z_-]{1,19}")


class Destination(Struct, frozen=True, kw_only=True):
    """
    A URL that may be called, so far as can be told without asking for its host's addresses.

    ``shown`` is all of it that may appear anywhere: the host, and the port if it is an unusual one.
    It is the Host header as well. ``hidden`` are the parts that must not appear, longest first.
    """

    host: str
    shown: str
    url: httpcore2.URL
    hidden: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Destination {self.shown}>"


def destination(url: str, egress: Egress) -> Destination:
    """
    ``url`` as a destination.

    Raises:
        Refused: not http or https, credentials before the host, a host that is spelled oddly, or
            an address that is neither public nor admitted.
    """
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, UnicodeError):
        raise Refused("the URL cannot be read") from None
    if parsed.scheme not in _DEFAULT_PORTS:
        raise Refused("the URL does not begin with http:// or https://")
    host, shown = parsed.raw_host.decode("ascii"), _shown(parsed)
    if not host:
        raise Refused("the URL names no host")
    if "@" in _AUTHORITY_END.split(url.partition("://")[2], maxsplit=1)[0]:
        raise Refused(f"{quoted(shown)}: the URL must not hold credentials before the host")
    if parsed.port is not None and not 1 <= parsed.port <= _LAST_PORT:
        raise Refused(f"{quoted(shown)}: the port must be from 1 to {_LAST_PORT}")
    address = literal(host)
    if address is None and not is_host_name(host):
        raise Refused(f"{quoted(shown)} must be a host name, or an address in its plain form")
    if address is not None and not egress.admits(host, address):
        raise Refused(f"{shown} {NOT_PUBLIC}")
    called = httpcore2.URL(
        scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path
    )
    return Destination(host=host, shown=shown, url=called, hidden=_hidden(parsed))


def literal(host: str) -> Address | None:
    """
    The address that ``host`` is, if it is one in its plain form: no zone, no IPv4 inside IPv6.
    """
    with suppress(ValueError):
        address = ip_address(host)
        if not isinstance(address, IPv6Address) or (address.ipv4_mapped is None and "%" not in host):
            return address
    return None


def _shown(url: httpx2.URL) -> str:
    host = url.raw_host.decode("ascii")
    named = f"[{host}]" if ":" in host else host
    return named if url.port in (None, _DEFAULT_PORTS.get(url.scheme)) else f"{named}:{url.port}"


def _hidden(url: httpx2.URL) -> tuple[str, ...]:
    found = {part for part in _parts(url) if len(part) >= _SECRET_LENGTH and not _WORD.fullmatch(part)}
    return tuple(sorted(found, key=len, reverse=True))


def _parts(url: httpx2.URL) -> Iterator[str]:
    """
    What another side may echo of path and query: whole, in parts, as sent and decoded.

    Plain short words are no secrets, and hiding them would spoil what is said in plain words.
    """
    target = url.raw_path.decode("ascii")
    path, _, query = target.partition("?")
    first, _, rest = path.removeprefix("/").partition("/")
    whole = (target, path, f"/{rest}", query)
    values = (value for _, value in parse_qsl(query, keep_blank_values=True))
    raw = (pair.partition("=")[2] for pair in query.split("&"))
    for part in (*whole, first, *rest.split("/"), *values, *raw):
        yield part
        yield unquote(part)
