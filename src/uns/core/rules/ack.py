"""
Responses: exactly one of ACKED, DISMISSED and TIMED_OUT ends the wait for an answer.
"""

from __future__ import annotations

from msgspec import Raw, Struct
from msgspec.structs import replace

from uns.core.rules.events import Stamp, encoded
from uns.core.rules.followers import Group
from uns.core.rules.outcome import Tally
from uns.core.rules.settle import SettledBy, delivered, satisfy
from uns.ports.decision import Change, Decision, Signal, SignalKind
from uns.ports.errors import Conflict
from uns.ports.rows import AckAudit, Copy, Notification
from uns.ports.vocabulary import Ack, EventKind, Status

TIMEOUT_ACTOR = "uns-timeout-worker"
TIMEOUT_METADATA = encoded({"escalation_required": True})

RESPONSE_ID, AUDIT_ID = 0x20, 0x21

_KINDS = {
    Ack.ACKED: EventKind.ACKED,
    Ack.DISMISSED: EventKind.DISMISSED,
    Ack.TIMED_OUT: EventKind.TIMED_OUT,
}


class Answer(Struct, frozen=True, kw_only=True):
    """
    A response on its way in: ``to`` is ACKED or DISMISSED, ``metadata`` a JSON object or None.

    ``callback`` is whether the answering process delivers callbacks.
    """

    to: Ack
    actor: str
    metadata: str | None = None
    callback: bool = False


def respond(row: Notification, answer: Answer, stamp: Stamp) -> Decision[Notification]:
    """
    Acknowledge or dismiss ``row``, which is its own canonical owner.

    Repeating one's own response replies with the stored row and changes nothing.

    Args:
        stamp: the deadline has passed when ``deadline <= now``.

    Raises:
        Conflict: another actor or another answer settled it, the deadline has passed, or it
            awaits no response. Not retryable.
    """
    if row.ack_status is answer.to and row.actor == answer.actor:
        return Decision(row)
    if row.ack_status is None:
        raise Conflict(_not_asked(row))
    if row.ack_status is not Ack.PENDING:
        raise Conflict(f"the response is {row.ack_status} by {row.actor} already", reason=row.ack_status)
    if row.deadline is not None and row.deadline <= stamp.now:
        raise Conflict("the deadline for a response has passed", reason="DEADLINE_PASSED")
    return _answered(row, answer, stamp)


def prove(group: Group, copies: tuple[Copy, ...], answer: Answer, stamp: Stamp) -> Decision[Notification]:
    """
    An answer from someone who has the message proves delivery (R7).

    Settles the PENDING leader as DELIVERED, and then its response, in one decision. The worker
    that is still calling finds its lease gone.

    Args:
        copies: the successes on record of the leader's line; at least one.
    """
    row = group.leader
    own = frozenset(copy.channel for copy in copies if copy.notification_id == row.id)
    outcome = Tally(row.effective.channels, own).outcome()
    answered = _answered(delivered(row, outcome, stamp.now), answer, stamp)
    settled = satisfy(group, answered.reply, stamp, SettledBy.ANSWER)
    _, *audits = answered.changes  # the row's own change is part of the settlement
    return Decision(
        answered.reply,
        (*settled.changes, *audits),
        settled.sweeps,
        settled.events + answered.events,
        settled.signals + answered.signals,
    )


def provable(row: Notification) -> bool:
    """
    Whether an answer could settle ``row`` before its worker does.
    """
    return row.status is Status.PENDING and row.leads and row.effective.require_ack


def time_out(row: Notification, *, callback: bool, stamp: Stamp) -> Decision[bool]:
    """
    Expire ``row`` once ``deadline <= now``; otherwise change nothing and reply False.
    """
    if row.ack_status is not Ack.PENDING or row.deadline is None or row.deadline > stamp.now:
        return Decision(False)
    answer = Answer(to=Ack.TIMED_OUT, actor=TIMEOUT_ACTOR, metadata=TIMEOUT_METADATA, callback=callback)
    moved = _answered(row, answer, stamp)
    return Decision(True, moved.changes, (), moved.events, moved.signals)


def _answered(row: Notification, answer: Answer, stamp: Stamp) -> Decision[Notification]:
    after = replace(
        row,
        ack_status=answer.to,
        actor=answer.actor,
        responded_at=stamp.now,
        response_metadata=answer.metadata,
    )
    wanted = row.wants_callback or answer.callback
    told = replace(
        stamp.event(
            _KINDS[answer.to],
            row.id,
            RESPONSE_ID,
            actor=answer.actor,
            metadata=Raw((answer.metadata or "{}").encode()),
        ),
        callback_pending=wanted,
    )
    audit = AckAudit(
        id=stamp.ids.nth(AUDIT_ID),
        notification_id=row.id,
        old_status=row.ack_status,
        new_status=answer.to,
        acked_by=answer.actor,
        acked_at=stamp.now,
        ack_metadata=answer.metadata,
        created_at=stamp.now,
    )
    signals = [Signal(SignalKind.ANSWERED, row.id)]
    if wanted:
        signals.append(Signal(SignalKind.CALLBACK, told.id))
    return Decision(after, (Change(row, after), Change(None, audit)), (), (told,), tuple(signals))


def _not_asked(row: Notification) -> str:
    if not row.effective.require_ack:
        return "this notification requires no response"
    return f"this notification awaits no response yet: it is {row.status}"
