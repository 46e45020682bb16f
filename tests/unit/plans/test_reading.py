"""
Reading: rows with their response projection, timelines, and whether an answer is final.

Reading never writes: every plan here runs in a transaction that refuses to.
"""

from uuid import UUID

import pytest

from kit.builders import NOW, a_policy
from kit.ledger import Ledger
from kit.phases import a_row_in
from uns.core.plans import reading
from uns.core.rules.lifecycle import Phase
from uns.ports.errors import NotFound
from uns.ports.replies import Projection
from uns.ports.vocabulary import Ack, EventKind, LineageError, Resolution

K = EventKind
UNKNOWN = "0000ffff-0000-7000-8000-000000000000"
ALONE = "2c5f9b4c-6b3e-4d1a-9c12-4a8f0c8e7b11"


@pytest.fixture
def ledger():
    return Ledger(a_policy(require_ack=True))


def inherited(id, owner, answer):
    return Projection(
        notification_id=UUID(id),
        obligation_owner_id=UUID(owner),
        effective_ack_status=answer,
        ack_inherited=True,
        obligation_resolution_status=Resolution.RESOLVED,
    )


@pytest.mark.parametrize("plan", [reading.view, reading.response, reading.standing, reading.timeline])
def test_an_unknown_id(ledger, plan):
    """
    There is no such notification.
    """
    with pytest.raises(NotFound):
        ledger.read(plan(UNKNOWN))


@pytest.mark.parametrize("plan", [reading.view, reading.response, reading.standing, reading.timeline])
def test_reading_never_writes(ledger, plan):
    """
    Not even where a line has moved on since.
    """
    first, _ = ledger.accept().id, ledger.accept().id
    ledger.fail(first)
    before = {kind: dict(rows) for kind, rows in ledger.store.tables.items()}
    ledger.read(plan(first))

    assert before == {kind: dict(rows) for kind, rows in ledger.store.tables.items()}


def test_a_view_is_the_row_with_its_projection(ledger):
    """
    Row and projection come from one snapshot.
    """
    id = ledger.accept().id
    view = ledger.read(reading.view(id))

    assert (ledger.row(id), ledger.read(reading.response(id))) == (view.row, view.projection)


def test_followers_and_predecessors_inherit_the_answer(ledger):
    """
    Given an obligation that was handed on once, when its heir is answered, then every id of it shows
    that answer, and its own state as it was.
    """
    first, heir, follower = (ledger.accept().id for _ in range(3))
    ledger.fail(first)
    ledger.deliver(heir)
    ledger.respond(heir)

    assert [inherited(id, heir, Ack.ACKED) for id in (first, follower)] == [
        ledger.read(reading.response(id)) for id in (first, follower)
    ]
    assert (UUID(heir), Ack.ACKED, False) == (
        ledger.read(reading.response(heir)).obligation_owner_id,
        ledger.read(reading.response(heir)).ack_status,
        ledger.read(reading.response(heir)).ack_inherited,
    )


def test_a_line_that_does_not_resolve_is_shown_as_such(ledger):
    """
    A missing owner is an error of the projection, not of the reading.
    """
    ledger.put(a_row_in(Phase.FOLLOWING, ALONE, dedup_owner_id=UNKNOWN))
    projection = ledger.read(reading.response(ALONE))

    assert (Resolution.UNRESOLVED, LineageError.MISSING_TARGET, None) == (
        projection.obligation_resolution_status,
        projection.obligation_resolution_error,
        projection.obligation_owner_id,
    )
    assert not ledger.read(reading.standing(ALONE)).final


def test_a_standing_is_final_once_the_owner_is_answered(ledger):
    """
    For a follower as for its owner.
    """
    owner, follower = ledger.accept().id, ledger.accept().id
    standings = []
    for step in (lambda: None, lambda: ledger.deliver(owner), lambda: ledger.respond(owner)):
        step()
        standings.append([ledger.read(reading.standing(id)).final for id in (owner, follower)])

    assert [[False, False], [False, False], [True, True]] == standings


def test_the_timeline_is_in_the_order_it_was_written(ledger):
    """
    One line after the other, whatever their instants: a clock may step back.
    """
    id = ledger.accept().id
    ledger.deliver(id)
    ledger.clock.advance(-5)
    ledger.respond(id)
    events = ledger.read(reading.timeline(id))

    assert [
        K.ACCEPTED,
        K.ATTEMPT_STARTED,
        K.CHANNEL_ATTEMPT_STARTED,
        K.CHANNEL_ATTEMPT_RESULT,
        K.DELIVERY_RESULT,
        K.ACKED,
    ] == [event.kind for event in events]
    assert [NOW, NOW - 5] == [events[0].at, events[-1].at]
