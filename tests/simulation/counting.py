"""
What occurs in a run, counted from what is committed: so that a run cannot silently do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulation.step import Step
from uns.ports.rows import Event, Notification
from uns.ports.vocabulary import EventKind, Status


def occurrences(step: Step) -> Iterator[str]:
    """
    The interesting things that one commit did.
    """
    kinds = {event.kind for event in step.events}
    for event in step.events:
        yield str(event.kind)
        yield from _results(event)
    if EventKind.REPLAY_REQUESTED in kinds and EventKind.OBLIGATION_HANDED_OFF in kinds:
        yield "a replay turned its line"
    if sum(event.kind is EventKind.FAILURE_RESOLVED for event in step.events) > 1:
        yield "a whole line was resolved"
    if EventKind.DEDUP_FAILED_WITH_OWNER in kinds and EventKind.WITHDRAWN not in kinds:
        yield "the cap on hand-offs was reached"
    if EventKind.OBLIGATION_HANDED_OFF in kinds and EventKind.ACCEPTED in kinds:
        yield "a failed owner handed off to a newcomer"
    for before, after in step.changes:
        if before is None:
            yield f"accepted {after.status} {'as leader' if after.leads else 'behind one'}"
            continue
        if after.withdrawn and not before.withdrawn:
            yield "withdrawn with a lease" if before.lease_token else f"withdrawn when {before.status}"
        if before.status is Status.FAILED and after.status is Status.DEDUPLICATED:
            yield "what had failed with its owner was satisfied"
        if after.lease_token is not None:
            yield from _leased(before, after, counted=EventKind.ATTEMPT_STARTED in kinds)


def _leased(before: Notification, after: Notification, *, counted: bool) -> Iterator[str]:
    if after.lease_token == before.lease_token:
        if after.lease_until > before.lease_until:
            yield "a lease was renewed"
        return
    if before.lease_token is not None:
        yield "a lapsed lease was taken over"
    if not counted:
        yield "a claim only to settle"


def _results(event: Event) -> Iterator[str]:
    if event.kind is not EventKind.DELIVERY_RESULT:
        return
    details = event.details
    if details["settled_by"] == "answer":
        yield "an early answer proved delivery"
    elif details["rate_limited"]:
        yield "an attempt was paced"
    if "final attempt" in str(details["outcome"]):
        yield "a lease expired on the final attempt"
