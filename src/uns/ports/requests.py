"""
Validated inbound commands.

A command that exists is valid: decoding it from JSON and building it in Python with plain values
run the same checks (``uns.ports.checks``) and reach the same verdict.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from uns.ports.checks import (
    Check,
    dotted,
    fault,
    flag,
    hold,
    identifier,
    json_object,
    line,
    optional,
    quoted,
    text,
    within,
    word,
)
from uns.ports.errors import Rejected
from uns.ports.vocabulary import AutonomyMode, DeliveryMode, NotificationIntent, Priority

TITLE_CHARS = 200
MESSAGE_CHARS = 65_536
KEY_CHARS = 255
_REQUIRED = "is required"
_NOT_A_FIELD = "is not a field of this request"

_WHERE = re.compile(r"(.*) - at (?:`key` in )?`\$((?:\.[\w-]+|\[\d+]|\[\.{3}])*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_INVALID_WORD = re.compile(r"Invalid enum value .*", re.DOTALL)
_INDEX = re.compile(r"\[(\d+)\]")


class AutonomyContext(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Which agent asks, and in which mode it runs: as stored, so checked already.
    """

    autonomy_mode: AutonomyMode
    agent_id: UUID
    plan_id: UUID | None = None
    decision_snapshot_id: UUID | None = None
    execution_snapshot_id: UUID | None = None
    skip_snapshot_id: UUID | None = None


class AutonomyContextRequest(AutonomyContext, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Which agent asks, and in which mode it runs.
    """

    def __post_init__(self) -> None:
        hold(self, _CONTEXT)


class SendNotificationRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    What a producer asks for.

    Raises:
        Rejected: a value breaks its field's rule; ``path`` names the field.
    """

    notification_type: str
    intent: NotificationIntent
    title: str
    message: str
    source: str
    autonomy_context: AutonomyContextRequest
    irreversible: bool = False
    idempotency_key: str | None = None
    dedup_key: str | None = None
    correlation_id: str | None = None
    delivery_mode: DeliveryMode | None = None
    require_ack: bool | None = None
    priority: Priority | None = None
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        hold(self, _REQUEST)


def fault_of(error: Exception) -> Rejected:
    """
    What a door answers when a body could not be decoded into a command.

    Takes whatever ``msgspec.json.decode`` and ``msgspec.convert`` raise: ``MsgspecError``,
    ``UnicodeError``, ``RecursionError``. In the path ``*`` stands for some key of an object.
    """
    if isinstance(error, Rejected):
        return error
    if isinstance(error, RecursionError):
        return Rejected("The body is nested too deeply")
    if not isinstance(error, msgspec.ValidationError):
        return Rejected(f"The body is not valid JSON: {error}")
    message, path = _located(str(error))
    if isinstance(error.__cause__, Rejected):  # a command's own check, wrapped by the decoder
        return within(path, error.__cause__)
    return _unknown_word(message, path) or within(path, _named(message))


def _unknown_word(message: str, path: str) -> Rejected | None:
    """
    The decoder says that a word is not of its field's vocabulary; the field's own check says which are.
    """
    check = _WORDS.get(path.rpartition(".")[2])
    if check is None or not _INVALID_WORD.fullmatch(message):
        return None
    try:
        check(None, path)
    except Rejected as told:
        return told
    return None


def _located(message: str) -> tuple[str, str]:
    """
    Split the decoder's "what - at `$.where[0]`" into what and the dotted path.
    """
    if not (found := _WHERE.fullmatch(message)):
        return message, ""
    path = _INDEX.sub(r".\1", found[2].replace("[...]", ".*"))
    return found[1], path.lstrip(".")


def _named(message: str) -> Rejected:
    """
    The fault of a missing or unknown field belongs to the field, not to the object around it.
    """
    if found := _MISSING.fullmatch(message):
        return fault(found[1], _REQUIRED)
    if found := _UNKNOWN.fullmatch(message):
        return fault(quoted(found[1]), _NOT_A_FIELD)
    return Rejected(quoted(message, 200))


def _context(value: object, path: str) -> AutonomyContextRequest:
    if isinstance(value, AutonomyContextRequest):
        return value
    if not isinstance(value, dict):
        raise fault(path, f"must be an object, not {type(value).__name__}")
    for name in value:
        if name not in _CONTEXT:
            raise fault(f"{path}.{quoted(str(name))}", _NOT_A_FIELD)
    for name in ("autonomy_mode", "agent_id"):
        if name not in value:
            raise fault(f"{path}.{name}", _REQUIRED)
    try:
        return AutonomyContextRequest(**value)
    except Rejected as inner:
        raise within(path, inner) from None


_WORDS = {
    "autonomy_mode": word(AutonomyMode),
    "intent": word(NotificationIntent),
    "delivery_mode": word(DeliveryMode),
    "priority": word(Priority),
}
_CONTEXT: dict[str, Check] = {
    "autonomy_mode": _WORDS["autonomy_mode"],
    "agent_id": identifier,
    "plan_id": optional(identifier),
    "decision_snapshot_id": optional(identifier),
    "execution_snapshot_id": optional(identifier),
    "skip_snapshot_id": optional(identifier),
}
_REQUEST: dict[str, Check] = {
    "notification_type": dotted(KEY_CHARS),
    "intent": _WORDS["intent"],
    "title": line(TITLE_CHARS),
    "message": text(MESSAGE_CHARS),
    "source": line(KEY_CHARS),
    "autonomy_context": _context,
    "irreversible": flag,
    "idempotency_key": optional(line(KEY_CHARS)),
    "dedup_key": optional(line(KEY_CHARS)),
    "correlation_id": optional(line(KEY_CHARS)),
    "delivery_mode": optional(_WORDS["delivery_mode"]),
    "require_ack": optional(flag),
    "priority": optional(_WORDS["priority"]),
    "metadata": json_object,
}
