"""
Accepting, as ``docs/rules.md`` tells it.

- key known, same fingerprint: ``test_a_known_key_is_a_replay``; other fingerprint:
  ``test_a_known_key_with_another_payload_is_a_conflict``; own id: ``test_a_row_with_the_plans_own_id``
- the table of window owners, and that ``t`` has passed when ``t <= now``: ``test_the_windows_owner_decides``
- an owner's generation, not the window's (R1): ``test_those_behind_take_their_owners_generation``
- the window's counter numbers new leaders: ``test_a_leader_opens_the_next_generation``
- a failed owner hands off: ``test_a_dead_letter_hands_off``, ``test_nothing_else_hands_off``
- window 0 opts out: ``test_a_policy_without_a_window_opts_out``
"""

import json

import pytest

from kit.builders import NOW, a_notification, a_request, an_acceptance
from kit.phases import OWNER, a_row_in
from kit.policies import a_policy, a_shape, a_snapshot
from uns.core.rules.accept import Accepted, accept, coalesces, fresh, known, window_key
from uns.core.rules.digest import dedup_digest
from uns.core.rules.events import Stamp
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.policy import resolve
from uns.ports.decision import Change, Signal, SignalKind
from uns.ports.errors import Conflict
from uns.ports.rows import DedupWindow, Notification
from uns.ports.sources import Ids
from uns.ports.vocabulary import EventKind, Status

P, K = Phase, EventKind
STAMP = Stamp(Ids("0000002a-0000-7000-8000-000000000000"), NOW)
BEFORE, AT, AFTER = NOW - 1, NOW, NOW + 1

LEADS, FOLLOWS, REPEATS = P.LEADING, P.FOLLOWING, P.DEDUPLICATED
TABLE = [
    *[(at, until, FOLLOWS) for at in (P.LEADING, P.LEASED) for until in (BEFORE, AT, AFTER)],
    *[
        (at, until, REPEATS if until > NOW else LEADS)
        for at in (P.DELIVERED, P.AWAITING, P.ANSWERED, P.TIMED_OUT)
        for until in (BEFORE, AT, AFTER)
    ],
    *[(at, until, LEADS) for at in (P.DEAD_LETTER, P.FAILED, P.WITHDRAWN) for until in (BEFORE, AT, AFTER)],
]


def resolved(**fields):
    return resolve(a_snapshot(a_policy(**fields)), a_shape("system.alert", source="pay"))


def _fresh(acceptance, settled):
    return fresh(acceptance, settled, window_key(acceptance, settled), NOW)


def a_window(until=AFTER, **fields):
    return DedupWindow(**({"key": "w", "until": until, "owner_id": OWNER, "generation": 5} | fields))


def made(acceptance, settled):
    return fresh(acceptance, settled, window_key(acceptance, settled), NOW)


def accepted(owner=None, window=None, policy=None, **fields):
    settled = policy or resolved()
    row = _fresh(an_acceptance(id="n1", **fields), settled)
    return accept(row, window, owner, resolved=settled, stamp=STAMP)


def changed(decision, kind=Notification):
    return [change.after for change in decision.changes if isinstance(change.after, kind)]


def test_a_known_key_is_a_replay():
    """
    Given a stored row of the same payload, when its key comes again, then the row as it now stands
    is the reply.
    """
    stored = a_row_in(P.ANSWERED, "n0", fingerprint="same")

    assert Accepted(stored, replayed=True) == known(stored, an_acceptance(fingerprint="same"))


def test_a_known_key_with_another_payload_is_a_conflict():
    """
    An idempotency key stands for one payload.
    """
    with pytest.raises(Conflict, match="different payload"):
        known(a_notification("n0", fingerprint="one"), an_acceptance(fingerprint="other"))


def test_a_row_with_the_plans_own_id_is_the_acceptance_itself():
    """
    Given that an earlier run of the plan was committed, when it runs again, then it is no replay.
    """
    stored = a_notification("n1")

    assert Accepted(stored, replayed=False) == known(stored, an_acceptance(id="n1"))


def test_a_fresh_row_is_due_at_once():
    """
    A row is accepted, and due, at the transaction's instant, with the settings of its policy.
    """
    acceptance = an_acceptance(
        a_request(correlation_id="c-1", dedup_key="disk"), principal="agent-7", wants_callback=True
    )
    settled = resolved()
    row = _fresh(acceptance, settled)

    assert (acceptance.id, acceptance.key, acceptance.fingerprint) == (row.id, row.key, row.fingerprint)
    assert (NOW, NOW, Status.PENDING) == (row.accepted_at, row.next_attempt, row.status)
    assert ("agent-7", "pay", "c-1", True) == (
        row.principal,
        row.source,
        row.correlation_id,
        row.wants_callback,
    )
    assert (settled.effective, settled.effective_hash) == (row.effective, row.effective_hash)
    assert (settled.policy_id, settled.policy_hash) == (row.policy_id, row.policy_hash)
    assert (0, 1, 0) == (row.attempts, row.cycle, row.cycle_attempts)


def test_the_stored_dedup_key_is_the_digest_with_the_effective_hash():
    """
    Who coalesces: one principal, source and key, under the same settings.
    """
    acceptance, settled = an_acceptance(a_request(dedup_key="disk")), resolved()
    expected = dedup_digest("agent-7", "pay", "disk", settled.effective_hash)

    assert expected == window_key(acceptance, settled)
    assert expected == _fresh(acceptance, settled).dedup_key
    assert expected != window_key(acceptance, resolved(max_attempts=9))


def test_the_body_keeps_the_request_and_its_resolution():
    """
    What a channel will be shown is the request as accepted, with the resolution in its metadata.
    """
    acceptance = an_acceptance(a_request(metadata={"host": "db1"}, idempotency_key="k"))
    content = _fresh(acceptance, resolved()).content

    assert acceptance.id == content["id"]
    assert "db1" == content["metadata"]["host"]
    assert "ops" == content["metadata"]["uns_resolution"]["policy_id"]
    assert ("k", "disk is filling up") == (content["idempotency_key"], content["title"])


@pytest.mark.parametrize(("at", "until", "expected"), TABLE)
def test_the_windows_owner_decides(at, until, expected):
    """
    A pending owner coalesces whatever its window says, a delivered one only before ``until``; after
    it, and behind a failed one, the new row leads.
    """
    owner, window = a_row_in(at, OWNER), a_window(until)
    decision = accepted(owner, window)

    assert expected is phase(decision.reply.row)
    assert (expected is not LEADS) is coalesces(owner, window, NOW)
    assert (None if expected is LEADS else OWNER) == decision.reply.row.dedup_owner_id


@pytest.mark.parametrize("window", [None, a_window(generation=4)], ids=["none", "owner pruned"])
def test_without_an_owner_a_row_leads(window):
    """
    No window, or one whose owner is no longer stored: the row leads the window's next generation.
    """
    decision = accepted(None, window)
    row = decision.reply.row

    assert LEADS is phase(row)
    assert (5 if window else 1) == row.dedup_generation


def test_a_leader_opens_the_next_generation():
    """
    A new leader takes the window over: next generation, ``until`` from now, nobody behind it yet.
    """
    window = a_window(BEFORE, handed_on=3, followers=2)
    decision = accepted(a_row_in(P.DELIVERED, OWNER), window)
    row = decision.reply.row
    opened = DedupWindow(key=row.dedup_key, until=NOW + 300, owner_id="n1", generation=6)

    assert 6 == row.dedup_generation
    assert (Change(None, row), Change(window, opened)) == decision.changes
    assert (Signal(SignalKind.DUE, "n1"),) == decision.signals


@pytest.mark.parametrize(("at", "expected"), [(P.LEASED, FOLLOWS), (P.DELIVERED, REPEATS)])
def test_those_behind_take_their_owners_generation(at, expected):
    """
    Given a replayed owner of an older generation than its window's, when a row coalesces behind it,
    then the row takes the owner's (R1).
    """
    row = accepted(a_row_in(at, OWNER, dedup_generation=2), a_window(generation=5)).reply.row

    assert (expected, 2) == (phase(row), row.dedup_generation)


def test_a_follower_is_counted():
    """
    The window knows how many wait behind its owner; its ``until`` does not move.
    """
    window = a_window(BEFORE, followers=2)
    decision = accepted(a_row_in(P.LEADING, OWNER), window)

    assert [a_window(BEFORE, followers=3)] == changed(decision, DedupWindow)
    assert () == decision.signals


def test_a_duplicate_moves_nothing():
    """
    A duplicate of what was delivered neither renews the window nor counts as waiting.
    """
    decision = accepted(a_row_in(P.DELIVERED, OWNER), a_window())

    assert (Change(None, decision.reply.row),) == decision.changes
    assert () == decision.signals


@pytest.mark.parametrize(("at", "told"), [(P.LEASED, "PENDING"), (P.DELIVERED, "DELIVERED")])
def test_the_link_is_told(at, told):
    """
    ACCEPTED comes first; DEDUP_LINKED names owner, generation and the owner's status.
    """
    settled = resolved()
    decision = accepted(a_row_in(at, OWNER), a_window(), settled)
    first, link = decision.events

    assert (K.ACCEPTED, K.DEDUP_LINKED) == (first.kind, link.kind)
    assert settled.accepted_json == first.payload
    assert {"owner_id": OWNER, "generation": 1, "owner_status": told} == link.details
    assert {("n1", NOW)} == {(event.notification_id, event.at) for event in decision.events}


def test_accepted_tells_policy_and_settings():
    """
    ACCEPTED holds what the row will live by.
    """
    (event,) = accepted().events

    assert {"policy_id", "policy_hash", "revision", "effective", "effective_hash"} <= set(event.details)


def test_a_dead_letter_hands_off():
    """
    Given a dead-lettered owner without a successor, when a new row leads its key, then the owner
    hands off to it, so that a later replay cannot deliver twice.
    """
    owner = a_row_in(P.DEAD_LETTER, OWNER)
    decision = accepted(owner, a_window())
    handed = decision.events[-1]

    assert {OWNER: "n1", "n1": None} == {r.id: r.dedup_successor_id for r in changed(decision)}
    assert (K.OBLIGATION_HANDED_OFF, OWNER) == (handed.kind, handed.notification_id)
    assert {"successor_id": "n1", "generation": 6} == handed.details


@pytest.mark.parametrize(
    "owner",
    [
        a_row_in(P.DEAD_LETTER, OWNER, dedup_successor_id="s"),
        a_row_in(P.FAILED, OWNER),
        a_row_in(P.WITHDRAWN, OWNER),
        a_row_in(P.DELIVERED, OWNER),
    ],
    ids=["has a successor", "resolved", "withdrawn", "delivered"],
)
def test_nothing_else_hands_off(owner):
    """
    Only a dead letter whose obligation lives on nowhere else hands off.
    """
    decision = accepted(owner, a_window(BEFORE))

    assert {"n1"} == {row.id for row in changed(decision)}
    assert [K.ACCEPTED] == [event.kind for event in decision.events]


def test_a_policy_without_a_window_opts_out():
    """
    With ``dedup_window_seconds: 0`` a row has no dedup key, no generation and no window.
    """
    decision = accepted(policy=resolved(dedup_window_seconds=0.0))
    row = decision.reply.row

    assert (None, None, LEADS) == (row.dedup_key, row.dedup_generation, phase(row))
    assert (Change(None, row),) == decision.changes
    assert (Signal(SignalKind.DUE, "n1"),) == decision.signals


def test_a_decision_made_twice_writes_the_same_ids():
    """
    Event ids come from the acceptance's own block, slot by slot.
    """
    owner, window = a_row_in(P.DEAD_LETTER, OWNER), a_window()
    first, second = (accepted(owner, window).events for _ in range(2))

    assert [e.id for e in first] == [e.id for e in second]
    assert [STAMP.ids.nth(0), STAMP.ids.nth(2)] == [e.id for e in first]
    assert [json.loads(e.payload) for e in first] == [e.details for e in second]
