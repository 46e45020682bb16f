"""
Taking an obligation back: what was not delivered ends, what awaits an answer is dismissed.
"""

from __future__ import annotations

from msgspec.structs import replace

from uns.core.rules import ack
from uns.core.rules.ack import Answer
from uns.core.rules.events import Stamp, encoded
from uns.core.rules.followers import Group
from uns.core.rules.settle import end
from uns.ports.decision import Decision, Signal, SignalKind
from uns.ports.errors import Conflict
from uns.ports.rows import Notification
from uns.ports.vocabulary import Ack, EventKind, Status

WITHDRAWN = "withdrawn"
WITHDRAWN_METADATA = encoded({"withdrawn": True})
WITHDRAWN_ID = 0x30


def withdraw(group: Group, *, actor: str, callback: bool, stamp: Stamp) -> Decision[Notification]:
    """
    Withdraw the canonical owner ``group.leader`` on behalf of ``actor``.

    A PENDING one ends FAILED (no dead letter, nothing handed off) and its followers with it; a
    delivered one that awaits an answer becomes DISMISSED by ``actor``. Withdrawing again replies
    with what the first time made.

    Raises:
        Conflict: it is delivered and awaits no answer, or has failed. Not retryable.
    """
    row = group.leader
    if row.withdrawn:
        return Decision(row)
    told = stamp.event(EventKind.WITHDRAWN, row.id, WITHDRAWN_ID, actor=actor, status=row.status)
    if row.ack_status is Ack.PENDING:
        answer = Answer(to=Ack.DISMISSED, actor=actor, metadata=WITHDRAWN_METADATA, callback=callback)
        ended = ack.respond(row, answer, stamp)
        after = replace(ended.reply, withdrawn=True)
        changes = tuple(replace(c, after=after) if c.before is row else c for c in ended.changes)
        return Decision(after, changes, (), (*ended.events, told), ended.signals)
    if row.status is not Status.PENDING:
        raise Conflict(f"nothing to withdraw: it is {row.ack_status or row.status}", reason=row.status)
    after = replace(
        row,
        status=Status.FAILED,
        outcome=replace(row.outcome, error_message=WITHDRAWN),
        withdrawn=True,
        lease_token=None,
        lease_until=0.0,
    )
    failed = end(group, after, stamp)
    signals = (*failed.signals, Signal(SignalKind.ANSWERED, row.id))
    return Decision(after, failed.changes, failed.sweeps, (*failed.events, told), signals)
