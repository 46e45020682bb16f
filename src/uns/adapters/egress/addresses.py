"""
Which addresses outgoing requests may reach: the public ones, and what the operator admits besides.
"""

from __future__ import annotations

import re
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_network,
)
from typing import NoReturn

from msgspec import Struct

from uns.ports.checks import quoted
from uns.ports.errors import Rejected

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

SETTING = "UNS_EGRESS_ALLOW"

_UNICAST = IPv6Network("2000::/3")
"""All of IPv6 that is given out to the public; the rest is local, reserved, or IPv4 in disguise."""

_NAT64 = IPv6Network("64:ff9b::/96")

_SPECIAL = (
    # Not for the public either, though some versions of the standard library say so.
    IPv4Network("192.0.0.0/24"),  # protocol assignments
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv6Network("2001::/23"),  # protocol assignments, Teredo among them
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("2002::/16"),  # 6to4
    IPv6Network("3fff::/20"),  # documentation
)

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.DOTALL)


def is_public(address: Address) -> bool:
    """
    Whether ``address`` is a host's on the public network.

    IPv4 inside NAT64 counts as what it stands for, since an IPv6-only network reaches all of IPv4
    that way. Every other wrapping (mapped, compatible, 6to4, Teredo) counts as not public.
    """
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return is_public(IPv4Address(address.packed[-4:]))
        if address not in _UNICAST:
            return False
    return address.is_global and not address.is_multicast and not any(address in net for net in _SPECIAL)


def is_host_name(text: str) -> bool:
    """
    Whether ``text``, lower case, is a name in its plain form: ASCII labels, no dot at the end.

    What a resolver would read as an address (``2130706433``, ``0x7f.1``, ``127.1``) is no name.
    """
    return _NAME.fullmatch(text) is not None and _NUMBER.fullmatch(text) is None


class Egress(Struct, frozen=True):
    """
    What the operator admits although it is not public: networks, and names wherever they lead.
    """

    networks: tuple[Network, ...] = ()
    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Egress:
        """
        A comma list such as ``10.0.0.0/8, ::1, localhost, hooks.internal``.

        Raises:
            Rejected: an entry is neither a network, an address nor a host name.
        """
        networks: list[Network] = []
        names: set[str] = set()
        for entry in filter(None, map(str.strip, text.split(","))):
            if (network := _network(entry)) is not None:
                networks.append(network)
            elif is_host_name(entry.lower()):
                names.add(entry.lower())
            else:
                _refuse(entry)
        return cls(tuple(networks), frozenset(names))

    def admits(self, host: str, address: Address) -> bool:
        """
        Whether a request to ``host`` may connect to ``address``.
        """
        return (
            is_public(address) or host in self.names or any(address in network for network in self.networks)
        )


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry)
    except ValueError:
        return None


def _refuse(entry: str) -> NoReturn:
    raise Rejected(
        f"{SETTING} must hold networks (10.0.0.0/8), addresses and host names with commas between, "
        f"which {quoted(entry)!r} is not",
        path=SETTING,
    )
