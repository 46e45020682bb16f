"""
Intake: a request becomes a leader, a follower or a satisfied duplicate, or is known already.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from uns.core.rules.digest import dedup_digest
from uns.core.rules.events import Stamp
from uns.ports.channel import Content
from uns.ports.decision import Change, Decision, Signal, SignalKind
from uns.ports.errors import Conflict
from uns.ports.policy import Resolved
from uns.ports.requests import SendNotificationRequest
from uns.ports.rows import DedupWindow, Event, Notification
from uns.ports.sources import Ids
from uns.ports.vocabulary import EventKind, Status

ACCEPTED_ID, LINKED_ID, HANDED_ID = range(3)

_encode = msgspec.json.Encoder().encode


class Acceptance(Struct, frozen=True, kw_only=True):
    """
    A request made ready for the ledger by its door: identified, digested, ids drawn.

    ``dedup_key`` is the producer's, or the digest of the content.
    """

    id: str
    ids: Ids
    request: SendNotificationRequest
    principal: str
    key: str
    fingerprint: str
    dedup_key: str
    wants_callback: bool = False


class Accepted(Struct, frozen=True):
    """
    The stored row, and whether it was there before this request.
    """

    row: Notification
    replayed: bool = False


def known(row: Notification, acceptance: Acceptance) -> Accepted:
    """
    The reply to a request whose idempotency key is stored already.

    A stored row with the request's own id is the acceptance itself, committed by an earlier run
    of the same plan whose answer was lost.

    Raises:
        Conflict: the stored request has another fingerprint. Not retryable.
    """
    if row.id == acceptance.id:
        return Accepted(row)
    if row.fingerprint != acceptance.fingerprint:
        raise Conflict("Idempotency key reused with a different payload")
    return Accepted(row, replayed=True)


def fresh(acceptance: Acceptance, resolved: Resolved, dedup_key: str | None, now: float) -> Notification:
    """
    The row this request would be as an independent leader, accepted at ``now``.

    Args:
        dedup_key: see ``window_key``.
    """
    request, effective = acceptance.request, resolved.effective
    return Notification(
        id=acceptance.id,
        key=acceptance.key,
        fingerprint=acceptance.fingerprint,
        principal=acceptance.principal,
        source=request.source,
        notification_type=request.notification_type,
        intent=request.intent,
        agent_id=str(request.autonomy_context.agent_id),
        autonomy_mode=request.autonomy_context.autonomy_mode,
        priority=effective.priority,
        delivery_mode=effective.delivery_mode,
        correlation_id=request.correlation_id,
        accepted_at=now,
        body=_body(acceptance.id, request, resolved),
        effective=effective,
        effective_hash=resolved.effective_hash,
        policy_id=resolved.policy_id,
        policy_hash=resolved.policy_hash,
        channels=resolved.channels,
        wants_callback=acceptance.wants_callback,
        dedup_key=dedup_key,
        next_attempt=now,
    )


def window_key(acceptance: Acceptance, resolved: Resolved) -> str | None:
    """
    The key of the dedup window this request belongs to; None when its policy opts out.
    """
    if resolved.effective.dedup_window_seconds <= 0:
        return None
    request = acceptance.request
    return dedup_digest(acceptance.principal, request.source, acceptance.dedup_key, resolved.effective_hash)


def accept(
    row: Notification,
    window: DedupWindow | None,
    owner: Notification | None,
    *,
    resolved: Resolved,
    stamp: Stamp,
) -> Decision[Accepted]:
    """
    Admit ``row``, coalescing it behind the ``owner`` of its ``window`` while that one counts.

    A PENDING owner coalesces whatever ``window.until`` says; a DELIVERED one only before it.
    """
    accepted = Event(
        id=stamp.ids.nth(ACCEPTED_ID),
        notification_id=row.id,
        kind=EventKind.ACCEPTED,
        at=stamp.now,
        payload=resolved.accepted_json,
        callback_until=stamp.now,
    )
    if row.dedup_key is None:
        due = (Signal(SignalKind.DUE, row.id),)
        return Decision(Accepted(row), (Change(None, row),), (), (accepted,), due)
    if window is not None and owner is not None and coalesces(owner, window, stamp.now):
        return _behind(row, window, owner, accepted, stamp)
    return _leading(row, window, owner, accepted, stamp)


def coalesces(owner: Notification, window: DedupWindow, now: float) -> bool:
    """
    Whether ``owner`` still absorbs new requests of its window.
    """
    if owner.status is Status.PENDING:
        return True
    return owner.status is Status.DELIVERED and now < window.until


def _behind(
    row: Notification, window: DedupWindow, owner: Notification, accepted: Event, stamp: Stamp
) -> Decision[Accepted]:
    waits = owner.status is Status.PENDING
    # The owner's generation, not the window's: a replayed row keeps its own (R1).
    linked = replace(
        row,
        dedup_owner_id=owner.id,
        dedup_generation=owner.dedup_generation,
        status=Status.PENDING if waits else Status.DEDUPLICATED,
    )
    link = stamp.event(
        EventKind.DEDUP_LINKED,
        row.id,
        LINKED_ID,
        owner_id=owner.id,
        generation=owner.dedup_generation,
        owner_status=owner.status,
    )
    changes = [Change(None, linked)]
    if waits:
        changes.append(Change(window, replace(window, followers=window.followers + 1)))
    return Decision(Accepted(linked), tuple(changes), (), (accepted, link))


def _leading(
    row: Notification,
    window: DedupWindow | None,
    owner: Notification | None,
    accepted: Event,
    stamp: Stamp,
) -> Decision[Accepted]:
    generation = window.generation + 1 if window is not None else 1
    leader = replace(row, dedup_generation=generation)
    opened = DedupWindow(
        key=str(row.dedup_key),
        until=stamp.now + row.effective.dedup_window_seconds,
        owner_id=row.id,
        generation=generation,
    )
    changes = [Change(None, leader), Change(window, opened)]
    events = [accepted]
    if owner is not None and owner.dead_letter and owner.dedup_successor_id is None:
        # A later replay of the failed owner must not deliver the same obligation twice.
        changes.append(Change(owner, replace(owner, dedup_successor_id=row.id)))
        events.append(
            stamp.event(
                EventKind.OBLIGATION_HANDED_OFF,
                owner.id,
                HANDED_ID,
                successor_id=row.id,
                generation=generation,
            )
        )
    due = (Signal(SignalKind.DUE, row.id),)
    return Decision(Accepted(leader), tuple(changes), (), tuple(events), due)


def _body(id: str, request: SendNotificationRequest, resolved: Resolved) -> str:
    content = Content(
        id=id,
        notification_type=request.notification_type,
        intent=request.intent,
        title=request.title,
        message=request.message,
        source=request.source,
        autonomy_context=request.autonomy_context,
        irreversible=request.irreversible,
        idempotency_key=request.idempotency_key,
        dedup_key=request.dedup_key,
        correlation_id=request.correlation_id,
        delivery_mode=request.delivery_mode,
        require_ack=request.require_ack,
        priority=request.priority,
        metadata={**request.metadata, "uns_resolution": msgspec.Raw(resolved.resolution_json.encode())},
    )
    return _encode(content).decode()
