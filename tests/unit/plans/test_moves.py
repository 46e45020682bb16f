"""
Every pair of (state, operation) is in the table of moves, or it is refused and nothing changes.

First one by one: a row is brought into each phase, by plans alone, and every operation is tried on
it under the conditions that favour it most. Then in random sequences, each plan run twice, as after
a commit whose answer was lost, with what ``model/`` explores as invariants.
"""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kit.builders import a_policy
from kit.lawful import legal
from kit.ledger import Ledger, paced, refused
from uns.core.plans import dispatch
from uns.core.rules.lease import Claim, Purpose
from uns.core.rules.lifecycle import MOVES, Move, Phase, phase
from uns.core.rules.lineage import onward
from uns.ports.errors import UnsError
from uns.ports.rows import Copy, DedupWindow, Event, Notification
from uns.ports.vocabulary import Ack, EventKind, Status

P, M, K = Phase, Move, EventKind
QUIET = a_policy("quiet", notification_type="system.*")
ASKING = a_policy("asking", notification_type="ask.*", require_ack=True, ack_timeout_minutes=15)
ANSWERS = (K.ACKED, K.DISMISSED, K.TIMED_OUT)


def a_ledger():
    return Ledger(QUIET, ASKING)


def accepted(ledger, type_="ask.now"):
    return ledger.accept(notification_type=type_).id


def a_line(ledger, length):
    """
    One leader and the rows behind it, in acceptance order.
    """
    return [accepted(ledger) for _ in range(length)]


def leading(ledger):
    return accepted(ledger)


def leased(ledger):
    id = accepted(ledger)
    ledger.claim(id)
    return id


def following(ledger):
    return a_line(ledger, 2)[1]


def delivered(ledger):
    return ledger.deliver(accepted(ledger, "system.alert")).id


def awaiting(ledger):
    return ledger.deliver(accepted(ledger)).id


def answered(ledger):
    return ledger.respond(awaiting(ledger)).id


def timed_out(ledger):
    id = awaiting(ledger)
    ledger.clock.advance(900)
    ledger.expire()
    return id


def deduplicated(ledger):
    awaiting(ledger)
    return accepted(ledger)


def dead_letter(ledger):
    return ledger.fail(accepted(ledger)).id


def failed(ledger):
    id = dead_letter(ledger)
    ledger.resolve_failure(id)
    return id


def failed_with_owner(ledger):
    line = a_line(ledger, 5)
    for id in line[:4]:
        ledger.fail(id)
    return line[4]


def withdrawn(ledger):
    return ledger.withdraw(accepted(ledger)).id


ARRIVALS: dict[Phase, Callable[[Ledger], str]] = {
    P.LEADING: leading,
    P.LEASED: leased,
    P.FOLLOWING: following,
    P.DELIVERED: delivered,
    P.AWAITING: awaiting,
    P.ANSWERED: answered,
    P.TIMED_OUT: timed_out,
    P.DEDUPLICATED: deduplicated,
    P.DEAD_LETTER: dead_letter,
    P.FAILED: failed,
    P.FAILED_WITH_OWNER: failed_with_owner,
    P.WITHDRAWN: withdrawn,
}


def held(ledger, id):
    """
    The claim of whoever holds the row, or of a worker that lost it.
    """
    row = ledger.row(id)
    return Claim(row, row.lease_token or "stale", Purpose.SEND)


def claim(ledger, id):
    ledger.clock.advance(max(0.0, ledger.row(id).lease_until - ledger.clock.now()))
    ledger.claim(id)


def claim_due(ledger, id):
    ledger.clock.advance(max(0.0, ledger.row(id).lease_until - ledger.clock.now()))
    ledger.claim_due(10)


def start(ledger, id):
    ledger.clock.advance(1)
    ledger.run(dispatch.start(held(ledger, id), ledger.ids()))


def renew(ledger, id):
    ledger.clock.advance(1)
    ledger.run(dispatch.renew(held(ledger, id), ledger.ids()))


def give_back(ledger, id):
    ledger.run(dispatch.give_back(held(ledger, id), ledger.ids()))


def conclude(result):
    def run(ledger, id):
        ledger.conclude(held(ledger, id), SLACK=result)

    return run


def respond(to):
    return lambda ledger, id: ledger.respond(id, to=to)


def expire(ledger, id):
    ledger.clock.advance(900)
    ledger.expire()


def withdraw(ledger, id):
    ledger.withdraw(id, operator=True, actor="ops")


def replay(ledger, id):
    ledger.replay(id)


def resolve(ledger, id):
    ledger.resolve_failure(id)


def accept_again(ledger, id):
    ledger.clock.advance(10_000)  # past every window
    accepted(ledger, ledger.row(id).notification_type)


def deliver_owner(ledger, owner):
    if ledger.row(owner).status is Status.PENDING:
        ledger.deliver(owner)


def fail_owner(ledger, owner):
    if ledger.row(owner).status is Status.PENDING:
        ledger.fail(owner)


OPERATIONS = {
    "claim": (M.CLAIM, claim),
    "claim-due": (M.CLAIM, claim_due),
    "start": (M.START, start),
    "renew": (M.START, renew),
    "give-back": (M.GIVE_BACK, give_back),
    "settle-ok": (M.SETTLE, conclude(True)),
    "settle-failed": (M.SETTLE, conclude(False)),
    "settle-refused": (M.SETTLE, conclude(refused())),
    "settle-paced": (M.SETTLE, conclude(paced())),
    "acknowledge": (M.RESPOND, respond(Ack.ACKED)),
    "dismiss": (M.RESPOND, respond(Ack.DISMISSED)),
    "expire": (M.TIME_OUT, expire),
    "withdraw": (M.WITHDRAW, withdraw),
    "replay": (M.REPLAY, replay),
    "resolve": (M.RESOLVE, resolve),
    "accept-again": (M.HAND_OFF, accept_again),
}
# What happens to a row through its owner: only those that have one.
INHERITED = {
    "owner-delivered": (M.SATISFY, deliver_owner, {P.FOLLOWING, P.FAILED_WITH_OWNER}),
    "owner-failed": (M.PROMOTE, fail_owner, {P.FOLLOWING}),
    "owner-withdrawn": (M.FAIL_WITH_OWNER, withdraw, {P.FOLLOWING}),
}


def put_on_record(ledger, id):
    """
    A success on record, so that an answer can prove delivery.
    """
    if not any(copy.notification_id == id for copy in ledger.table(Copy).values()):
        ledger.put(Copy(notification_id=id, channel="SLACK", ref=None, routing=None, state="SENT", at=0.0))


def contents(ledger):
    return {kind: dict(rows) for kind, rows in ledger.store.tables.items()}


def attempted(ledger, act, id):
    """
    Whether ``act`` went through; a refusal must have changed nothing.
    """
    before = contents(ledger)
    try:
        act(ledger, id)
    except UnsError:
        assert before == contents(ledger)
        return False
    return True


@pytest.mark.parametrize("at", Phase)
def test_every_phase_is_arrived_at_by_plans(at):
    """
    No row below was made by hand.
    """
    ledger = a_ledger()

    assert at is phase(ledger.row(ARRIVALS[at](ledger)))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("at", Phase)
def test_a_pair_is_in_the_table_or_refused(at, name):
    """
    Given a row in any phase, when an operation is tried on it under the best of conditions, then it
    moves as the table says; a pair that is not in the table leaves the row as it was.
    """
    ledger = a_ledger()
    id = ARRIVALS[at](ledger)
    move, act = OPERATIONS[name]
    if move is M.RESPOND:
        put_on_record(ledger, id)
    before = ledger.row(id)
    went_through = attempted(ledger, act, id)
    after = ledger.row(id)

    if (at, move) in MOVES:
        assert went_through
        assert after != before
        assert legal(before, move, after)
    else:
        assert after == before


@pytest.mark.parametrize("name", INHERITED)
@pytest.mark.parametrize("at", Phase)
def test_what_happens_to_an_owner_moves_those_behind_it(at, name):
    """
    Given a row in any phase, when its owner is delivered, fails or is withdrawn, then it moves as the
    table says, and only from where the table has such a move.
    """
    ledger = a_ledger()
    id = ARRIVALS[at](ledger)
    move, act, moved_from = INHERITED[name]
    owner = ledger.row(id).dedup_owner_id
    if owner is None:
        assert at not in moved_from
        return
    before = ledger.row(id)
    if ledger.row(owner).dead_letter:
        ledger.replay(owner)
    attempted(ledger, act, owner)
    after = ledger.row(id)

    assert (at in moved_from) is ((at, move) in MOVES) is (after != before)
    assert after == before or legal(before, move, after)


def test_the_second_follower_is_relinked():
    """
    Given two followers, when their leader fails for good, then the first is promoted and the second
    follows it.
    """
    ledger = a_ledger()
    leader, first, second = a_line(ledger, 3)
    claim = ledger.claim(leader)
    before = ledger.rows()
    ledger.conclude(claim, SLACK=refused())

    assert legal(before[leader], M.SETTLE, ledger.row(leader))
    assert legal(before[first], M.PROMOTE, ledger.row(first))
    assert legal(before[second], M.RELINK, ledger.row(second))
    assert first == ledger.row(second).dedup_owner_id


@pytest.mark.parametrize("at", Phase)
def test_a_duplicate_key_changes_nothing(at):
    """
    Given a row in any phase, when its idempotency key comes again, then the reply is the row as it
    stands, and nothing is stored.
    """
    ledger = a_ledger()
    kept = ledger.accept(notification_type="ask.other", idempotency_key="k")
    ARRIVALS[at](ledger)
    before = contents(ledger)

    assert kept == ledger.accept(notification_type="ask.other", idempotency_key="k")
    assert before == contents(ledger)


class Doubtful(Ledger):
    """
    Runs every plan twice, as if the answer to its first commit had been lost (R6).
    """

    def run(self, plan):
        try:
            reply = super().run(plan)
        except UnsError as error:
            before = contents(self)
            with pytest.raises(type(error)):
                super().run(plan)

            assert before == contents(self)
            raise
        if untraced(reply):
            return reply
        before = contents(self)
        again = super().run(plan)

        # Flags and counts say what a run did itself; rows, claims and settlements are recognised.
        assert before == contents(self)
        assert isinstance(reply, bool | int) or again == reply
        return reply


def untraced(reply):
    """
    Of a batch, a claim that counted no attempt leaves no event to be recognised by.
    """
    return isinstance(reply, tuple) and any(claim.purpose is not Purpose.SEND for claim in reply)


class LifeOfALedger(RuleBasedStateMachine):
    """
    Producers, workers, humans and operators at random on two keys; time passes; workers stall.
    """

    def __init__(self):
        super().__init__()
        self.ledger = Doubtful(QUIET, ASKING, max_attempts=2)
        self.claims = []
        self.started = set()

    @initialize(storm=st.booleans())
    def begin(self, storm):
        """
        A storm leaves a generation that was handed on three times, and a row that failed with it.
        """
        if storm:
            for id in a_line(self.ledger, 5)[:4]:
                self.ledger.fail(id)

    def watch(self, moves, act):
        """
        Run ``act``; whatever row it changed must have made one of ``moves``.
        """
        before = self.ledger.rows()
        events = set(self.ledger.table(Event))
        copies = {(c.notification_id, c.channel) for c in self.ledger.table(Copy).values()}
        try:
            reply = act()
        except UnsError:
            reply = None
        for id, after in self.ledger.rows().items():
            was = before.get(id)
            assert was == after or any(legal(was, move, after) for move in moves), (was, after)
            assert was is None or fixed(was) == fixed(after)
        for id, event in self.ledger.table(Event).items():
            if id not in events and event.kind is K.CHANNEL_ATTEMPT_STARTED:
                assert (event.notification_id, event.details["channel"]) not in copies  # R3
        return reply

    def pick(self, data, things):
        return data.draw(st.sampled_from(list(things)))

    def standing(self, *phases):
        return [id for id, row in self.ledger.rows().items() if phase(row) in phases]

    @rule(type_=st.sampled_from(["system.alert", "ask.now"]), wants=st.booleans())
    def accept(self, type_, wants):
        if len(self.ledger.rows()) < 12:
            self.watch(
                {M.ACCEPT, M.HAND_OFF},
                lambda: self.ledger.accept(notification_type=type_, wants_callback=wants),
            )

    @precondition(lambda self: self.ledger.rows())
    @rule(data=st.data(), starts=st.booleans())
    def claim(self, data, starts):
        id = self.pick(data, self.ledger.rows())
        claim = self.watch({M.CLAIM}, lambda: self.ledger.claim(id, starts=starts))
        if claim is not None:
            self.claims.append(claim)
            self.started.update([claim.token] if claim.calls else [])

    @rule(limit=st.integers(1, 3))
    def claim_due(self, limit):
        self.claims += self.watch({M.CLAIM}, lambda: self.ledger.claim_due(limit)) or ()

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def start(self, data):
        claim = self.pick(data, self.claims)
        self.watch({M.START}, lambda: self.ledger.run(dispatch.start(claim, self.ledger.ids())))
        self.started.add(claim.token)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def give_back(self, data):
        claim = self.pick(data, self.claims)
        if claim.token not in self.started:
            plan = dispatch.give_back(claim, self.ledger.ids())
            self.watch({M.GIVE_BACK}, lambda: self.ledger.run(plan))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), result=st.sampled_from([True, True, False, refused(), paced()]))
    def conclude(self, data, result):
        claim = self.pick(data, self.claims)
        results = {"SLACK": result} if claim.purpose is Purpose.SEND else {}
        moves = {M.SETTLE, M.PROMOTE, M.RELINK, M.SATISFY, M.FAIL_WITH_OWNER}
        self.watch(moves, lambda: self.ledger.conclude(claim, **results))
        self.claims.remove(claim)

    @precondition(lambda self: self.standing(P.LEADING))
    @rule(data=st.data(), result=st.sampled_from([True, refused()]))
    def attempt(self, data, result):
        """
        A worker that is quick: it claims, calls and settles before anybody else comes.
        """
        id = self.pick(data, self.standing(P.LEADING))
        claim = self.watch({M.CLAIM}, lambda: self.ledger.claim(id))
        if claim is not None:
            moves = {M.SETTLE, M.PROMOTE, M.RELINK, M.SATISFY, M.FAIL_WITH_OWNER}
            results = {"SLACK": result} if claim.purpose is Purpose.SEND else {}
            self.watch(moves, lambda: self.ledger.conclude(claim, **results))

    @precondition(lambda self: self.ledger.rows())
    @rule(
        data=st.data(),
        likely=st.booleans(),
        actor=st.sampled_from(["ann", "bob"]),
        to=st.sampled_from([Ack.ACKED, Ack.DISMISSED]),
    )
    def respond(self, data, likely, actor, to):
        asked = self.standing(P.AWAITING) if likely else []
        id = self.pick(data, asked or self.ledger.rows())
        self.watch({M.RESPOND, M.SATISFY}, lambda: self.ledger.respond(id, actor, to))

    @precondition(lambda self: self.standing(P.AWAITING))
    @rule(sleeps=st.booleans())
    def expire(self, sleeps):
        self.ledger.clock.advance(900 if sleeps else 0)
        self.watch({M.TIME_OUT}, self.ledger.expire)

    @precondition(lambda self: len(self.ledger.rows()) > 5)
    @rule(data=st.data())
    def withdraw(self, data):
        id = self.pick(data, self.ledger.rows())
        self.watch({M.WITHDRAW, M.FAIL_WITH_OWNER}, lambda: self.ledger.withdraw(id))

    @precondition(lambda self: self.standing(P.DEAD_LETTER))
    @rule(data=st.data())
    def replay(self, data):
        id = self.pick(data, self.standing(P.DEAD_LETTER))
        self.watch({M.REPLAY, M.HAND_OFF}, lambda: self.ledger.replay(id))

    @precondition(lambda self: self.standing(P.DEAD_LETTER))
    @rule(data=st.data())
    def resolve(self, data):
        id = self.pick(data, self.ledger.rows())
        self.watch({M.RESOLVE}, lambda: self.ledger.resolve_failure(id))

    @rule(seconds=st.sampled_from([1, 30, 60, 300, 900]))
    def wait(self, seconds):
        self.ledger.clock.advance(seconds)

    @invariant()
    def every_line_resolves(self):
        for id in self.ledger.rows():
            assert self.ledger.lineage(id).error is None

    @invariant()
    def one_obligation_of_a_key_is_alive(self):
        """
        One pending leader per key, which owns its window; in one line one row is alive.
        """
        rows = self.ledger.rows()
        leaders = [row for row in rows.values() if row.status is Status.PENDING and row.leads]
        assert len(leaders) == len({row.dedup_key for row in leaders})
        assert all(self.ledger.window(row).owner_id == row.id for row in leaders)
        for line in lines(rows):
            assert sum(r.leads and r.status in (Status.PENDING, Status.DELIVERED) for r in line) <= 1
            assert sum(r.ack_status not in (None, Ack.PENDING) for r in line) <= 1

    @invariant()
    def nobody_waits_behind_what_has_ended(self):
        rows = self.ledger.rows()
        for row in rows.values():
            owner = rows.get(row.dedup_owner_id or "")
            if owner is None:
                continue
            if row.status is Status.PENDING:
                assert owner.status is Status.PENDING
                assert owner.leads
            if row.status is Status.FAILED:
                assert owner.status is not Status.DELIVERED

    @invariant()
    def windows_are_true(self):
        """
        A window's owner follows nobody and has handed off to nobody; no counted followers, none there.
        """
        rows = self.ledger.rows()
        for window in self.ledger.table(DedupWindow).values():
            owner = rows[window.owner_id]
            behind = [r for r in rows.values() if r.dedup_owner_id == owner.id]
            waiting = sum(r.status in (Status.PENDING, Status.FAILED) for r in behind)
            assert onward(owner) is None
            assert window.followers or not waiting
            assert owner.status is not Status.PENDING or waiting == window.followers
            assert (owner.dedup_generation or 0) <= window.generation

    @invariant()
    def rows_are_whole(self):
        budget = self.ledger.retry.max_attempts
        for row in self.ledger.rows().values():
            assert 0 <= row.cycle_attempts <= min(row.attempts, budget)
            assert (row.lease_token is None) is (row.lease_until == 0.0)
            assert row.lease_token is None or phase(row) is P.LEASED
            assert (row.deadline is None) is (row.ack_status is None)
            assert (row.delivered_at is not None) is (row.status is Status.DELIVERED)

    @invariant()
    def one_response_is_told(self):
        told = [e for e in self.ledger.table(Event).values() if e.kind in ANSWERS]
        assert len(told) == len({event.notification_id for event in told})
        for event in told:
            assert event.kind == self.ledger.row(event.notification_id).ack_status


FIXED = Notification.__struct_fields__[: Notification.__struct_fields__.index("status")]


def fixed(row):
    """
    What of a row never changes.
    """
    return [getattr(row, name) for name in FIXED]


def lines(rows):
    """
    The rows grouped by owner and successor links, in both directions.
    """
    group = {id: {id} for id in rows}
    for id, row in rows.items():
        for target in (row.dedup_owner_id, row.dedup_successor_id):
            if target is not None:
                joined = group[id] | group[target]
                group.update(dict.fromkeys(joined, joined))
    return [[rows[id] for id in line] for line in set(map(frozenset, group.values()))]


TestLifeOfALedger = LifeOfALedger.TestCase
TestLifeOfALedger.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
