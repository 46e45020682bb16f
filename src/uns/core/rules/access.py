"""
Credentials: roles to capabilities, and which caller presents one.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from uns.ports.identity import Capability, Credential, Identity, Role

CAPABILITIES: dict[Role, frozenset[Capability]] = {
    Role.OPERATOR: frozenset(Capability),
    Role.PRODUCER: frozenset({Capability.READ, Capability.SEND}),
    Role.RESPONDER: frozenset({Capability.READ, Capability.RESPOND}),
    Role.OBSERVER: frozenset({Capability.READ}),
}

_PRECEDENCE = list(Role)


def digest(value: str) -> bytes:
    """
    What is kept of a credential's value.
    """
    return sha256(value.encode(errors="surrogatepass")).digest()


class Keyring:
    """
    The callers by the digests of their credentials.

    Equal values combine their capabilities; the principal is that of the first role. How long a
    look-up takes depends on the digest of what is presented, which nobody can steer towards that of
    a key: the time tells nothing.
    """

    def __init__(self, credentials: Iterable[Credential]) -> None:
        held: dict[bytes, list[Credential]] = {}
        for credential in sorted(credentials, key=lambda each: _PRECEDENCE.index(each.role)):
            for known in credential.digests:
                held.setdefault(known, []).append(credential)
        self._callers = {known: _combined(same) for known, same in held.items()}

    def __bool__(self) -> bool:
        return bool(self._callers)

    def identify(self, presented: str) -> Identity | None:
        """
        The caller who presents this value; None for a value that is not configured.
        """
        return self._callers.get(digest(presented))


def _combined(held: list[Credential]) -> Identity:
    capabilities = frozenset[Capability]().union(*(CAPABILITIES[credential.role] for credential in held))
    return Identity(principal=held[0].principal, capabilities=capabilities)
