"""
The canonical obligation response projection, field by field, and when it is final.
"""

from uuid import UUID

import pytest

from uns.core.rules.lineage import Lineage, resolve
from uns.core.rules.projection import final, project
from uns.ports.replies import Projection
from uns.ports.rows import Link
from uns.ports.vocabulary import Ack, LineageError, Resolution, Status

OWN = "2c5f9b4c-6b3e-4d1a-9c12-4a8f0c8e7b11"
OWNER = "3d6a0c5d-7c4f-4e2b-ad23-5b9f1d9f8c22"
RESOLVED, UNRESOLVED = Resolution.RESOLVED, Resolution.UNRESOLVED


def link(id=OWN, status=Status.PENDING, *, ack=None, owner=None, successor=None, dead=False):
    return Link(id, status, "k", 1, owner, successor, dead, ack, None)


def projected(*links):
    return project(OWN, links, resolve(OWN, links))


@pytest.mark.parametrize("ack", [None, *Ack])
def test_an_owner_shows_its_own_answer_twice(ack):
    """
    For an independent owner stored and effective state are one, and nothing is inherited.
    """
    assert Projection(
        notification_id=UUID(OWN),
        ack_status=ack,
        obligation_owner_id=UUID(OWN),
        effective_ack_status=ack,
        obligation_resolution_status=RESOLVED,
    ) == projected(link(status=Status.DELIVERED, ack=ack))


@pytest.mark.parametrize(
    "own",
    [
        link(owner=OWNER),
        link(status=Status.DEDUPLICATED, owner=OWNER),
        link(status=Status.FAILED, owner=OWNER),
        link(status=Status.FAILED, successor=OWNER, dead=True),
    ],
    ids=["follower", "duplicate", "failed with it", "handed off"],
)
def test_the_owners_answer_is_inherited(own):
    """
    A follower keeps its own null while its owner is ACKED; so does a failed predecessor.
    """
    owner = link(OWNER, Status.DELIVERED, ack=Ack.ACKED)

    assert Projection(
        notification_id=UUID(OWN),
        ack_status=None,
        obligation_owner_id=UUID(OWNER),
        effective_ack_status=Ack.ACKED,
        ack_inherited=True,
        obligation_resolution_status=RESOLVED,
    ) == projected(own, owner)


@pytest.mark.parametrize(
    ("links", "error"),
    [
        ([link(owner=OWNER)], LineageError.MISSING_TARGET),
        (
            [
                link(status=Status.FAILED, successor=OWNER),
                link(OWNER, Status.FAILED, ack=Ack.ACKED, successor=OWN),
            ],
            LineageError.CYCLE,
        ),
    ],
)
def test_an_intermediate_row_is_never_shown_as_the_owner(links, error):
    """
    Without an owner there is no effective answer, even if a row on the way has one.
    """
    assert Projection(
        notification_id=UUID(OWN),
        obligation_resolution_status=UNRESOLVED,
        obligation_resolution_error=error,
    ) == projected(*links)


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (link(status=Status.PENDING), False),
        (link(status=Status.DELIVERED), True),
        (link(status=Status.DELIVERED, ack=Ack.PENDING), False),
        (link(status=Status.DELIVERED, ack=Ack.ACKED), True),
        (link(status=Status.DELIVERED, ack=Ack.DISMISSED), True),
        (link(status=Status.DELIVERED, ack=Ack.TIMED_OUT), True),
        (link(status=Status.FAILED, dead=True), False),
        (link(status=Status.FAILED), True),
        (None, False),
    ],
)
def test_what_can_still_change_is_not_final(owner, expected):
    """
    Final is an answer, or a state from which none can come: a dead letter may be replayed.
    """
    assert expected is final(Lineage(owner))
