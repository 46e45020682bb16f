"""
The plans of the core over every store: their stories end alike, in the lock order, once or twice run.
"""

import importlib
import inspect
import pkgutil

import pytest

from kit.builders import NOW, a_policy, a_request
from kit.ledger import paced
from kit.ledger_over import LedgerOver
from kit.ordered_tx import OrderedStore
from kit.plans import Commit
from kit.stores import open_store
from uns.adapters.policy_files import packaged_policies
from uns.adapters.sources import ManualClock
from uns.core import plans
from uns.core.plans import callbacks, dispatch, intake, policies, reading, recovery
from uns.core.rules.attempt import Go
from uns.core.rules.lease import Purpose
from uns.core.rules.settle import Settled
from uns.ports.documents import PolicyDocument
from uns.ports.errors import Conflict, Forbidden
from uns.ports.policy import ChannelPlan
from uns.ports.vocabulary import Ack, DeliveryMode, EventKind, ReplayBlock, Status

K = EventKind

POLICIES = (
    a_policy("quiet"),
    a_policy("asking", notification_type="ask.*", require_ack=True, ack_timeout_minutes=15),
    a_policy("twice", notification_type="twice.*", max_attempts=2),
    a_policy(
        "doubled",
        notification_type="doubled.*",
        channels=ChannelPlan(primary=("SLACK",), fallback=("SMS",)),
        delivery_mode=DeliveryMode.BEST_EFFORT,
    ),
)


def a_line(ledger, length, **fields):
    """
    One leader and the rows behind it, in acceptance order.
    """
    return [ledger.accept(**fields).id for _ in range(length)]


def statuses(ledger, ids):
    return [ledger.row(id).status.value for id in ids]


def kinds(ledger, id):
    return [event.kind for event in ledger.events(id)]


def a_delivery_satisfies_those_behind_it(ledger):
    first, *rest = a_line(ledger, 3)

    assert Settled.DELIVERED is ledger.attempt(first, SLACK=True)
    late = ledger.accept()

    assert ["DELIVERED", *["DEDUPLICATED"] * 3] == statuses(ledger, [first, *rest, late.id])
    assert [K.ACCEPTED, K.DEDUP_LINKED, K.DEDUP_SATISFIED] == kinds(ledger, rest[0])
    assert ledger.window(late).followers == 0


def a_generation_is_handed_on_three_times(ledger):
    ids = a_line(ledger, 6)
    for id in ids[:4]:
        ledger.fail(id)

    assert ["FAILED"] * 6 == statuses(ledger, ids)
    assert [True] * 4 + [False] * 2 == [ledger.row(id).dead_letter for id in ids]
    assert K.DEDUP_FAILED_WITH_OWNER in kinds(ledger, ids[3])
    assert [K.ACCEPTED, K.DEDUP_LINKED, *[K.DEDUP_RELINKED] * 3] == kinds(ledger, ids[5])

    ledger.replay(ids[3])
    ledger.deliver(ids[3])

    assert ["DELIVERED", "DEDUPLICATED", "DEDUPLICATED"] == statuses(ledger, ids[3:])


def a_failed_attempt_backs_off_and_is_tried_again(ledger):
    id = ledger.accept(notification_type="twice.x").id

    assert Settled.BACKED_OFF is ledger.attempt(id, SLACK=False)
    assert ledger.claim(id) is None
    ledger.clock.set(ledger.row(id).next_attempt)
    (claim,) = ledger.claim_due(5)
    started = ledger.run(dispatch.start(claim, ledger.ids()))

    assert (Go.CALL, ("SLACK",)) == (started.go, started.calls)
    assert ledger.run(dispatch.renew(claim, ledger.ids()))
    assert Settled.DELIVERED is ledger.conclude(claim, SLACK=True).settled


def a_paced_attempt_is_given_back(ledger):
    id = ledger.accept(notification_type="twice.x").id

    assert Settled.BACKED_OFF is ledger.attempt(id, SLACK=paced(30.0))
    assert (1, 0, NOW + 30) == (
        ledger.row(id).attempts,
        ledger.row(id).cycle_attempts,
        ledger.row(id).next_attempt,
    )


def a_fallback_is_called_after_the_primaries(ledger):
    id = ledger.accept(notification_type="doubled.x").id
    claim = ledger.claim(id)
    calls = ledger.calls(SLACK=False)
    plan = dispatch.fall_back(claim, calls, result_ids=ledger.ids(), ids=ledger.ids())

    assert ("SMS",) == ledger.run(plan).calls
    done = dispatch.conclude(
        claim, ledger.calls(SMS=True), earlier=calls, retry=ledger.retry, ids=ledger.ids()
    )
    assert Settled.DELIVERED is ledger.run(done).settled
    assert ("SMS",) == ledger.row(id).outcome.channels_succeeded


def a_lease_can_be_lost_and_given_back(ledger):
    id = ledger.accept(notification_type="twice.x").id
    lapsed = ledger.claim(id)
    ledger.clock.advance(60)
    held = ledger.claim(id, starts=False)

    assert Settled.LOST is ledger.conclude(lapsed, SLACK=False).settled
    assert not ledger.run(dispatch.renew(lapsed, ledger.ids()))
    assert Go.LOST is ledger.run(dispatch.start(lapsed, ledger.ids())).go
    assert held.token == ledger.row(id).lease_token
    ledger.run(dispatch.give_back(held, ledger.ids()))
    row = ledger.row(id)
    assert (held.token, ledger.clock.now(), 1) == (row.lease_token, row.lease_until, row.attempts)


def a_success_on_record_is_not_sent_again(ledger):
    id = ledger.accept().id
    lapsed = ledger.claim(id)
    ledger.clock.advance(60)
    ledger.conclude(lapsed, SLACK=True)
    again = ledger.claim(id)

    assert Purpose.SATISFIED is again.purpose
    assert Settled.DELIVERED is ledger.conclude(again).settled


def an_answer_is_given_once(ledger):
    owner, follower = a_line(ledger, 2, notification_type="ask.x", wants_callback=True)
    ledger.deliver(owner)

    assert Ack.ACKED is ledger.respond(owner, metadata='{"note":"é"}').ack_status
    assert NOW == ledger.respond(owner).responded_at
    with pytest.raises(Conflict, match="owned by"):
        ledger.respond(follower)
    with pytest.raises(Conflict, match="ACKED by ann"):
        ledger.respond(owner, to=Ack.DISMISSED)
    with pytest.raises(Conflict, match="nothing to withdraw"):
        ledger.withdraw(owner)


def an_answer_proves_delivery(ledger):
    owner, follower = a_line(ledger, 2, notification_type="ask.x")
    claim = ledger.claim(owner)
    ledger.clock.advance(60)
    ledger.conclude(claim, SLACK=True)
    answered = ledger.respond(owner)

    assert (Status.DELIVERED, Ack.ACKED) == (answered.status, answered.ack_status)
    assert Status.DEDUPLICATED is ledger.row(follower).status


def silence_times_out_at_the_deadline(ledger):
    ids = [ledger.accept(notification_type="ask.x", title=f"t{n}").id for n in range(3)]
    for id in ids:
        ledger.deliver(id)

    assert ledger.expire(NOW + 899.999) == 0
    assert ledger.expire(NOW + 900) == 3
    assert {Ack.TIMED_OUT} == {ledger.row(id).ack_status for id in ids}


def what_is_withdrawn_ends_with_those_behind_it(ledger):
    owner, follower = a_line(ledger, 2)
    asked = ledger.accept(notification_type="ask.x").id
    ledger.deliver(asked)

    with pytest.raises(Forbidden):
        ledger.withdraw(owner, "stranger")
    assert ledger.withdraw(owner).withdrawn
    assert Ack.DISMISSED is ledger.withdraw(asked, "boss", operator=True).ack_status
    assert ["FAILED", "FAILED"] == statuses(ledger, [owner, follower])


def a_replay_turns_its_line_round(ledger):
    first, second = a_line(ledger, 2)
    ledger.fail(first)

    with pytest.raises(Conflict) as pending:
        ledger.replay(first)
    ledger.fail(second)
    letters = ledger.read(recovery.dead_letters(10))
    cycle = ledger.read(recovery.dead_letter_cycle(first))
    replayed = ledger.replay(first, cycle)

    assert ReplayBlock.SUCCESSOR_PENDING == pending.value.reason
    assert [(first, None), (second, None)] == [(letter.row.id, letter.blocked) for letter in letters]
    assert (2, None) == (replayed.cycle, replayed.dedup_successor_id)
    assert first == ledger.row(second).dedup_successor_id
    assert first == ledger.window(replayed).owner_id
    assert first == ledger.accept().dedup_owner_id


def resolving_the_end_resolves_the_line(ledger):
    first, second = a_line(ledger, 2)
    ledger.fail(first)
    ledger.fail(second)

    assert not ledger.resolve_failure("nobody")
    assert ledger.resolve_failure(second)
    assert [False, False] == [ledger.row(id).dead_letter for id in (first, second)]
    assert [K.FAILURE_RESOLVED, K.FAILURE_RESOLVED] == [kinds(ledger, id)[-1] for id in (first, second)]


def a_callback_is_called_three_times_and_rearmed(ledger):
    id = ledger.accept(notification_type="ask.x", wants_callback=True).id
    ledger.deliver(id)
    ledger.respond(id)
    for attempt in (1, 2, 3):
        (event,) = ledger.claim_callbacks(5)
        ledger.run(callbacks.settle(event.id, token=event.callback_token, error="down"))
        ledger.clock.advance(2.0**attempt)
    (stuck,) = ledger.read(callbacks.exhausted(5))

    assert ledger.claim_callbacks(5) == ()
    assert (3, "down") == (stuck.callback_attempts, stuck.callback_error)
    assert ledger.run(callbacks.rearm(stuck.id))
    (event,) = ledger.claim_callbacks(5)
    ledger.run(callbacks.settle(event.id, token=event.callback_token, error=None))
    assert ledger.claim_callbacks(5) == ()


def a_request_is_accepted_once(ledger):
    request = {"idempotency_key": "k", "title": "one"}
    first = ledger.accept(**request)
    ledger.clock.advance(1000)

    assert first == ledger.accept(**request)
    with pytest.raises(Conflict, match="different payload"):
        ledger.accept(**request | {"title": "two"})


def policies_change_what_comes_after(ledger):
    before = ledger.accept(title="before")
    asking = PolicyDocument(a_policy("quiet", require_ack=True))
    reload = ledger.run(
        policies.activate([asking], packaged=(), actor="ann", known_channels=ledger.channels, allow_gaps=True)
    )
    after = ledger.accept(title="after")

    assert (2, ("quiet",)) == (reload.revision, reload.policies)
    assert [False, True] == [row.effective.require_ack for row in (before, after)]
    assert ledger.read(policies.active_snapshot(ledger.resolver)).revision == 2
    assert ledger.run(policies.bootstrap(packaged_policies())) is None
    assert ledger.read(intake.simulate(a_request(), ledger.resolver)).effective.require_ack


def what_doors_show_is_read(ledger):
    owner, follower = a_line(ledger, 2, notification_type="ask.x")
    ledger.deliver(owner)
    ledger.respond(owner)
    view = ledger.read(reading.view(follower))

    assert (Status.DEDUPLICATED, Ack.ACKED) == (view.row.status, view.projection.effective_ack_status)
    assert view.projection == ledger.read(reading.response(follower))
    assert ledger.read(reading.standing(follower)).final
    assert kinds(ledger, owner) == [event.kind for event in ledger.read(reading.timeline(owner))]
    assert [Status.DELIVERED] == [audit.status for audit in ledger.read(reading.audits(owner))]
    assert ledger.read(reading.audits(follower)) == []
    assert ledger.read(reading.authority())


STORIES = [
    a_delivery_satisfies_those_behind_it,
    a_generation_is_handed_on_three_times,
    a_failed_attempt_backs_off_and_is_tried_again,
    a_paced_attempt_is_given_back,
    a_fallback_is_called_after_the_primaries,
    a_lease_can_be_lost_and_given_back,
    a_success_on_record_is_not_sent_again,
    an_answer_is_given_once,
    an_answer_proves_delivery,
    silence_times_out_at_the_deadline,
    what_is_withdrawn_ends_with_those_behind_it,
    a_replay_turns_its_line_round,
    resolving_the_end_resolves_the_line,
    a_callback_is_called_three_times_and_rearmed,
    a_request_is_accepted_once,
    policies_change_what_comes_after,
    what_doors_show_is_read,
]


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_every_store_tells_the_same_story(run, clock, story, again):
    """
    Given any store, then each story of the core's plans ends as told, in the one lock order; and no
    plan writes anything when it is run a second time with the same ids.
    """
    story(LedgerOver(run, clock, *POLICIES, again=again))


def test_the_stories_run_every_plan_of_the_core(tmp_path):
    """
    No plan is left out of the stories, so that none is left out of the lock order.
    """
    ran = set()
    for story in STORIES:
        clock = ManualClock(NOW)
        with open_store("memory", clock, tmp_path) as store:
            ledger = LedgerOver(Commit(OrderedStore(store), grouped=False), clock, *POLICIES)
            story(ledger)
        ran |= ledger.ran

    assert every_plan() <= ran


def every_plan():
    modules = [
        importlib.import_module(f"{plans.__name__}.{m.name}") for m in pkgutil.iter_modules(plans.__path__)
    ]
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in modules
        for name, made in vars(module).items()
        if inspect.isfunction(made)
        and made.__module__ == module.__name__
        and str(made.__annotations__.get("return", "")).startswith("Plan[")
    }
