"""
The table of moves: every row stands in one phase, and no rule leads anywhere the table does not.

The arrows of the reference's two diagrams are spelt out; that what is *not* in the table is refused
is asked of whole plans in ``tests/unit/plans/test_moves.py``.
"""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.builders import NOW, a_notification, an_acceptance, an_effective
from kit.lawful import assert_lawful
from kit.phases import OWNER, TOKEN, a_row_in
from kit.policies import a_policy, a_shape, a_snapshot
from uns.core.rules import accept, ack, attempt, lease, recovery, settle, withdraw
from uns.core.rules.ack import Answer
from uns.core.rules.events import Stamp
from uns.core.rules.followers import Group
from uns.core.rules.lease import Bearer, Claim, Purpose
from uns.core.rules.lifecycle import MOVES, Move, Phase, attempted, phase
from uns.core.rules.lineage import Lineage
from uns.core.rules.outcome import Call, Tally
from uns.core.rules.policy import resolve
from uns.core.rules.recovery import Line
from uns.core.rules.retry import Retry
from uns.ports.channel import ChannelResult
from uns.ports.errors import Conflict
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Copy, DedupWindow, Link, Outcome
from uns.ports.sources import Ids
from uns.ports.vocabulary import Ack, DeliveryMode, Require, Status

P, M = Phase, Move
OWNERS = [p for p in Phase if p not in (P.FOLLOWING, P.DEDUPLICATED, P.FAILED_WITH_OWNER)]
ENDS = {P.DELIVERED, P.ANSWERED, P.TIMED_OUT, P.DEDUPLICATED, P.FAILED, P.WITHDRAWN}

STANDING = [
    (P.LEADING, {}),
    (P.LEASED, {"lease_token": "t", "lease_until": NOW + 60}),
    (P.LEASED, {"lease_token": "t", "lease_until": NOW}),
    (P.FOLLOWING, {"dedup_owner_id": "o"}),
    (P.DEDUPLICATED, {"status": Status.DEDUPLICATED, "dedup_owner_id": "o"}),
    (P.DELIVERED, {"status": Status.DELIVERED}),
    (P.AWAITING, {"status": Status.DELIVERED, "ack_status": Ack.PENDING}),
    (P.ANSWERED, {"status": Status.DELIVERED, "ack_status": Ack.ACKED}),
    (P.ANSWERED, {"status": Status.DELIVERED, "ack_status": Ack.DISMISSED}),
    (P.ANSWERED, {"status": Status.DELIVERED, "ack_status": Ack.DISMISSED, "withdrawn": True}),
    (P.TIMED_OUT, {"status": Status.DELIVERED, "ack_status": Ack.TIMED_OUT}),
    (P.DEAD_LETTER, {"status": Status.FAILED, "dead_letter": True}),
    (P.DEAD_LETTER, {"status": Status.FAILED, "dead_letter": True, "dedup_successor_id": "s"}),
    (P.FAILED, {"status": Status.FAILED}),
    (P.FAILED_WITH_OWNER, {"status": Status.FAILED, "dedup_owner_id": "o"}),
    (P.WITHDRAWN, {"status": Status.FAILED, "withdrawn": True}),
]
DRAWN = [
    (None, M.ACCEPT, P.LEADING),
    (None, M.ACCEPT, P.FOLLOWING),
    (None, M.ACCEPT, P.DEDUPLICATED),
    (P.LEADING, M.CLAIM, P.LEASED),
    (P.LEASED, M.SETTLE, P.DELIVERED),
    (P.LEASED, M.SETTLE, P.LEADING),
    (P.LEASED, M.SETTLE, P.FAILED),
    (P.LEASED, M.SETTLE, P.DEAD_LETTER),
    (P.DEAD_LETTER, M.REPLAY, P.LEADING),
    (P.DEAD_LETTER, M.RESOLVE, P.FAILED),
    (P.FOLLOWING, M.SATISFY, P.DEDUPLICATED),
    (P.FOLLOWING, M.PROMOTE, P.LEADING),
    (P.FOLLOWING, M.RELINK, P.FOLLOWING),
    (P.LEASED, M.SETTLE, P.AWAITING),
    (P.AWAITING, M.RESPOND, P.ANSWERED),
    (P.AWAITING, M.TIME_OUT, P.TIMED_OUT),
]


@pytest.mark.parametrize(("expected", "fields"), STANDING)
def test_a_row_stands_in_one_phase(expected, fields):
    """
    Status, owner, flags and answer together name one phase; a lease counts until it is cleared.
    """
    assert expected is phase(a_notification(**fields))


@pytest.mark.parametrize("at", Phase)
def test_what_is_settled_or_waits_for_nobody_is_attempted(at):
    """
    Only a leader that has not had its first settlement yet is still to be attempted.
    """
    fresh = a_row_in(at)
    once = a_row_in(at, outcome=Outcome(error_message="SLACK: no"))

    assert (at not in (P.LEADING, P.LEASED)) is attempted(fresh)
    assert attempted(once)


@pytest.mark.parametrize("at", Phase)
def test_there_is_a_row_for_every_phase(at):
    """
    The rows that the other tests start from stand where they say.
    """
    assert at is phase(a_row_in(at))


@pytest.mark.parametrize(("start", "move", "end"), DRAWN)
def test_the_table_has_the_arrows_of_the_reference(start, move, end):
    """
    Each arrow of the reference's delivery and response diagrams is a move of the table.
    """
    assert end in MOVES[start, move]


def test_every_phase_is_reached():
    """
    No phase is named that no move leads to.
    """
    assert set(Phase) == frozenset().union(*MOVES.values())


def test_what_has_ended_stays():
    """
    No move leaves what is delivered without a question, answered, timed out, deduplicated, resolved
    or withdrawn.
    """
    assert ENDS == set(Phase) - {start for start, _ in MOVES}


# A property over all rules: each is called with what its plan could hand it, drawn at random.

ids = Ids("0000002a-0000-7000-8000-000000000000")
nows = st.sampled_from([NOW - 1, NOW, NOW + 59.5, NOW + 60, NOW + 899, NOW + 900, NOW + 5000])
stamps = st.builds(Stamp, st.just(ids), nows)
plans = st.builds(
    ChannelPlan,
    primary=st.sampled_from([("SLACK",), ("SLACK", "EMAIL")]),
    fallback=st.sampled_from([(), ("PAGERDUTY",)]),
    require=st.sampled_from(Require),
)
effectives = st.builds(
    an_effective,
    channels=plans,
    delivery_mode=st.sampled_from(DeliveryMode),
    require_ack=st.booleans(),
    max_attempts=st.sampled_from([None, 1, 2]),
    dedup_window_seconds=st.just(300.0),
)
results = st.builds(
    ChannelResult,
    success=st.booleans(),
    retryable=st.booleans(),
    retry_after=st.sampled_from([None, 0.0, 7.5]),
)
channels = st.sampled_from(["SLACK", "EMAIL", "PAGERDUTY"])
calls = st.dictionaries(channels, results).map(lambda d: tuple(Call(c, r, NOW) for c, r in d.items()))
on_record = st.frozensets(channels)
bearers = st.builds(Bearer, st.sampled_from([TOKEN, "other"]), starts=st.booleans())
answers = st.builds(
    Answer,
    to=st.sampled_from([Ack.ACKED, Ack.DISMISSED]),
    actor=st.sampled_from(["ann", "bob", "agent-7"]),
    metadata=st.sampled_from([None, '{"a":1}']),
    callback=st.booleans(),
)


def copies(channels):
    return tuple(
        Copy(notification_id="n1", channel=c, ref=None, routing=None, state="SENT", at=NOW) for c in channels
    )


def row_with(effective, at, **fields):
    return a_row_in(at, effective=effective, **fields)


def rows(*phases):
    return st.builds(
        row_with,
        effectives,
        st.sampled_from(phases or tuple(Phase)),
        cycle_attempts=st.integers(1, 3),
        attempts=st.integers(3, 9),
        paced_since=st.sampled_from([None, NOW - 900, NOW - 899]),
        wants_callback=st.booleans(),
    )


@st.composite
def groups(draw, *phases):
    leader = draw(rows(*phases))
    window = DedupWindow(
        key=leader.dedup_key,
        until=NOW,
        owner_id=draw(st.sampled_from([leader.id, OWNER])),
        generation=draw(st.integers(1, 3)),
        handed_on=draw(st.integers(0, 4)),
        followers=draw(st.integers(0, 3)),
    )
    waiting = window.followers if window.owner_id == leader.id else 0
    heir = a_row_in(P.FOLLOWING, "f1", dedup_owner_id=leader.id) if waiting else None
    return Group(leader, draw(st.sampled_from([window, window, None])), heir, waiting)


def inputs_of(group):
    return (group.leader, group.window, group.heir)


def accepts(draw):
    at = draw(st.sampled_from(OWNERS))
    owner = draw(st.none() | st.builds(partial(a_row_in, at), st.just(OWNER)))
    window = DedupWindow(key="d" * 64, until=draw(nows), owner_id=OWNER, generation=draw(st.integers(1, 3)))
    policy = a_policy(dedup_window_seconds=draw(st.sampled_from([0.0, 300.0])))
    resolved = resolve(a_snapshot(policy), a_shape("system.alert", source="pay"))
    stamp = draw(stamps)
    acceptance = an_acceptance(id="n1")
    row = accept.fresh(acceptance, resolved, accept.window_key(acceptance, resolved), stamp.now)
    decision = accept.accept(row, window, owner, resolved=resolved, stamp=stamp)
    assert_lawful(decision, (window, owner), {"n1": M.ACCEPT, OWNER: M.HAND_OFF}, created=("n1",))


def claims(draw):
    row, bearer, now = draw(rows()), draw(bearers), draw(nows)
    if lease.claimable(row, now):
        decision = lease.claim(row, copies(draw(on_record)), bearer, now)
        assert_lawful(decision, (row,), {row.id: M.CLAIM})


def starts(draw):
    row, stamp = draw(rows()), draw(stamps)
    decision = attempt.start(
        row, Claim(row, TOKEN, Purpose.SEND), copies(draw(on_record)), draw(calls), stamp
    )
    assert_lawful(decision, (row,), {row.id: M.START})


def renewals(draw):
    row, stamp = draw(rows()), draw(stamps)
    assert_lawful(attempt.renew(row, Claim(row, TOKEN, Purpose.SEND), stamp), (row,), {row.id: M.START})


def returns(draw):
    row, stamp = draw(rows()), draw(stamps)
    claim = Claim(row, TOKEN, draw(st.sampled_from(Purpose)), interrupted=draw(st.booleans()))
    decision = lease.give_back(row, claim, stamp)
    assert_lawful(decision, (row,), {row.id: M.GIVE_BACK})


def settlements(draw):
    group, stamp = draw(groups()), draw(stamps)
    row = group.leader
    claim = Claim(row, TOKEN, draw(st.sampled_from(Purpose)))
    tally = Tally(row.effective.channels, draw(on_record), draw(calls))
    decision = settle.settle(group, claim, tally, Retry(), stamp)
    assert_lawful(decision, inputs_of(group), {row.id: M.SETTLE, "f1": M.PROMOTE})


def responses(draw):
    row, stamp = draw(rows()), draw(stamps)
    assert_lawful(ack.respond(row, draw(answers), stamp), (row,), {row.id: M.RESPOND})


def proofs(draw):
    group, stamp = draw(groups(P.LEADING, P.LEASED)), draw(stamps)
    row = group.leader
    if ack.provable(row):
        decision = ack.prove(group, copies(draw(on_record)), draw(answers), stamp)
        assert_lawful(decision, inputs_of(group), {row.id: M.RESPOND})


def timeouts(draw):
    row, stamp = draw(rows()), draw(stamps)
    assert_lawful(ack.time_out(row, callback=draw(st.booleans()), stamp=stamp), (row,), {row.id: M.TIME_OUT})


def withdrawals(draw):
    group, stamp = draw(groups(*OWNERS)), draw(stamps)
    decision = withdraw.withdraw(group, actor="agent-7", callback=draw(st.booleans()), stamp=stamp)
    assert_lawful(decision, inputs_of(group), {group.leader.id: M.WITHDRAW})


def replays(draw):
    row, stamp = draw(rows()), draw(stamps)
    end = draw(st.just(row) | st.builds(partial(row_with, id="n9"), effectives, st.sampled_from(Phase)))
    link = Link(
        end.id,
        end.status,
        end.dedup_key,
        1,
        end.dedup_owner_id,
        None,
        end.dead_letter,
        end.ack_status,
        None,
    )
    window = DedupWindow(key="d" * 64, until=NOW, owner_id=row.id, generation=1)
    line = Line(row, Lineage(link), frozenset({row.id, end.id}), window)
    decision = recovery.replay(line, end, actor="ops", cycle=1, stamp=stamp)
    assert_lawful(decision, (row, end), {row.id: M.REPLAY, "n9": M.HAND_OFF})
    assert_lawful(recovery.reopen(line, waiting=draw(st.integers(0, 2)), now=stamp.now), (window,), {})


def resolutions(draw):
    line = [draw(rows()), draw(st.builds(partial(row_with, id="n9"), effectives, st.sampled_from(Phase)))]
    decision = recovery.resolve(line, actor="ops", stamp=draw(stamps))
    assert_lawful(decision, line, {"n1": M.RESOLVE, "n9": M.RESOLVE})


RULES = [
    accepts,
    claims,
    starts,
    renewals,
    returns,
    settlements,
    responses,
    proofs,
    timeouts,
    withdrawals,
    replays,
    resolutions,
]


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_every_decision_keeps_to_the_table(rule, data):
    """
    Whatever row a rule is given, it refuses, changes nothing, or moves what it was given as the
    table says; and it writes no event twice.
    """
    try:
        rule(data.draw)
    except Conflict:
        return
