"""
Two stores living one life: memory is the model, SQL the subject, one plan at a time and in groups.

Random lives of a few notifications with few keys, so that they meet. The same plans with the same ids
run on each; their replies, their errors, all rows, events and signals must be the same.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace

from kit.builders import NOW, a_policy, a_request, an_acceptance
from kit.ledger import Numbered, paced, refused
from kit.ordered_tx import OrderedStore
from kit.plans import Commit, put, raising
from kit.rows import a_window, an_event
from kit.stores import everything, open_store
from uns.adapters.sources import ManualClock
from uns.core.plans import callbacks, dispatch, intake, policies, reading, recovery, response
from uns.core.rules import lease
from uns.core.rules.ack import Answer
from uns.core.rules.digest import idempotency_digest
from uns.core.rules.lease import Bearer
from uns.core.rules.outcome import Call
from uns.core.rules.policy import Resolver
from uns.core.rules.retry import Retry
from uns.ports.channel import ChannelResult
from uns.ports.documents import PolicyDocument
from uns.ports.policy import ChannelPlan
from uns.ports.sources import Ids
from uns.ports.store import Plan
from uns.ports.vocabulary import Ack, DeliveryMode, Priority, Require

RETRY = Retry(2, 1.0)
CHANNELS = frozenset({"SLACK", "SMS", "EMAIL"})
BOTH = ChannelPlan(primary=("SLACK", "SMS"), fallback=("EMAIL",), require=Require.ALL)
POLICIES = (
    a_policy("quiet", notification_type="quiet.*", dedup_window_seconds=100.0),
    a_policy("asking", notification_type="ask.*", require_ack=True, ack_timeout_minutes=1),
    a_policy(
        "loose",
        notification_type="loose.*",
        dedup_window_seconds=0.0,
        delivery_mode=DeliveryMode.BEST_EFFORT,
        priority=Priority.LOW,
    ),
    a_policy("both", notification_type="both.*", channels=BOTH, require_ack=True, priority=Priority.HIGH),
)
SETS = (
    POLICIES,
    (replace(POLICIES[0], require_ack=True, channels=BOTH), *POLICIES[1:]),
    POLICIES[:2],
)
SENT, DOWN = ChannelResult(True, message_id="m1"), ChannelResult(False, error="down")
RESULTS = (SENT, SENT, SENT, DOWN, DOWN, refused(), refused(), paced(7.0))
TYPES = ("quiet.x", "quiet.x", "ask.x", "ask.x", "loose.x", "both.x")
MOMENT = 1e-3

some = st.integers(0, 99)
flags = st.booleans()
results = st.lists(st.sampled_from(RESULTS), min_size=1, max_size=2)


class Twin(NamedTuple):
    """
    One store, how plans are committed to it, and what it has published.
    """

    store: OrderedStore
    commit: Commit
    signals: list


class Twins(RuleBasedStateMachine):
    """
    Rules draft plans; ``commit`` hands all that were drafted since the last time to each twin.
    """

    subject = "sqlite-memory"

    def __init__(self):
        super().__init__()
        self.clock = ManualClock(NOW)
        self.new_id = Numbered()
        self.resolver = Resolver()
        self.drafts, self.history = [], []
        self.claims, self.called = [], []
        self.folder = TemporaryDirectory()
        self.opened = []
        self.model, *self.subjects = [
            self._open("memory", grouped=False),
            self._open(self.subject, grouped=False),
            self._open(self.subject, grouped=True),
        ]

    def _open(self, kind, *, grouped):
        signals = []
        opening = open_store(kind, self.clock, Path(self.folder.name), signals.extend)
        store = OrderedStore(opening.__enter__())
        self.opened.append(opening)
        return Twin(store, Commit(store, grouped=grouped), signals)

    def teardown(self):
        try:
            self.commit()
        finally:
            for opening in self.opened:
                opening.__exit__(None, None, None)
            self.folder.cleanup()

    def draft(self, plan, keep=lambda reply: None):
        """
        Run ``plan`` with the next commit, and hand its reply to ``keep``.
        """
        self.drafts.append((plan, keep))
        self.history.append(plan)
        if len(self.drafts) == 5:
            self.commit()

    def draw_ids(self):
        return Ids(self.new_id())

    # Committing, and what must hold

    @rule()
    def commit(self):
        drafts, self.drafts = self.drafts, []
        plans = [plan for plan, _ in drafts]
        expected = self.model.commit.outcomes(*plans)
        for twin in self.subjects:
            assert shown(expected) == shown(twin.commit.outcomes(*plans))
        self.held = everything(self.model.store.inner)
        for twin in self.subjects:
            assert self.held == everything(twin.store.inner)
            assert self.model.signals == twin.signals
        for (_, keep), reply in zip(drafts, expected, strict=True):
            if not isinstance(reply, BaseException):
                keep(reply)

    @initialize(
        types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=3),
        followers=st.integers(0, 4),
        waits=flags,
    )
    def begin(self, types, followers, waits):
        self.activate(0)
        self.commit()
        for type_ in types:
            self.accept(type_, "a", None, not waits, followers)
        self.commit()

    # Acceptance

    @rule(
        type_=st.sampled_from(TYPES),
        title=st.sampled_from(["a", "a", "b"]),
        key=st.sampled_from([None, None, None, "k1", "k2"]),
        claimed=flags,
        followers=st.integers(0, 3),
    )
    def accept(self, type_, title, key, claimed, followers):
        def keep(taken):
            self.claims += [] if taken.claim is None else [(taken.claim, ())]

        for _ in range(1 + followers):
            request = a_request(notification_type=type_, title=title, idempotency_key=key)
            acceptance = an_acceptance(
                request,
                id=self.new_id(),
                ids=self.draw_ids(),
                key=idempotency_digest("agent-7", request.source, key or self.new_id()),
                wants_callback=title == "a",
            )
            bearer = self.bearer(starts=True) if claimed else None
            self.draft(intake.accept(acceptance, self.resolver, bearer=bearer, channels=CHANNELS), keep)
            key = None

    # Dispatch

    def bearer(self, *, starts):
        return Bearer(self.new_id(), RETRY, starts)

    @rule(attempts=st.lists(st.tuples(some, results), min_size=1, max_size=4))
    def work(self, attempts):
        """
        Whole attempts, one after another, of rows that can be claimed: now, or once time has passed.
        """
        for nth, came_to in attempts:
            self.commit()
            if not any(lease.claimable(row, self.clock.now()) for row in self.held["Notification"]):
                self.wait_until_something_ends(0, 0.0)
            id = self.pick(nth, lambda row: lease.claimable(row, self.clock.now()))
            self.draft(dispatch.claim(id, self.bearer(starts=True), CHANNELS), self.keep_claim)
            self.commit()
            if self.claims:
                self.conclude(0, came_to)

    @rule(limit=st.integers(1, 3), channels=st.sampled_from([CHANNELS, CHANNELS, frozenset({"SLACK"})]))
    def claim_due(self, limit, channels):
        def keep(claims):
            for claim in claims:
                self.keep_claim(claim)
                self.draft(dispatch.start(claim, self.draw_ids()))

        self.draft(dispatch.claim_due([self.bearer(starts=False) for _ in range(limit)], channels), keep)

    @precondition(lambda self: self.claims)
    @rule(nth=some, came_to=results)
    def conclude(self, nth, came_to):
        claim, earlier = self.claims.pop(-1 - nth % len(self.claims))
        channels = claim.row.effective.channels
        calls = self.calls(channels.fallback if earlier else channels.primary, came_to)
        self.draft(
            dispatch.conclude(claim, calls, earlier=earlier, retry=RETRY, ids=self.draw_ids()),
        )

    @precondition(lambda self: self.claims)
    @rule(nth=some, came_to=results)
    def fall_back(self, nth, came_to):
        claim, _ = self.one_of(self.claims, nth)
        calls = self.calls(claim.row.effective.channels.primary, came_to)
        plan = dispatch.fall_back(claim, calls, result_ids=self.draw_ids(), ids=self.draw_ids())
        self.draft(plan, lambda _: self.claims.append((claim, calls)))

    @precondition(lambda self: self.claims)
    @rule(nth=some, renewed=flags)
    def keep_or_give_back_a_lease(self, nth, renewed):
        claim, _ = self.one_of(self.claims, nth)
        self.draft((dispatch.renew if renewed else dispatch.give_back)(claim, self.draw_ids()))

    def keep_claim(self, claim):
        self.claims += [] if claim is None else [(claim, ())]

    def calls(self, channels, came_to):
        return tuple(Call(c, r, self.clock.now()) for c, r in zip(channels, came_to, strict=False))

    # Answers

    @rule(
        nth=some, to=st.sampled_from([Ack.ACKED, Ack.DISMISSED]), actor=st.sampled_from(["ann", "ann", "bob"])
    )
    def respond(self, nth, to, actor):
        if nth % 2 and not any(row.ack_status is Ack.PENDING for row in self.held["Notification"]):
            self.work([(nth, [SENT, SENT])])
        id = self.pick(nth, lambda row: row.effective.require_ack and row.leads)
        answer = Answer(to=to, actor=actor, metadata='{"n":1}', callback=actor == "bob")
        self.draft(response.respond(id, answer, self.draw_ids()))

    @rule(beside=st.sampled_from([-MOMENT, 0.0, MOMENT]), given=flags, callback=flags)
    def expire(self, beside, given, callback):
        """
        Around the first deadline: by the clock, or by an instant that is given.
        """
        self.commit()
        deadlines = [row.deadline for row in self.held["Notification"] if row.ack_status is Ack.PENDING]
        at = min(deadlines, default=self.clock.now()) + beside
        if not given:
            self.clock.set(max(at, self.clock.now()))
        self.draft(response.expire(at=at if given else None, callback=callback, ids=self.draw_ids()))

    # Recovery

    @rule(nth=some)
    def replay(self, nth):
        if nth % 2 and not any(row.dead_letter for row in self.held["Notification"]):
            self.work([(nth, [refused(), refused()])] * 2)
            self.commit()
        id = self.pick(nth, lambda row: row.dead_letter)
        cycle = next((row.cycle for row in self.held["Notification"] if row.id == id), 1)
        self.draft(recovery.replay(id, actor="ops", cycle=cycle, ids=self.draw_ids()))

    @rule(nth=some, actor=st.sampled_from(["agent-7", "stranger", "boss", None, None, None]))
    def withdraw_or_resolve(self, nth, actor):
        if actor is None:
            id = self.pick(nth, lambda row: row.dead_letter)
            self.draft(recovery.resolve_failure(id, actor="ops", ids=self.draw_ids()))
            return
        id, boss = self.pick(nth, lambda row: row.leads), actor == "boss"
        plan = response.withdraw(id, actor=actor, operator=boss, callback=boss, ids=self.draw_ids())
        self.draft(plan)

    # Callbacks

    @rule(limit=st.integers(1, 3), error=st.sampled_from([None, "down", "down", "down"]), settled=flags)
    def call_back(self, limit, error, settled):
        def keep(events):
            for event in events:
                self.called.append(event.id)
                if settled:
                    self.draft(callbacks.settle(event.id, token=event.callback_token, error=error))

        self.draft(callbacks.claim([self.new_id() for _ in range(limit)]), keep)

    @precondition(lambda self: self.called)
    @rule(nth=some)
    def rearm_a_callback(self, nth):
        self.draft(callbacks.rearm(self.one_of(self.called, nth)))

    # Time, and what goes wrong

    @rule(nth=some, beside=st.sampled_from([-MOMENT, 0.0, 0.0, MOMENT, 5.0]))
    def wait_until_something_ends(self, nth, beside):
        """
        To an instant at which something ends, or just before or after it.
        """
        self.commit()
        ends = {
            *(
                t
                for row in self.held["Notification"]
                for t in (row.next_attempt, row.lease_until, row.deadline)
            ),
            *(window.until for window in self.held["DedupWindow"]),
            *(event.callback_until for event in self.held["Event"] if event.callback_pending),
        }
        ahead = sorted(end for end in ends if end is not None and end > self.clock.now())
        self.clock.set((ahead[nth % len(ahead)] if ahead else self.clock.now()) + beside)

    @rule(which=st.integers(0, len(SETS) - 1))
    def activate(self, which):
        documents = [PolicyDocument(policy) for policy in SETS[which]]
        plan = policies.activate(
            documents, packaged=(), actor="ann", known_channels=CHANNELS, allow_gaps=which < 2
        )
        self.draft(plan)

    @precondition(lambda self: self.history)
    @rule(nth=some)
    def run_an_earlier_plan_again(self, nth):
        self.draft(self.one_of(self.history, nth))

    @rule(how=st.sampled_from(["raises", "refused row", "refused event"]))
    def spoil(self, how):
        rows = a_window(f"w{self.new_id()}"), an_event(self.new_id())
        match how:
            case "raises":
                self.draft(raising(ValueError("spoilt"), *rows))
            case "refused row":
                self.draft(put(a_window(f"w{self.new_id()}", owner_id="\ud800"), rows[1]))
            case "refused event":
                self.draft(put(rows[0], an_event(self.new_id(), payload="\ud800")))

    @rule(nth=some)
    def look(self, nth):
        self.commit()
        id = self.pick(nth, lambda row: not row.leads)
        plans = [
            reading.view(id),
            reading.standing(id),
            reading.timeline(id),
            recovery.dead_letters(3),
            callbacks.exhausted(3),
            policies.active_snapshot(self.resolver),
        ]
        expected = [read(self.model.store, plan) for plan in plans]
        for twin in self.subjects:
            assert shown(expected) == shown([read(twin.store, plan) for plan in plans])

    def pick(self, nth, suits):
        """
        The id of one of the rows that suit, or of any if none does, or of none.
        """
        rows = self.held["Notification"]
        ids = [row.id for row in rows if suits(row)] or [row.id for row in rows] or ["nobody"]
        return self.one_of(ids, nth)

    @staticmethod
    def one_of(things, nth):
        """
        The younger ones more often: they are where something happens.
        """
        return things[-1 - nth % min(len(things), 6)]


def read(store, plan: Plan):
    try:
        return store.read(plan)
    except Exception as error:
        return error


def shown(outcomes):
    """
    Replies as they are, lists as tuples; errors by type, and all but the database's by message.
    """
    return [_shown(outcome) for outcome in outcomes]


def _shown(outcome):
    if isinstance(outcome, list):
        return tuple(outcome)
    if not isinstance(outcome, Exception):
        return outcome
    told = vars(outcome) | {"text": str(outcome)}
    return type(outcome), None if type(outcome).__name__ == "StoreRefused" else told


class OnPostgres(Twins):
    subject = "postgres"


UNHURRIED = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

TestTwins = Twins.TestCase
TestTwins.settings = settings(UNHURRIED, max_examples=100)

TestTwinsOnPostgres = OnPostgres.TestCase
TestTwinsOnPostgres.settings = settings(UNHURRIED, max_examples=20)
