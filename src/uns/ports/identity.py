"""
Who calls, and what they may do.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Capability(StrEnum):
    """
    What a credential allows.
    """

    READ = "read"
    SEND = "send"
    RESPOND = "respond"
    ADMIN = "admin"


class Role(StrEnum):
    """
    The classes of credentials, in the order in which they lend their principal to an equal key.
    """

    OPERATOR = "OPERATOR"
    RESPONDER = "RESPONDER"
    PRODUCER = "PRODUCER"
    OBSERVER = "OBSERVER"


class Credential(Struct, frozen=True, kw_only=True):
    """
    One configured credential. ``digests`` are the SHA-256 of its values: two while it rotates.
    """

    role: Role
    principal: str
    digests: tuple[bytes, ...]


class Identity(Struct, frozen=True, kw_only=True):
    """
    A verified caller.
    """

    principal: str
    capabilities: frozenset[Capability]
