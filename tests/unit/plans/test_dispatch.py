"""
Claim, start, record and settle as transactions, as ``docs/rules.md`` tells them.

- workers claim in one plan, by order, never more than asked for: ``test_claiming_*``
- the successes on record are read in each transaction (R5): ``test_*_on_record*``
- CHANNEL_ATTEMPT_RESULT whether or not the lease stands: ``test_a_late_result_is_recorded``
- a settlement that finds its lease gone looks for its own result (R6): ``test_concluding_again_*``
- a claim by the token that holds the row returns it (R6): ``test_claiming_again_*``
- the lease is gone, the copy stays: ``test_a_success_of_a_lost_lease_settles_the_next_claim``
"""

import pytest

from kit.builders import NOW, a_policy
from kit.ledger import Ledger, paced, refused
from uns.core.plans import dispatch
from uns.core.rules.attempt import Go
from uns.core.rules.lease import Purpose
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.retry import Retry
from uns.core.rules.settle import LEASE_EXPIRED, Settled
from uns.ports.channel import ChannelResult
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Copy, DeliveryAudit
from uns.ports.vocabulary import DeliveryMode, EventKind, Priority, Require, Status

P, K = Phase, EventKind
FALLBACK = ChannelPlan(primary=("SLACK",), fallback=("PAGERDUTY",))
BOTH = ChannelPlan(primary=("SLACK", "EMAIL"), require=Require.ALL)


@pytest.fixture
def ledger():
    return Ledger()


def contents(ledger):
    return {kind: dict(rows) for kind, rows in ledger.store.tables.items()}


def several(ledger, count):
    return [ledger.accept(title=f"alert {n}").id for n in range(count)]


def test_claiming_an_unknown_row(ledger):
    """
    There is nothing to lease.
    """
    assert None is ledger.claim("0000ffff-0000-7000-8000-000000000000")


def test_claiming_without_the_adapters(ledger):
    """
    A process that lacks a channel leaves the row alone.
    """
    id = ledger.accept().id
    plan = dispatch.claim(id, ledger.bearer(), frozenset({"LOG"}))

    assert None is ledger.run(plan)
    assert () == ledger.run(dispatch.claim_due([ledger.bearer()], frozenset({"LOG"})))
    assert P.LEADING is phase(ledger.row(id))


@pytest.mark.parametrize(("after", "claimed"), [(59.999, False), (60.0, True), (60.001, True)])
def test_claiming_what_another_holds(ledger, after, claimed):
    """
    A lease keeps others out until it ends.
    """
    id = ledger.accept().id
    ledger.claim(id)
    ledger.clock.advance(after)

    assert claimed is (ledger.claim(id) is not None)


@pytest.mark.parametrize("limit", [1, 2, 5, 9])
def test_claiming_due_rows_up_to_the_limit(ledger, limit):
    """
    Never more than can be started at once; each has its own token, and none is started yet.
    """
    several(ledger, 5)
    claims = ledger.claim_due(limit)

    assert min(limit, 5) == len(claims) == len({claim.token for claim in claims})
    assert {()} == {claim.calls for claim in claims}
    assert min(limit, 5) == sum(phase(row) is P.LEASED for row in ledger.rows().values())


def test_claiming_due_rows_in_order():
    """
    Most urgent first, then those due for longest; waiting raises a class.
    """
    ledger = Ledger(
        *(
            a_policy(p, notification_type=f"{p}.*", priority=Priority(p.upper()))
            for p in ("low", "normal", "high")
        )
    )
    oldest = ledger.accept(notification_type="low.a").id
    ledger.clock.advance(599)
    low = ledger.accept(notification_type="low.b").id
    ledger.clock.advance(1)
    normal = ledger.accept(notification_type="normal.a").id
    high = ledger.accept(notification_type="high.a").id

    assert [high, oldest, normal, low] == [claim.id for claim in ledger.claim_due(4)]


def test_claiming_due_rows_skips_what_is_not_due(ledger):
    """
    What backs off, follows or is held is left.
    """
    backing_off, held, free = several(ledger, 3)
    ledger.accept(title="alert 2")  # follows the last
    ledger.attempt(backing_off, SLACK=False)
    ledger.claim(held)

    assert [free] == [claim.id for claim in ledger.claim_due(9)]


def test_claiming_again_returns_the_claim(ledger):
    """
    Given that the answer to the commit was lost, when the plan runs again, then it is the same claim.
    """
    id = ledger.accept().id
    plan = dispatch.claim(id, ledger.bearer(), ledger.channels)
    first, before = ledger.run(plan), contents(ledger)

    assert first == ledger.run(plan)
    assert before == contents(ledger)


@pytest.mark.parametrize("purpose", [Purpose.EXHAUSTED, Purpose.SATISFIED])
def test_claiming_again_what_is_only_to_settle(ledger, purpose):
    """
    Also a claim that counted no attempt is recognised.
    """
    id = ledger.accept().id
    spend(ledger, id)
    if purpose is Purpose.SATISFIED:
        put_on_record(ledger, id)
    plan = dispatch.claim(id, ledger.bearer(), ledger.channels)
    first = ledger.run(plan)

    assert purpose is first.purpose
    assert first == ledger.run(plan)


def test_claiming_due_rows_again_returns_the_claims(ledger):
    """
    The same claims by the same tokens, and no further rows for the same bearers.
    """
    several(ledger, 5)
    plan = dispatch.claim_due([ledger.bearer(starts=False) for _ in range(3)], ledger.channels)
    first, before = ledger.run(plan), contents(ledger)

    assert first == ledger.run(plan)
    assert before == contents(ledger)


@pytest.mark.parametrize("purpose", [Purpose.EXHAUSTED, Purpose.SATISFIED])
def test_claiming_due_rows_again_returns_those_only_to_settle(ledger, purpose):
    """
    Given rows of which no attempt is left, when the plan that leased them runs again, then they are
    found, and no bearer leases a second row.
    """
    rows = several(ledger, 3)
    for id in rows:
        spend(ledger, id)
        if purpose is Purpose.SATISFIED:
            put_on_record(ledger, id)
    plan = dispatch.claim_due([ledger.bearer(starts=False) for _ in range(2)], ledger.channels)
    first, before = ledger.run(plan), contents(ledger)

    assert [purpose, purpose] == [claim.purpose for claim in first]
    assert first == ledger.run(plan)
    assert before == contents(ledger)


def test_claiming_again_after_a_row_was_settled_uses_no_id_twice(ledger):
    """
    Given that one of the rows was withdrawn meanwhile, when the plan runs again, then the other
    claims are returned, and no other row is leased with tokens and ids that are used up.
    """
    rows = several(ledger, 4)
    plan = dispatch.claim_due([ledger.bearer(starts=False) for _ in range(2)], ledger.channels)
    first = ledger.run(plan)
    ledger.withdraw(first[0].id)
    again = ledger.run(plan)

    assert (first[1],) == again
    assert {first[1].id} == {id for id in rows if phase(ledger.row(id)) is P.LEASED}


def test_claiming_again_when_the_leases_have_ended(ledger):
    """
    Given that the answer came no sooner than the leases ended, when the plan runs again, then it
    leases nothing with ids that are used up: another claim will.
    """
    (id,) = several(ledger, 1)
    plan = dispatch.claim_due([ledger.bearer(starts=False)], ledger.channels)
    ledger.run(plan)
    ledger.clock.advance(60)

    assert () == ledger.run(plan)
    assert [id] == [claim.id for claim in ledger.claim_due(1)]
    assert 2 == len(ledger.events(id, K.ATTEMPT_STARTED))


def test_claiming_again_with_bearers_to_spare(ledger):
    """
    Given that less was due than asked for, when the plan runs again, then what fell due since goes
    to the bearers that have leased nothing.
    """
    first = ledger.accept(title="first").id
    plan = dispatch.claim_due([ledger.bearer(starts=False) for _ in range(2)], ledger.channels)
    ledger.run(plan)
    second = ledger.accept(title="second").id
    claims = ledger.run(plan)

    assert [first, second] == [claim.id for claim in claims]
    assert 2 == len({claim.token for claim in claims})
    assert [K.ACCEPTED, K.ATTEMPT_STARTED] == ledger.kinds(second)


def spend(ledger, id):
    """
    Let workers die until the budget of the cycle is used up.
    """
    for _ in range(ledger.retry.max_attempts):
        assert ledger.claim(id).purpose is Purpose.SEND
        ledger.clock.advance(60)


def put_on_record(ledger, id, channel="SLACK"):
    ledger.put(Copy(notification_id=id, channel=channel, ref=None, routing=None, state="SENT", at=NOW))


def test_dead_workers_end_in_a_dead_letter(ledger):
    """
    Given a notification that kills its workers, when its budget is used up, then the next claim
    counts nothing, and its settlement is a dead letter that says why.
    """
    id = ledger.accept().id
    spend(ledger, id)
    claim = ledger.claim(id)
    concluded = ledger.conclude(claim)

    assert (Purpose.EXHAUSTED, ()) == (claim.purpose, claim.calls)
    assert (Settled.FAILED, P.DEAD_LETTER) == (concluded.settled, phase(concluded.row))
    assert LEASE_EXPIRED == concluded.row.outcome.error_message
    assert (3, 3) == (concluded.row.attempts, concluded.row.cycle_attempts)


def test_one_lost_attempt_is_all_of_best_efforts():
    """
    BEST_EFFORT ends with its one attempt, a lost one included, and is no dead letter.
    """
    ledger = Ledger(a_policy(delivery_mode=DeliveryMode.BEST_EFFORT))
    id = ledger.accept().id
    ledger.claim(id)
    ledger.clock.advance(60)
    ledger.conclude(ledger.claim(id))

    assert (P.FAILED, LEASE_EXPIRED) == (
        phase(ledger.row(id)),
        ledger.row(id).outcome.error_message,
    )


def test_giving_back_again_counts_back_once(ledger):
    """
    Given a lease after one that lapsed, returned with its answer lost, when the clock is set back and
    the plan runs again, then the attempt is not counted back a second time.
    """
    id = ledger.accept().id
    ledger.claim(id)
    ledger.clock.advance(60)
    plan = dispatch.give_back(ledger.claim(id, starts=False), ledger.ids())
    ledger.run(plan)
    before = contents(ledger)
    ledger.clock.advance(-1)

    assert ledger.run(plan)
    assert before == contents(ledger)
    assert (1, 1) == (ledger.row(id).attempts, ledger.row(id).cycle_attempts)


@pytest.mark.parametrize("how", ["given back", "lapsed"])
def test_a_dead_letter_gives_the_reason_that_there_is(ledger, how):
    """
    Given that the last attempt never reported back, when the lease that was to settle it is returned
    or its bearer dies, then the next one still says that the attempt's lease expired.
    """
    id = ledger.accept().id
    spend(ledger, id)
    lose(ledger, ledger.claim(id), how)
    concluded = ledger.conclude(ledger.claim(id))

    assert (P.DEAD_LETTER, LEASE_EXPIRED) == (phase(concluded.row), concluded.row.outcome.error_message)
    assert [True, True] == [e.details["lease_expired"] for e in ledger.events(id, K.RECOVERY_STARTED)]


@pytest.mark.parametrize("how", ["given back", "lapsed"])
def test_a_dead_letter_keeps_the_reason_that_there_was(how):
    """
    Given an attempt that failed and a budget lowered since, when the lease that was to settle it is
    returned or its bearer dies, then the error on record stays.
    """
    ledger = Ledger(max_attempts=2)
    id = ledger.accept().id
    ledger.attempt(id, SLACK=ChannelResult(False, error="503"))
    ledger.clock.advance(60)
    ledger.retry = Retry(1)
    lose(ledger, ledger.claim(id), how)
    row = ledger.conclude(ledger.claim(id)).row

    assert (P.DEAD_LETTER, True) == (phase(row), row.outcome.error_message == "SLACK: 503")
    assert ("SLACK",) == row.outcome.channels_attempted


@pytest.mark.parametrize("how", ["given back", "lapsed"])
def test_a_repeated_effect_is_told_though_a_lease_was_in_between(ledger, how):
    """
    Given an attempt that never reported back, when the lease after it came to nothing, then the next
    attempt still says that it may repeat what the provider did.
    """
    id = ledger.accept().id
    ledger.claim(id)
    ledger.clock.advance(60)
    lose(ledger, ledger.claim(id, starts=False), how)
    ledger.claim(id)

    told = [e.details["recovery_may_repeat_provider_effect"] for e in ledger.events(id, K.ATTEMPT_STARTED)]
    assert [False, True, True] == told


def lose(ledger, claim, how):
    """
    A lease comes to nothing: its worker is told to stop, or dies.
    """
    if how == "given back":
        assert ledger.run(dispatch.give_back(claim, ledger.ids()))
    else:
        ledger.clock.advance(60)


@pytest.mark.parametrize("when", ["before the claim", "after it"])
def test_a_success_on_record_saves_the_last_attempt(ledger, when):
    """
    Given a spent budget, when a success is on record, at the claim or only at its settlement, then
    the row is delivered without a call.
    """
    id = ledger.accept().id
    spend(ledger, id)
    if when == "before the claim":
        put_on_record(ledger, id)
    claim = ledger.claim(id)
    if when == "after it":
        put_on_record(ledger, id)
    concluded = ledger.conclude(claim)

    assert (Settled.DELIVERED, ("SLACK",)) == (
        concluded.settled,
        concluded.row.outcome.channels_succeeded,
    )
    assert 3 == len(ledger.events(id, K.ATTEMPT_STARTED))


def test_a_success_of_a_lost_lease_settles_the_next_claim(ledger):
    """
    Given a provider that answered after the lease had ended, when the row is claimed again, then it
    is DELIVERED without a second call.
    """
    id = ledger.accept().id
    slow = ledger.claim(id)
    ledger.clock.advance(60)
    late = ledger.conclude(slow, SLACK=True)
    claim = ledger.claim(id)

    assert (Settled.LOST, Purpose.SATISFIED) == (late.settled, claim.purpose)
    assert Settled.DELIVERED is ledger.conclude(claim).settled
    assert 1 == len(ledger.events(id, K.CHANNEL_ATTEMPT_STARTED))


def test_a_success_is_not_repeated_after_a_replay():
    """
    A channel with a success on record is never called again, in this cycle or after a replay (R3).
    """
    ledger = Ledger(a_policy(channels=BOTH, max_attempts=1))
    id = ledger.accept().id
    ledger.attempt(id, SLACK=True, EMAIL=False)
    ledger.replay(id)
    claim = ledger.claim(id)

    assert ("EMAIL",) == claim.calls
    assert Settled.DELIVERED is ledger.conclude(claim, EMAIL=True).settled


def test_starting_a_claim(ledger):
    """
    The primaries are started, one event each, and the lease is full again.
    """
    id = ledger.accept().id
    claim = ledger.claim(id, starts=False)
    ledger.clock.advance(30)
    started = ledger.run(dispatch.start(claim, ledger.ids()))

    assert (Go.CALL, ("SLACK",)) == (started.go, started.calls)
    assert NOW + 90 == ledger.row(id).lease_until
    assert [K.ACCEPTED, K.ATTEMPT_STARTED, K.CHANNEL_ATTEMPT_STARTED] == ledger.kinds(id)


@pytest.mark.parametrize("plan", [dispatch.start, dispatch.renew])
def test_starting_without_the_lease(ledger, plan):
    """
    Nothing is started or renewed once the lease has passed on; one LEASE_LOST says so.
    """
    id = ledger.accept().id
    claim = ledger.claim(id, starts=False)
    ledger.clock.advance(60)
    other = ledger.claim(id, starts=False)
    reply = ledger.run(plan(claim, ledger.ids()))

    assert reply is False or Go.LOST is reply.go
    assert other.row == ledger.row(id)
    assert 1 == len(ledger.events(id, K.LEASE_LOST))


def test_a_success_on_record_since_the_claim_starts_nothing(ledger):
    """
    Given a success that was recorded between claim and start, then the attempt only settles.
    """
    id = ledger.accept().id
    claim = ledger.claim(id, starts=False)
    put_on_record(ledger, id)

    assert Go.SETTLE is ledger.run(dispatch.start(claim, ledger.ids())).go
    assert [] == ledger.events(id, K.CHANNEL_ATTEMPT_STARTED)


@pytest.fixture
def two_steps():
    return Ledger(a_policy(channels=FALLBACK))


def fallen_back(ledger, claim, **results):
    plan = dispatch.fall_back(claim, ledger.calls(**results), result_ids=ledger.ids(), ids=ledger.ids())
    return plan, ledger.run(plan)


def test_falling_back_records_and_starts(two_steps):
    """
    One transaction records what the primaries said and starts the fallbacks under a full lease.
    """
    id = two_steps.accept().id
    claim = two_steps.claim(id)
    two_steps.clock.advance(10)
    _, started = fallen_back(two_steps, claim, SLACK=False)

    assert (Go.CALL, ("PAGERDUTY",)) == (started.go, started.calls)
    assert NOW + 70 == two_steps.row(id).lease_until
    assert [K.CHANNEL_ATTEMPT_RESULT, K.CHANNEL_ATTEMPT_STARTED] == two_steps.kinds(id)[-2:]


def test_falling_back_again(two_steps):
    """
    Run again, it starts the same calls and writes nothing twice.
    """
    id = two_steps.accept().id
    claim = two_steps.claim(id)
    plan, started = fallen_back(two_steps, claim, SLACK=False)
    before = contents(two_steps)

    assert started == two_steps.run(plan)
    assert before == contents(two_steps)


def test_falling_back_without_the_lease(two_steps):
    """
    The results are recorded all the same; no fallback is called.
    """
    id = two_steps.accept().id
    claim = two_steps.claim(id)
    two_steps.clock.advance(60)
    _, started = fallen_back(two_steps, claim, SLACK=False)

    assert Go.LOST is started.go
    assert [K.CHANNEL_ATTEMPT_RESULT, K.LEASE_LOST] == two_steps.kinds(id)[-2:]


def test_falling_back_from_a_row_that_is_gone(two_steps):
    """
    A row that was pruned under its worker is a lost lease.
    """
    claim = two_steps.claim(two_steps.accept().id)
    two_steps.rows()
    del two_steps.store.tables[type(claim.row)][claim.id]

    assert Go.LOST is fallen_back(two_steps, claim, SLACK=False)[1].go
    assert (Settled.LOST, None) == (
        two_steps.conclude(claim, SLACK=True).settled,
        two_steps.conclude(claim, SLACK=True).row,
    )


def test_a_fallbacks_success_is_enough(two_steps):
    """
    Where no primary succeeded one fallback does; the outcome names both steps.
    """
    id = two_steps.accept().id
    claim = two_steps.claim(id)
    fallen_back(two_steps, claim, SLACK=False)
    plan = dispatch.conclude(
        claim,
        two_steps.calls(PAGERDUTY=True),
        earlier=two_steps.calls(SLACK=False),
        retry=two_steps.retry,
        ids=two_steps.ids(),
    )
    row = two_steps.run(plan).row

    assert Status.DELIVERED is row.status
    assert (("SLACK", "PAGERDUTY"), ("PAGERDUTY",), ("SLACK",)) == (
        row.outcome.channels_attempted,
        row.outcome.channels_succeeded,
        row.outcome.channels_failed,
    )
    assert 2 == len(two_steps.events(id, K.CHANNEL_ATTEMPT_RESULT))


@pytest.mark.parametrize(
    ("primary", "fallback", "spent"),
    [(paced(), paced(), 0), (paced(), False, 1), (False, paced(), 1)],
)
def test_an_attempt_is_paced_over_both_its_steps(two_steps, primary, fallback, spent):
    """
    Fallbacks are tried at once when a primary is paced; only if every call was paced the attempt is
    given back.
    """
    id = two_steps.accept().id
    claim = two_steps.claim(id)
    assert ("PAGERDUTY",) == fallen_back(two_steps, claim, SLACK=primary)[1].calls
    plan = dispatch.conclude(
        claim,
        two_steps.calls(PAGERDUTY=fallback),
        earlier=two_steps.calls(SLACK=primary),
        retry=two_steps.retry,
        ids=two_steps.ids(),
    )

    assert spent == two_steps.run(plan).row.cycle_attempts


def test_concluding_writes_it_all_at_once(ledger):
    """
    Result, copy, settlement, audit and window are one transaction.
    """
    row = ledger.accept()
    ledger.clock.advance(5)
    ledger.deliver(row.id)

    assert [K.CHANNEL_ATTEMPT_RESULT, K.DELIVERY_RESULT] == ledger.kinds(row.id)[-2:]
    assert ["SLACK"] == [copy.channel for copy in ledger.table(Copy).values()]
    assert [Status.DELIVERED] == [audit.status for audit in ledger.table(DeliveryAudit).values()]
    assert NOW + 305 == ledger.window(row).until


@pytest.mark.parametrize(
    ("result", "settled"),
    [(True, Settled.DELIVERED), (False, Settled.BACKED_OFF), (refused(), Settled.FAILED)],
)
def test_concluding_again_replies_as_recorded(ledger, result, settled):
    """
    Given that the answer to the settlement's commit was lost, when the plan runs again and finds its
    lease gone, then it finds its own result and replies with it (R6).
    """
    id = ledger.accept().id
    claim = ledger.claim(id)
    plan = dispatch.conclude(claim, ledger.calls(SLACK=result), retry=ledger.retry, ids=ledger.ids())
    first, before = ledger.run(plan), contents(ledger)

    assert settled is first.settled
    assert first == ledger.run(plan)
    assert before == contents(ledger)
    assert [] == ledger.events(id, K.LEASE_LOST)


def test_concluding_again_after_another_claimed_the_row(ledger):
    """
    Given a backoff whose answer was lost and a second worker since, when the first runs its plan
    again, then it still learns what it had settled, and takes nothing from the second.
    """
    id = ledger.accept().id
    claim = ledger.claim(id)
    plan = dispatch.conclude(claim, ledger.calls(SLACK=False), retry=ledger.retry, ids=ledger.ids())
    ledger.run(plan)
    ledger.clock.advance(2)
    other = ledger.claim(id)
    again = ledger.run(plan)

    assert (Settled.BACKED_OFF, other.row) == (again.settled, again.row)
    assert [] == ledger.events(id, K.LEASE_LOST)


def test_a_late_result_is_recorded(ledger):
    """
    Given a lease that passed on, when the first worker concludes, then its observation is kept, one
    LEASE_LOST says that nothing else is, and the row stays the second worker's.
    """
    id = ledger.accept().id
    first = ledger.claim(id)
    ledger.clock.advance(60)
    second = ledger.claim(id)
    concluded = ledger.conclude(first, SLACK=False)

    assert (Settled.LOST, second.row) == (concluded.settled, concluded.row)
    assert second.row == ledger.row(id)
    assert [K.CHANNEL_ATTEMPT_RESULT, K.LEASE_LOST] == ledger.kinds(id)[-2:]
    assert first.token == ledger.events(id, K.CHANNEL_ATTEMPT_RESULT)[0].details["lease_token"]
    assert {} == ledger.table(DeliveryAudit)


def test_a_withdrawn_row_is_lost_to_its_worker(ledger):
    """
    Given a row withdrawn while its call was out, when the worker concludes, then nothing moves.
    """
    id = ledger.accept().id
    claim = ledger.claim(id)
    withdrawn = ledger.withdraw(id)

    assert Settled.LOST is ledger.conclude(claim, SLACK=True).settled
    assert withdrawn == ledger.row(id)


def test_giving_back(ledger):
    """
    The row is claimable at once, by the attempt it had.
    """
    id = ledger.accept().id
    claim = ledger.claim(id, starts=False)
    given = ledger.run(dispatch.give_back(claim, ledger.ids()))
    row = ledger.row(id)

    assert given is True
    assert (P.LEADING, 0, 0) == (phase(row), row.attempts, row.cycle_attempts)
    assert K.ATTEMPT_RETURNED is ledger.kinds(id)[-1]
    assert 1 == ledger.claim(id).row.attempts


def test_giving_back_what_was_only_to_be_settled(ledger):
    """
    Given a claim of a spent budget, when it is given back, then the budget stays spent.
    """
    id = ledger.accept().id
    spend(ledger, id)
    claim = ledger.claim(id)
    ledger.run(dispatch.give_back(claim, ledger.ids()))

    assert (3, 3) == (ledger.row(id).attempts, ledger.row(id).cycle_attempts)
    assert Purpose.EXHAUSTED is ledger.claim(id).purpose


def test_giving_back_too_late(ledger):
    """
    A lease that ended is another's to claim: nothing is given back.
    """
    id = ledger.accept().id
    claim = ledger.claim(id, starts=False)
    ledger.clock.advance(60)

    assert ledger.run(dispatch.give_back(claim, ledger.ids())) is False
    assert 1 == ledger.row(id).attempts


def test_followers_are_settled_with_their_leader(ledger):
    """
    Delivered: every follower is DEDUPLICATED, and each is told.
    """
    leader = ledger.accept().id
    followers = [ledger.accept().id for _ in range(3)]
    ledger.deliver(leader)

    assert {P.DEDUPLICATED} == {phase(ledger.row(id)) for id in followers}
    assert {(K.ACCEPTED, K.DEDUP_LINKED, K.DEDUP_SATISFIED)} == {tuple(ledger.kinds(id)) for id in followers}
    assert 0 == ledger.window(ledger.row(leader)).followers


def test_a_generation_is_handed_on_three_times(ledger):
    """
    Given a storm of six against a dead provider, then the obligation goes from the first to the
    fourth, and the others end with that one: FAILED, no dead letters, and they resolve to it.
    """
    line = [ledger.accept().id for _ in range(6)]
    for id in line[:4]:
        ledger.fail(id)
    rows = ledger.rows()

    assert [P.DEAD_LETTER] * 4 + [P.FAILED_WITH_OWNER] * 2 == [phase(rows[id]) for id in line]
    assert [*line[1:4], None] == [rows[id].dedup_successor_id for id in line[:4]]
    assert {line[3]} == {ledger.lineage(id).owner.id for id in line}
    assert {1} == {rows[id].dedup_generation for id in line}
    assert 2 == ledger.events(line[3], K.DEDUP_FAILED_WITH_OWNER)[0].details["count"]
    assert () == ledger.claim_due(9)


def test_the_rest_is_relinked_to_the_heir(ledger):
    """
    Leader failed for good: the rest follow its heir, each is told, and the window is the heir's.
    """
    leader, heir, *rest = (ledger.accept().id for _ in range(4))
    ledger.fail(leader)

    assert {heir} == {ledger.row(id).dedup_owner_id for id in rest}
    assert [[K.ACCEPTED, K.DEDUP_LINKED, K.DEDUP_RELINKED]] * 2 == [ledger.kinds(id) for id in rest]
    assert (heir, 2, 1) == (
        ledger.window(ledger.row(heir)).owner_id,
        ledger.window(ledger.row(heir)).followers,
        ledger.window(ledger.row(heir)).handed_on,
    )
    assert [heir] == [claim.id for claim in ledger.claim_due(9)]


def test_a_pacing_provider_is_waited_for_and_then_given_up():
    """
    Given a provider that paces every call, then attempts cost nothing for 900 s from the first
    pacing; after that they are spent, and the row ends.
    """
    ledger = Ledger(a_policy(max_attempts=2))
    id = ledger.accept().id
    for _ in range(9):
        assert Settled.BACKED_OFF is ledger.attempt(id, SLACK=paced(100.0))
        ledger.clock.advance(100)

    assert (9, 0, NOW) == (
        ledger.row(id).attempts,
        ledger.row(id).cycle_attempts,
        ledger.row(id).paced_since,
    )
    assert Settled.BACKED_OFF is ledger.attempt(id, SLACK=paced(100.0))
    ledger.clock.advance(100)
    assert Settled.FAILED is ledger.attempt(id, SLACK=paced(100.0))


def test_pacing_is_counted_anew_in_each_cycle():
    """
    A replay begins its own 900 s.
    """
    ledger = Ledger(a_policy(max_attempts=1))
    id = ledger.accept().id
    ledger.attempt(id, SLACK=paced(900.0))
    ledger.clock.advance(900)
    assert Settled.FAILED is ledger.attempt(id, SLACK=paced())
    ledger.replay(id)

    assert Settled.BACKED_OFF is ledger.attempt(id, SLACK=paced())
    assert NOW + 900 == ledger.row(id).paced_since
