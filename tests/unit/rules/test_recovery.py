"""
Replaying, as ``docs/rules.md`` tells it.

- only a dead letter, from the cycle it was decided from (R6): ``test_only_a_dead_letter_*``
- the end of the line decides: ``test_the_end_of_the_line_decides``
- the end is the row itself (R2): ``test_a_row_at_its_own_end_*``; another: ``test_the_line_is_turned``
- a live owner of the window outside the line: ``test_another_live_owner_of_the_window_blocks``
- the window is set, or made anew: ``test_the_window_is_*``; without a key: ``test_without_a_key_*``
- resolving clears the whole line, one event each: ``test_resolving_*``
"""

import pytest

from kit.builders import NOW
from kit.phases import a_row_in
from uns.core.rules.events import Stamp
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.lineage import Lineage
from uns.core.rules.recovery import Blocked, Line, blockers, reopen, replay, resolve
from uns.ports.decision import Change, Signal, SignalKind
from uns.ports.errors import Conflict
from uns.ports.rows import DedupWindow, Link
from uns.ports.sources import Ids
from uns.ports.vocabulary import EventKind, LineageError, ReplayBlock, Status

P, K, B = Phase, EventKind, ReplayBlock
STAMP = Stamp(Ids("0000002a-0000-7000-8000-000000000000"), NOW)
DEAD = a_row_in(P.DEAD_LETTER)


def link_of(row):
    return Link(
        row.id,
        row.status,
        row.dedup_key,
        row.dedup_generation,
        row.dedup_owner_id,
        row.dedup_successor_id,
        row.dead_letter,
        row.ack_status,
        row.escalation_of,
    )


def a_window(owner="n1", **fields):
    plain = {"key": "d" * 64, "until": NOW - 1, "owner_id": owner, "generation": 1}
    return DedupWindow(**(plain | fields))


def a_line(row=DEAD, end=None, window=None, status=None):
    end = row if end is None else end
    return Line(row, Lineage(link_of(end)), frozenset({row.id, end.id}), window, status)


def replayed(line, end=None, cycle=1):
    return replay(line, line.row if end is None else end, actor="ops", cycle=cycle, stamp=STAMP)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (P.LEADING, B.SUCCESSOR_PENDING),
        (P.LEASED, B.SUCCESSOR_PENDING),
        (P.DELIVERED, B.SUCCESSOR_SATISFIED),
        (P.AWAITING, B.SUCCESSOR_SATISFIED),
        (P.ANSWERED, B.SUCCESSOR_SATISFIED),
        (P.TIMED_OUT, B.SUCCESSOR_SATISFIED),
        (P.DEDUPLICATED, B.SUCCESSOR_SATISFIED),
        (P.FAILED, B.RESOLVED),
        (P.WITHDRAWN, B.RESOLVED),
        (P.DEAD_LETTER, None),
    ],
)
def test_the_end_of_the_line_decides(at, expected):
    """
    What is alive or satisfied, resolved or withdrawn at the end of the line blocks, and is named in
    the refusal with the reason that the dead-letter list shows; a dead letter does not (R4).
    """
    end = a_row_in(at, "n9")
    line = a_line(a_row_in(P.DEAD_LETTER, dedup_successor_id="n9"), end)

    assert (None if expected is None else Blocked(expected, "n9")) == blockers(line)
    if expected is not None:
        with pytest.raises(Conflict) as refused:
            replayed(line, end)

        assert ("n9", expected) == (refused.value.replay_blocked_by, refused.value.reason)


@pytest.mark.parametrize("error", LineageError)
def test_a_line_that_does_not_resolve_blocks(error):
    """
    Unresolved lineage is refused, and no row is to blame.
    """
    line = Line(DEAD, Lineage(None, error), frozenset({"n1"}))

    assert Blocked(B.UNRESOLVED_LINEAGE, None) == blockers(line)
    with pytest.raises(Conflict, match="does not resolve"):
        replayed(line)


@pytest.mark.parametrize("at", [p for p in Phase if p is not P.DEAD_LETTER])
def test_only_a_dead_letter_is_replayed(at):
    """
    Whatever is not dead-lettered is refused.
    """
    with pytest.raises(Conflict, match="only a dead-lettered") as refused:
        replayed(a_line(a_row_in(at)))

    assert "NOT_DEAD_LETTERED" == refused.value.reason


@pytest.mark.parametrize(("cycle", "allowed"), [(1, False), (2, True), (3, False)])
def test_a_replay_carries_the_cycle_it_was_decided_from(cycle, allowed):
    """
    Given a dead letter of cycle 2, when a replay was decided from another, then it came twice.
    """
    line = a_line(a_row_in(P.DEAD_LETTER, cycle=2))
    if allowed:
        assert 3 == replayed(line, cycle=cycle).reply.cycle
        return
    with pytest.raises(Conflict):
        replayed(line, cycle=cycle)


def test_a_replay_begins_a_new_cycle():
    """
    A fresh budget, due at once, unleased; attempts and outcome stay as history.
    """
    row = a_row_in(P.DEAD_LETTER, attempts=5, cycle=2, cycle_attempts=3, paced_since=NOW - 9)
    after = replayed(a_line(row), cycle=2).reply

    assert P.LEADING is phase(after)
    assert (3, 0, 5) == (after.cycle, after.cycle_attempts, after.attempts)
    assert (NOW, None, 0.0, None) == (
        after.next_attempt,
        after.lease_token,
        after.lease_until,
        after.paced_since,
    )
    assert row.outcome == after.outcome


def test_a_row_at_its_own_end_is_not_turned():
    """
    Without a successor nothing is turned: no row may become its own successor (R2).
    """
    decision = replayed(a_line())

    assert (Change(DEAD, decision.reply),) == decision.changes
    assert None is decision.reply.dedup_successor_id
    assert [K.REPLAY_REQUESTED] == [event.kind for event in decision.events]
    assert (Signal(SignalKind.DUE, "n1"),) == decision.signals


def test_the_line_is_turned():
    """
    Given another dead letter at the end, then the end leads to the replayed row and that one to
    nobody, so that every id of the line resolves to the obligation that is alive.
    """
    row = a_row_in(P.DEAD_LETTER, dedup_successor_id="n9")
    end = a_row_in(P.DEAD_LETTER, "n9", dedup_generation=2)
    decision = replayed(a_line(row, end), end)
    first, second = decision.changes

    assert (row, None, Status.PENDING) == (
        first.before,
        first.after.dedup_successor_id,
        first.after.status,
    )
    assert (end, "n1", P.DEAD_LETTER) == (
        second.before,
        second.after.dedup_successor_id,
        phase(second.after),
    )


def test_a_replay_is_told():
    """
    REPLAY_REQUESTED names who asked, the new cycle and the attempts so far; the turn is told too.
    """
    row = a_row_in(P.DEAD_LETTER, attempts=4, dedup_successor_id="n9")
    end = a_row_in(P.DEAD_LETTER, "n9")
    asked, turned = replayed(a_line(row, end), end).events

    assert (K.REPLAY_REQUESTED, "n1") == (asked.kind, asked.notification_id)
    assert {"actor": "ops", "cycle": 2, "cumulative_attempts": 4} == asked.details
    assert (K.OBLIGATION_HANDED_OFF, "n9") == (turned.kind, turned.notification_id)
    assert {"successor_id": "n1", "generation": 1} == turned.details


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.PENDING, B.WINDOW_OWNER_PENDING),
        (Status.DELIVERED, B.WINDOW_OWNER_DELIVERED),
        (Status.FAILED, None),
        (None, None),
    ],
)
@pytest.mark.parametrize("until", [NOW - 1, NOW, NOW + 1])
def test_another_live_owner_of_the_window_blocks(status, expected, until):
    """
    A second obligation of the same key must not come alive beside a pending or delivered one, and
    whether the window still counts is no matter.
    """
    line = a_line(window=a_window("other", until=until), status=status)

    assert (None if expected is None else Blocked(expected, "other")) == blockers(line)


@pytest.mark.parametrize("owner", ["n1", "n9"])
def test_an_owner_in_the_line_does_not_block(owner):
    """
    The window's owner may be the row itself or any other of its line.
    """
    row, end = a_row_in(P.DEAD_LETTER, dedup_successor_id="n9"), a_row_in(P.DEAD_LETTER, "n9")

    assert None is blockers(a_line(row, end, a_window(owner), Status.PENDING))


def test_the_window_is_set_to_the_replayed_row():
    """
    The replayed row owns its window again, counted from now, with those still linked behind it.
    """
    window = a_window("n9", handed_on=2, followers=0)
    (change,) = reopen(a_line(window=window), waiting=3, now=NOW).changes

    assert Change(window, a_window("n1", until=NOW + 300, handed_on=2, followers=3)) == change


@pytest.mark.parametrize(("own", "kept"), [(1, 5), (5, 5), (7, 7)])
def test_the_window_is_never_counted_down(own, kept):
    """
    The generation numbers new leaders: the greater of the window's and the row's stays.
    """
    row = a_row_in(P.DEAD_LETTER, dedup_generation=own)
    (change,) = reopen(a_line(row, window=a_window(generation=5, handed_on=3)), waiting=0, now=NOW).changes

    assert kept == change.after.generation
    assert (3 if own == 5 else 0) == change.after.handed_on


def test_the_window_is_made_anew_when_it_was_pruned():
    """
    A pruned window comes back with a generation not below the row's.
    """
    row = a_row_in(P.DEAD_LETTER, dedup_generation=4)
    (change,) = reopen(a_line(row), waiting=0, now=NOW).changes

    assert Change(None, a_window("n1", until=NOW + 300, generation=4)) == change


def test_without_a_key_there_is_no_window_to_set():
    """
    A row whose policy opted out of coalescing is replayed for itself.
    """
    row = a_row_in(P.DEAD_LETTER, dedup_key=None, dedup_generation=None)

    assert () == reopen(a_line(row), waiting=0, now=NOW).changes
    assert P.LEADING is phase(replayed(a_line(row)).reply)


def test_resolving_clears_every_dead_letter_of_the_line():
    """
    Each dead letter stays FAILED, with its outcome, and gets one FAILURE_RESOLVED.
    """
    rows = [a_row_in(P.DEAD_LETTER, "a"), a_row_in(P.FAILED, "b"), a_row_in(P.DEAD_LETTER, "c")]
    decision = resolve(rows, actor="ops", stamp=STAMP)

    assert decision.reply is True
    assert ["a", "c"] == [change.after.id for change in decision.changes]
    assert [P.FAILED] * 2 == [phase(change.after) for change in decision.changes]
    assert [(K.FAILURE_RESOLVED, "a"), (K.FAILURE_RESOLVED, "c")] == [
        (event.kind, event.notification_id) for event in decision.events
    ]
    assert [{"actor": "ops"}] * 2 == [event.details for event in decision.events]
    assert 2 == len({event.id for event in decision.events})


def test_resolving_what_is_no_dead_letter_does_nothing():
    """
    False, and nothing changes.
    """
    decision = resolve([a_row_in(P.FAILED)], actor="ops", stamp=STAMP)

    assert (False, (), ()) == (decision.reply, decision.changes, decision.events)
