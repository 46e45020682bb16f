"""
Replaying and resolving as transactions, as ``docs/rules.md`` tells them.

- the end of the line decides, and the refusal says what the list shows: ``test_the_list_and_the_refusal_*``
- the line is turned, in whatever order it is replayed: ``test_every_id_resolves_to_the_replayed_row``
- window and followers of a replayed row: ``test_a_replayed_row_*``, ``test_one_replay_serves_*``
- a replay run twice, or decided from an older cycle (R6): ``test_a_replay_run_again_*``
- resolving the end clears the whole line: ``test_resolving_*``
"""

import pytest
from msgspec.structs import replace

from kit.builders import NOW, a_policy
from kit.ledger import Ledger
from kit.phases import a_row_in
from uns.core.plans import recovery
from uns.core.rules.lease import Purpose
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.settle import Settled
from uns.ports.errors import Conflict, NotFound
from uns.ports.rows import Copy, DedupWindow, Notification
from uns.ports.vocabulary import EventKind, ReplayBlock, Status

P, K, B = Phase, EventKind, ReplayBlock
UNKNOWN = "0000ffff-0000-7000-8000-000000000000"


@pytest.fixture
def ledger():
    return Ledger()


def contents(ledger):
    return {kind: dict(rows) for kind, rows in ledger.store.tables.items()}


def a_dead_line(ledger, length):
    """
    Dead letters, each the successor of the one before it.
    """
    ids = []
    for _ in range(length):
        ids.append(ledger.accept().id)
        ledger.fail(ids[-1])
    return ids


def listed(ledger):
    return {letter.row.id: letter.blocked for letter in ledger.read(recovery.dead_letters(100))}


def test_a_replayed_row_is_delivered(ledger):
    """
    A new cycle with its own budget and idempotency tokens, the history kept.
    """
    (id,) = a_dead_line(ledger, 1)
    ledger.clock.advance(50)
    row = ledger.replay(id)

    assert (P.LEADING, 2, 0, NOW + 50) == (phase(row), row.cycle, row.cycle_attempts, row.next_attempt)
    assert {"actor": "ops", "cycle": 2, "cumulative_attempts": 1} == ledger.events(id, K.REPLAY_REQUESTED)[
        0
    ].details
    assert Settled.DELIVERED is ledger.attempt(id, SLACK=True)
    assert 2 == ledger.row(id).attempts


def test_a_replayed_row_owns_its_window_again(ledger):
    """
    What is accepted during the new cycle follows the replayed row, in its generation (R1).
    """
    first, second = a_dead_line(ledger, 2)
    row = ledger.replay(first)
    follower = ledger.accept()

    assert (first, 2) == (ledger.window(row).owner_id, ledger.window(row).generation)
    assert (first, 1) == (follower.dedup_owner_id, follower.dedup_generation)
    assert first == ledger.lineage(follower.id).owner.id == ledger.lineage(second).owner.id
    ledger.deliver(first)
    assert P.DEDUPLICATED is phase(ledger.row(follower.id))


@pytest.mark.parametrize("replayed", [0, 1, 2, 3])
def test_every_id_resolves_to_the_replayed_row(ledger, replayed):
    """
    Whichever dead letter of a line is replayed, every id of the line resolves to it.
    """
    line = a_dead_line(ledger, 4)
    ledger.replay(line[replayed])

    assert {line[replayed]} == {ledger.lineage(id).owner.id for id in line}


def test_a_line_can_be_turned_again_and_again(ledger):
    """
    Replay, fail, replay another: there is never a cycle, and never two that are alive.
    """
    line = a_dead_line(ledger, 3)
    for id in (line[0], line[1], line[2], line[1], line[0]):
        ledger.replay(id)
        assert {id} == {ledger.lineage(other).owner.id for other in line}
        assert 1 == len([row for row in ledger.rows().values() if row.status is Status.PENDING])
        ledger.fail(id)


def test_a_row_alone_is_replayed_again_and_again(ledger):
    """
    Without a successor nothing is turned: the row stays its own end (R2).
    """
    (id,) = a_dead_line(ledger, 1)
    for cycle in (2, 3, 4):
        assert cycle == ledger.replay(id).cycle
        assert None is ledger.fail(id).dedup_successor_id


def blocked_by_pending(ledger):
    (id,) = a_dead_line(ledger, 1)
    return id, B.SUCCESSOR_PENDING, ledger.accept().id


def blocked_by_delivered(ledger):
    (id,) = a_dead_line(ledger, 1)
    return id, B.SUCCESSOR_SATISFIED, ledger.deliver(ledger.accept().id).id


def blocked_by_resolved(ledger):
    first, second = a_dead_line(ledger, 2)
    rows = ledger.store.tables[Notification]
    rows[second] = replace(rows[second], dead_letter=False)  # as an ending without a dead letter
    return first, B.RESOLVED, second


def blocked_by_withdrawn(ledger):
    (id,) = a_dead_line(ledger, 1)
    return id, B.RESOLVED, ledger.withdraw(ledger.accept().id).id


def blocked_by_replayed(ledger):
    first, second = a_dead_line(ledger, 2)
    ledger.replay(first)
    return second, B.SUCCESSOR_PENDING, first


def blocked_by_window_owner(ledger, status=Phase.LEADING):
    (id,) = a_dead_line(ledger, 1)
    key = ledger.row(id).dedup_key
    ledger.put(a_row_in(status, "other", dedup_key=key))
    ledger.store.tables[DedupWindow][key] = DedupWindow(key=key, until=NOW, owner_id="other", generation=2)
    reason = B.WINDOW_OWNER_PENDING if status is P.LEADING else B.WINDOW_OWNER_DELIVERED
    return id, reason, "other"


def blocked_by_delivered_window_owner(ledger):
    return blocked_by_window_owner(ledger, P.DELIVERED)


def blocked_by_nothing_there(ledger):
    ledger.put(a_row_in(P.DEAD_LETTER, "n1", dedup_successor_id="gone"))
    return "n1", B.UNRESOLVED_LINEAGE, None


def not_blocked(ledger):
    first, _ = a_dead_line(ledger, 2)
    return first, None, None


BLOCKS = [
    blocked_by_pending,
    blocked_by_delivered,
    blocked_by_resolved,
    blocked_by_withdrawn,
    blocked_by_replayed,
    blocked_by_window_owner,
    blocked_by_delivered_window_owner,
    blocked_by_nothing_there,
    not_blocked,
]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_list_and_the_refusal_say_the_same(ledger, block):
    """
    What the dead-letter list shows of a row is what its replay is refused with, row and reason; a
    refusal changes nothing.
    """
    id, reason, by = block(ledger)
    shown = listed(ledger)[id]
    if reason is None:
        assert None is shown
        assert P.LEADING is phase(ledger.replay(id))
        return
    before = contents(ledger)
    with pytest.raises(Conflict) as refused:
        ledger.replay(id)

    assert (reason, by) == (shown.reason, shown.by)
    assert (reason, by) == (refused.value.reason, refused.value.replay_blocked_by)
    assert before == contents(ledger)


def test_one_replay_serves_those_who_failed_with_it(ledger):
    """
    Given a generation that ended with its third heir, when that one is replayed and delivered, then
    all who failed with it are satisfied.
    """
    line = [ledger.accept().id for _ in range(6)]
    for id in line[:4]:
        ledger.fail(id)
    row = ledger.replay(line[3])

    assert 2 == ledger.window(row).followers
    ledger.deliver(line[3])
    assert [P.DEDUPLICATED] * 2 == [phase(ledger.row(id)) for id in line[4:]]
    assert [K.DEDUP_SATISFIED] * 2 == [ledger.kinds(id)[-1] for id in line[4:]]


def test_a_replay_that_fails_again_hands_on_to_those_who_came_since(ledger):
    """
    Given a replayed row of a generation handed on three times, when it fails again, then whoever
    follows it by then ends with it: the cap counts for the generation.
    """
    line = [ledger.accept().id for _ in range(4)]
    for id in line:
        ledger.fail(id)
    ledger.replay(line[3])
    follower = ledger.accept().id
    ledger.fail(line[3])

    assert P.FAILED_WITH_OWNER is phase(ledger.row(follower))


def test_a_pruned_window_is_made_anew(ledger):
    """
    Given a window that retention took away, when its dead letter is replayed, then the key
    coalesces again, in a generation not below the row's.
    """
    _, second = a_dead_line(ledger, 2)
    ledger.store.tables[DedupWindow].clear()
    row = ledger.replay(second)

    assert (second, 2) == (ledger.window(row).owner_id, ledger.window(row).generation)
    assert second == ledger.accept().dedup_owner_id


def test_a_row_without_a_key_is_replayed():
    """
    No window is made for it.
    """
    ledger = Ledger(a_policy(dedup_window_seconds=0.0))
    (id,) = a_dead_line(ledger, 1)

    assert P.LEADING is phase(ledger.replay(id))
    assert {} == ledger.table(DedupWindow)


def test_a_success_on_record_is_not_sent_again_by_a_replay(ledger):
    """
    Given a dead letter whose provider had answered too late, when it is replayed, then it is settled
    DELIVERED without a call (R3, R5).
    """
    (id,) = a_dead_line(ledger, 1)
    ledger.put(Copy(notification_id=id, channel="SLACK", ref=None, routing=None, state="SENT", at=NOW))
    ledger.replay(id)
    claim = ledger.claim(id)

    assert (Purpose.SATISFIED, ()) == (claim.purpose, claim.calls)
    assert Settled.DELIVERED is ledger.conclude(claim).settled


def test_a_replay_run_again_is_one_replay(ledger):
    """
    Given that the answer to its commit was lost, when the plan runs again, then it replies with the
    row and begins no second cycle.
    """
    first, _ = a_dead_line(ledger, 2)
    plan = recovery.replay(first, actor="ops", cycle=1, ids=ledger.ids())
    row, before = ledger.run(plan), contents(ledger)

    assert row == ledger.run(plan)
    assert before == contents(ledger)


def test_a_replay_run_again_after_the_row_failed_again(ledger):
    """
    Also when the row is a dead letter once more the lost answer is repeated, and no cycle begins.
    """
    (id,) = a_dead_line(ledger, 1)
    plan = recovery.replay(id, actor="ops", cycle=1, ids=ledger.ids())
    ledger.run(plan)
    ledger.fail(id)

    assert (P.DEAD_LETTER, 2) == (phase(ledger.run(plan)), ledger.row(id).cycle)


def test_two_operators_replay_once(ledger):
    """
    Given two replays decided from one cycle, then the second is refused, before and after the row
    has failed again.
    """
    (id,) = a_dead_line(ledger, 1)
    ledger.replay(id, cycle=1)
    with pytest.raises(Conflict):
        ledger.replay(id, cycle=1)
    ledger.fail(id)
    with pytest.raises(Conflict):
        ledger.replay(id, cycle=1)

    assert 2 == ledger.row(id).cycle


def test_what_is_unknown_or_no_dead_letter(ledger):
    """
    NotFound, or a conflict that names the state; the cycle to decide from is that of a dead letter.
    """
    (dead,), alive = a_dead_line(ledger, 1), ledger.accept(title="another").id
    with pytest.raises(NotFound):
        ledger.run(recovery.replay(UNKNOWN, actor="ops", cycle=1, ids=ledger.ids()))
    with pytest.raises(NotFound):
        ledger.read(recovery.dead_letter_cycle(UNKNOWN))
    with pytest.raises(Conflict):
        ledger.replay(alive)
    with pytest.raises(Conflict, match="PENDING"):
        ledger.read(recovery.dead_letter_cycle(alive))

    assert 1 == ledger.read(recovery.dead_letter_cycle(dead))


def test_resolving_the_end_clears_the_whole_line(ledger):
    """
    FAILED and the audit stay; each dead letter of the line is told once, and none can be replayed.
    """
    line = a_dead_line(ledger, 3)

    assert ledger.resolve_failure(line[2])
    assert [P.FAILED] * 3 == [phase(ledger.row(id)) for id in line]
    assert [[K.FAILURE_RESOLVED]] * 3 == [ledger.kinds(id)[-1:] for id in line]
    assert {} == listed(ledger)


def test_resolving_another_row_of_the_line_clears_that_row(ledger):
    """
    The obligation is alive at the end of the line; before it only the row itself is cleared.
    """
    line = a_dead_line(ledger, 3)

    assert ledger.resolve_failure(line[1])
    assert [P.DEAD_LETTER, P.FAILED, P.DEAD_LETTER] == [phase(ledger.row(id)) for id in line]


def test_a_resolved_key_leads_anew(ledger):
    """
    What is accepted after the operator resolved it is another obligation.
    """
    (id,) = a_dead_line(ledger, 1)
    ledger.resolve_failure(id)

    assert (P.LEADING, None) == (
        phase(ledger.accept()),
        ledger.row(id).dedup_successor_id,
    )


def test_resolving_run_again(ledger):
    """
    Given that the answer was lost, when the plan runs again, then it says yes again, and nothing is
    told twice; another's resolving finds nothing to do.
    """
    line = a_dead_line(ledger, 2)
    plan = recovery.resolve_failure(line[1], actor="ops", ids=ledger.ids())

    assert [True, True] == [ledger.run(plan), ledger.run(plan)]
    assert 1 == len(ledger.events(line[1], K.FAILURE_RESOLVED))
    assert not ledger.resolve_failure(line[1])


def test_resolving_what_is_unknown_or_no_dead_letter(ledger):
    """
    False, and nothing is written.
    """
    id = ledger.accept().id
    before = contents(ledger)

    assert [False, False] == [ledger.resolve_failure(UNKNOWN), ledger.resolve_failure(id)]
    assert before == contents(ledger)


def test_dead_letters_are_listed_oldest_first_page_by_page(ledger):
    """
    By (``accepted_at``, id), each page after the last row of the one before.
    """
    ids = []
    for n in range(5):
        ids.append(ledger.fail(ledger.accept(title=f"alert {n}").id).id)
        ledger.clock.advance(n % 2)
    ledger.accept(title="alive")
    pages, after = [], (0.0, "")
    while page := ledger.read(recovery.dead_letters(2, after)):
        pages.append([letter.row.id for letter in page])
        after = (page[-1].row.accepted_at, page[-1].row.id)

    assert [ids[:2], ids[2:4], ids[4:]] == pages
