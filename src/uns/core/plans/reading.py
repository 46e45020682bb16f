"""
Reads that doors project: a row with its line, a timeline, a response view. They apply nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from uns.core.plans.groups import row_of
from uns.core.rules.lineage import resolve
from uns.core.rules.projection import final, project
from uns.ports.errors import NotFound
from uns.ports.policy import AUTHORITY, PolicyAuthority
from uns.ports.queries import AuditsOf, EventsOf, LineOf
from uns.ports.replies import Projection
from uns.ports.rows import DeliveryAudit, Event, Link, Notification
from uns.ports.store import Plan, Tx, Wants


class View(Struct, frozen=True):
    """
    One notification as stored, and what its obligation has come to.
    """

    row: Notification
    projection: Projection


class Standing(Struct, frozen=True):
    """
    A response projection; ``final`` when nothing can change it any more.
    """

    projection: Projection
    final: bool


def view(id: str) -> Plan[View]:
    """
    The row and its response projection, from one snapshot.

    Raises:
        NotFound: no such notification.
    """

    def run(tx: Tx) -> View:
        return View(row_of(tx, id), _projection(tx, id))

    return Plan(run)


def response(id: str) -> Plan[Projection]:
    """
    The response projection alone.

    Raises:
        NotFound: no such notification.
    """
    return Plan(lambda tx: _projection(tx, id))


def standing(id: str) -> Plan[Standing]:
    """
    The response projection, and whether it can still change.

    Raises:
        NotFound: no such notification.
    """

    def run(tx: Tx) -> Standing:
        links = _links(tx, id)
        lineage = resolve(id, links)
        return Standing(project(id, links, lineage), final(lineage))

    return Plan(run)


def timeline(id: str) -> Plan[Sequence[Event]]:
    """
    The events of a notification, in the order they were written.

    Raises:
        NotFound: no such notification.
    """

    def run(tx: Tx) -> Sequence[Event]:
        row_of(tx, id)
        return tx.find(EventsOf(id))

    return Plan(run)


def audits(id: str) -> Plan[Sequence[DeliveryAudit]]:
    """
    The delivery audit records of a notification, oldest first.

    Raises:
        NotFound: no such notification.
    """

    def run(tx: Tx) -> Sequence[DeliveryAudit]:
        row_of(tx, id)
        return tx.find(AuditsOf(id))

    return Plan(run)


def authority() -> Plan[bool]:
    """
    Whether policies are in force: the least that a store must be able to answer.
    """
    return Plan(lambda tx: tx.get(PolicyAuthority, AUTHORITY) is not None, Wants(policy=True))


def _projection(tx: Tx, id: str) -> Projection:
    links = _links(tx, id)
    return project(id, links, resolve(id, links))


def _links(tx: Tx, id: str) -> Sequence[Link]:
    links = tx.find(LineOf(id))
    if not links:
        raise NotFound
    return links
