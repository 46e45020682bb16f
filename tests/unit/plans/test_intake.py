"""
Accepting as one transaction, as ``docs/rules.md`` tells it.

- 1 the authority is read in the transaction: ``test_the_policy_in_force_decides_not_the_one_remembered``
- 2 idempotency: ``test_a_replay_*``, ``test_the_same_key_*``, ``test_two_writers_of_one_key_*``
- 3 overrides against the policy: ``test_a_refused_request_leaves_nothing`` (and it keeps its key free)
- 4 dedup over time: ``test_the_window_counts_from_acceptance_then_from_delivery``
- acceptance and claim in one transaction: ``test_a_bearer_*``; run twice (R6): ``test_*_run_again``
- autonomy: ``test_shadow_and_preview_ask_nobody``
"""

import pytest

from kit.builders import NOW, a_policy, a_request, an_acceptance, put_in_force
from kit.ledger import Ledger
from uns.core.plans.intake import accept, simulate
from uns.core.rules.lease import Purpose
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.policy import Resolver
from uns.ports.errors import Conflict, NoPolicy, Rejected
from uns.ports.policy import ChannelPlan
from uns.ports.rows import DedupWindow, Event, Notification
from uns.ports.vocabulary import DeliveryMode, EventKind, NotificationIntent, Status

P, K = Phase, EventKind
ASKING = a_policy(require_ack=True)


@pytest.fixture
def ledger():
    return Ledger()


def taken(ledger, acceptance=None, bearer=None, channels=None, **fields):
    acceptance = acceptance or an_acceptance(a_request(**fields), id=ledger.new_id(), ids=ledger.ids())
    channels = ledger.channels if channels is None else channels
    return ledger.run(accept(acceptance, ledger.resolver, bearer=bearer, channels=channels))


def contents(ledger):
    return {kind: dict(rows) for kind, rows in ledger.store.tables.items()}


def test_an_accepted_row_is_stored_with_its_window_and_event(ledger):
    """
    One transaction writes the row, the window it leads and ACCEPTED.
    """
    row = ledger.accept()

    assert row == ledger.row(row.id)
    assert (P.LEADING, 1, NOW) == (phase(row), row.dedup_generation, row.accepted_at)
    assert (row.id, 1, NOW + 300) == (
        ledger.window(row).owner_id,
        ledger.window(row).generation,
        ledger.window(row).until,
    )
    assert [K.ACCEPTED] == ledger.kinds(row.id)


@pytest.mark.parametrize("wants", [True, False])
def test_whether_a_callback_is_wanted_is_stored(ledger, wants):
    """
    The accepting process says whether the response is to be called back.
    """
    assert wants is ledger.row(ledger.accept(wants_callback=wants).id).wants_callback


def test_a_replay_returns_the_row_as_it_stands(ledger):
    """
    Given a delivered row, when its key comes again, then the reply is its present state and nothing
    is written.
    """
    first = ledger.accept(idempotency_key="k")
    delivered = ledger.deliver(first.id)
    before = contents(ledger)
    again = taken(ledger, idempotency_key="k")

    assert (delivered, True, None) == (again.accepted.row, again.accepted.replayed, again.claim)
    assert before == contents(ledger)


@pytest.mark.parametrize(
    "policy",
    [
        a_policy(require_ack=True, dedup_window_seconds=0.0),
        a_policy(notification_type="other.*"),
        a_policy(intent=NotificationIntent.SAFETY),
        a_policy(delivery_mode=DeliveryMode.BEST_EFFORT),
    ],
    ids=["other settings", "no policy", "other intent", "override now refused"],
)
def test_a_replay_is_answered_whatever_the_policy_has_come_to_say(ledger, policy):
    """
    Given that the policy changed since, so that the request would now be refused or resolve to
    something else, when its key comes again, then the stored row is the reply.
    """
    request = {"idempotency_key": "k", "delivery_mode": "GUARANTEED"}
    first = ledger.accept(**request)
    put_in_force(ledger.store, policy)

    assert (first, True) == (
        taken(ledger, **request).accepted.row,
        taken(ledger, **request).accepted.replayed,
    )


def test_the_same_key_with_another_payload_is_a_conflict(ledger):
    """
    Also when the other payload would be refused by its policy; nothing is written.
    """
    ledger.accept(idempotency_key="k")
    before = contents(ledger)
    for other in ({"title": "another"}, {"priority": "HIGH"}):
        with pytest.raises(Conflict, match="different payload"):
            taken(ledger, idempotency_key="k", **other)

    assert before == contents(ledger)


@pytest.mark.parametrize(
    ("other", "same"),
    [({}, True), ({"principal": "agent-8"}, False)],
)
def test_a_key_belongs_to_its_principal(ledger, other, same):
    """
    Another principal's key of the same name is another key.
    """
    request = a_request(idempotency_key="k")
    first = taken(ledger, an_acceptance(request)).accepted
    second = taken(ledger, an_acceptance(request, **other)).accepted

    assert same is second.replayed
    assert same is (first.row.id == second.row.id)


def test_a_key_belongs_to_its_source(ledger):
    """
    Another source's key of the same name is another key.
    """
    rows = {ledger.accept(idempotency_key="k", source=source).id for source in ("pay", "shop")}

    assert 2 == len(rows)


def test_without_a_key_every_request_is_its_own(ledger):
    """
    Two equal requests without idempotency keys are two rows; only dedup joins them.
    """
    first, second = ledger.accept(), ledger.accept()

    assert (P.LEADING, P.FOLLOWING) == (phase(first), phase(second))


def test_two_writers_of_one_key_are_an_acceptance_and_a_replay(ledger):
    """
    Given two processes that race on one key, then the second finds the first one's row, and neither
    fails.
    """
    request = a_request(idempotency_key="k")
    writers = [an_acceptance(request) for _ in range(2)]
    first, second = (taken(ledger, writer).accepted for writer in writers)

    assert (False, True) == (first.replayed, second.replayed)
    assert first.row == second.row
    assert 1 == len(ledger.rows())


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"notification_type": "other.kind"}, NoPolicy),
        ({"intent": "SAFETY"}, Rejected),
        ({"require_ack": True}, Rejected),
        ({"delivery_mode": "BEST_EFFORT"}, Rejected),
        ({"priority": "LOW"}, Rejected),
    ],
)
def test_a_refused_request_leaves_nothing(fields, error):
    """
    No policy, another intent, an override that differs: no row, and the key is not used up.
    """
    policy = a_policy(notification_type="system.*", intent=NotificationIntent.OPERATIONAL)
    ledger = Ledger(policy)
    before = contents(ledger)
    with pytest.raises(error):
        taken(ledger, idempotency_key="k", **fields)

    assert before == contents(ledger)
    assert not taken(ledger, idempotency_key="k").accepted.replayed


def test_without_any_policy_nothing_is_accepted():
    """
    A database that nobody set up covers no type.
    """
    ledger = Ledger()
    ledger.store.tables.clear()
    with pytest.raises(NoPolicy):
        taken(ledger)


def test_the_policy_in_force_decides_not_the_one_remembered(ledger):
    """
    Given a process that has not heard of a reload, when it accepts, then the row lives by the
    policy that its own transaction found.
    """
    ledger.accept()
    put_in_force(ledger.store, a_policy(max_attempts=7))

    assert 7 == ledger.accept(title="another").effective.max_attempts


def test_a_guess_made_before_a_reload_is_dropped(ledger):
    """
    Given a plan made under the old policy, when a reload is committed before it runs, then the new
    policy decides.
    """
    ledger.accept()
    acceptance = an_acceptance(a_request(title="another"))
    plan = accept(acceptance, ledger.resolver)
    put_in_force(ledger.store, a_policy(max_attempts=7))

    assert 7 == ledger.run(plan).accepted.row.effective.max_attempts


def test_a_fresh_process_knows_nothing_and_accepts(ledger):
    """
    A resolver that remembers nothing resolves from the stored snapshot.
    """
    acceptance = an_acceptance()

    assert acceptance.id == ledger.run(accept(acceptance, Resolver())).accepted.row.id


@pytest.mark.parametrize(
    ("after", "expected"),
    [(299.0, P.FOLLOWING), (300.0, P.FOLLOWING), (86_400.0, P.FOLLOWING)],
)
def test_a_pending_owner_coalesces_past_its_window(ledger, after, expected):
    """
    Pending ownership outlives the window.
    """
    leader = ledger.accept()
    ledger.clock.advance(after)
    row = ledger.accept()

    assert (expected, leader.id) == (phase(row), row.dedup_owner_id)
    assert 1 == ledger.window(row).followers


@pytest.mark.parametrize(
    ("after", "expected"), [(299.999, P.DEDUPLICATED), (300.0, P.LEADING), (300.001, P.LEADING)]
)
def test_the_window_counts_from_acceptance_then_from_delivery(ledger, after, expected):
    """
    Given an owner delivered 200 s after its acceptance, then duplicates are absorbed until 300 s
    after delivery; one accepted exactly at ``until`` opens a new generation.
    """
    leader = ledger.accept()
    ledger.clock.advance(200)
    ledger.deliver(leader.id)
    ledger.clock.advance(after)
    row = ledger.accept()

    assert (expected, 2 if expected is P.LEADING else 1) == (phase(row), row.dedup_generation)


def test_a_duplicate_does_not_renew_the_window(ledger):
    """
    A stream of duplicates does not silence a key for ever.
    """
    leader = ledger.accept()
    ledger.deliver(leader.id)
    ledger.clock.advance(200)
    duplicate = ledger.accept()
    ledger.clock.advance(100)

    assert (P.DEDUPLICATED, P.LEADING) == (phase(duplicate), phase(ledger.accept()))


def test_metadata_does_not_count_for_dedup(ledger):
    """
    Times and counters in metadata make no other obligation; a given dedup key does.
    """
    first = ledger.accept(metadata={"n": 1})

    assert first.id == ledger.accept(metadata={"n": 2}).dedup_owner_id
    assert ledger.accept(dedup_key="other").leads


@pytest.mark.parametrize(
    "fields",
    [{"source": "shop"}, {"title": "another"}, {"message": "another"}, {"notification_type": "system.other"}],
)
def test_other_obligations_do_not_coalesce(ledger, fields):
    """
    Source, title, message and type tell obligations apart.
    """
    ledger.accept()

    assert ledger.accept(**fields).leads


def test_other_settings_do_not_coalesce(ledger):
    """
    Given a reload that changes the settings, then a new request of the same content leads: it owes
    something else.
    """
    ledger.accept()
    put_in_force(ledger.store, a_policy(max_attempts=7))

    assert ledger.accept().leads


def test_a_policy_without_a_window_never_coalesces():
    """
    With ``dedup_window_seconds: 0`` every request is sent.
    """
    ledger = Ledger(a_policy(dedup_window_seconds=0.0))
    rows = [ledger.accept() for _ in range(3)]

    assert [P.LEADING] * 3 == [phase(row) for row in rows]
    assert {} == ledger.table(DedupWindow)


def test_a_replay_after_the_answer_changes_nothing_of_it():
    """
    Given an answered obligation, when its request is sent again, as a retry or as a duplicate, then
    the answer stands.
    """
    ledger = Ledger(ASKING)
    first = ledger.accept(idempotency_key="k")
    ledger.deliver(first.id)
    answered = ledger.respond(first.id)
    retry, duplicate = taken(ledger, idempotency_key="k").accepted, taken(ledger).accepted

    assert answered == retry.row == ledger.row(first.id)
    assert (first.id, None) == (duplicate.row.dedup_owner_id, duplicate.row.ack_status)


@pytest.mark.parametrize("mode", ["SHADOW", "PREVIEW"])
def test_shadow_and_preview_ask_nobody(mode):
    """
    Requests of an agent that does not act never require an answer, and go to LOG unless the policy
    names channels for that mode.
    """
    ledger = Ledger(ASKING)
    ledger.channels = frozenset({"LOG"})
    row = ledger.accept(mode=mode)
    ledger.attempt(row.id, LOG=True)

    assert (False, ChannelPlan(primary=("LOG",))) == (
        row.effective.require_ack,
        row.effective.channels,
    )
    assert (Status.DELIVERED, None) == (ledger.row(row.id).status, ledger.row(row.id).ack_status)


def test_a_bearer_claims_and_starts_the_new_leader_at_once(ledger):
    """
    Acceptance, claim and start are one transaction where a slot is free; the events are the same,
    and nobody else is woken.
    """
    ledger.signals.clear()
    made = taken(ledger, bearer=ledger.bearer())
    row = ledger.row(made.accepted.row.id)

    assert (Purpose.SEND, ("SLACK",), row) == (made.claim.purpose, made.claim.calls, made.claim.row)
    assert P.LEASED is phase(row)
    assert [K.ACCEPTED, K.ATTEMPT_STARTED, K.CHANNEL_ATTEMPT_STARTED] == ledger.kinds(row.id)
    assert [] == ledger.signals


@pytest.mark.parametrize("channels", [frozenset(), frozenset({"LOG"})])
def test_a_bearer_without_the_adapter_leaves_the_row_to_others(ledger, channels):
    """
    A process that lacks a channel accepts all the same, and wakes those that have it.
    """
    ledger.signals.clear()
    made = taken(ledger, bearer=ledger.bearer(), channels=channels)

    assert (None, P.LEADING) == (made.claim, phase(ledger.row(made.accepted.row.id)))
    assert 1 == len(ledger.signals)


def test_a_bearer_claims_neither_followers_nor_duplicates(ledger):
    """
    What is coalesced is not sent.
    """
    leader = ledger.accept()
    follower = taken(ledger, bearer=ledger.bearer())
    ledger.deliver(leader.id)
    duplicate = taken(ledger, bearer=ledger.bearer())

    assert (None, None) == (follower.claim, duplicate.claim)


def test_a_bearer_does_not_claim_a_known_row(ledger):
    """
    An idempotent replay of a row that is due is no second dispatch of it.
    """
    ledger.accept(idempotency_key="k")

    assert None is taken(ledger, idempotency_key="k", bearer=ledger.bearer()).claim


@pytest.mark.parametrize("starts", [True, False])
def test_acceptance_run_again_is_the_same_acceptance(ledger, starts):
    """
    Given that the answer to the commit was lost, when the plan runs again, then it is no replay,
    the claim is recognised, and nothing is written twice (R6).
    """
    plan = accept(
        an_acceptance(a_request(idempotency_key="k")),
        ledger.resolver,
        bearer=ledger.bearer(starts=starts),
        channels=ledger.channels,
    )
    first, before = ledger.run(plan), contents(ledger)

    again = ledger.run(plan)

    assert (first.claim, first.claim.row, False) == (
        again.claim,
        again.accepted.row,
        again.accepted.replayed,
    )
    assert before == contents(ledger)


def test_acceptance_run_again_after_its_lease_went_on(ledger):
    """
    Given that the row was answered or claimed by others meanwhile, when the plan runs again, then it
    replies with the row as it stands and claims nothing.
    """
    plan = accept(an_acceptance(), ledger.resolver, bearer=ledger.bearer(), channels=ledger.channels)
    first = ledger.run(plan)
    ledger.clock.advance(60)
    other = ledger.claim(first.accepted.row.id)
    again = ledger.run(plan)

    assert (other.row, False, None) == (again.accepted.row, again.accepted.replayed, again.claim)


def test_a_simulation_applies_nothing(ledger):
    """
    What a request would resolve to is read without a trace, and refused like the request itself.
    """
    before = contents(ledger)
    resolved = ledger.read(simulate(a_request(), ledger.resolver))

    assert ("ops-alerts", ("SLACK",)) == (resolved.policy_id, resolved.effective.all_channels)
    assert before == contents(ledger)
    with pytest.raises(Rejected):
        ledger.read(simulate(a_request(require_ack=True), ledger.resolver))


def test_the_order_of_acceptance_decides_who_inherits(ledger):
    """
    By ``accepted_at`` and then by id, whatever the order of insertion.
    """
    leader = ledger.accept()
    early, late = ledger.accept(), ledger.accept()
    ledger.clock.advance(-10)  # a clock that was set back
    earliest = ledger.accept()
    ledger.clock.advance(10)
    ledger.fail(leader.id)

    assert earliest.id == ledger.row(leader.id).dedup_successor_id
    assert {earliest.id} == {ledger.row(row.id).dedup_owner_id for row in (early, late)}
    ledger.fail(earliest.id)

    assert early.id == ledger.row(earliest.id).dedup_successor_id


def test_a_new_leader_takes_over_from_a_dead_letter(ledger):
    """
    Given a dead letter, when its key is accepted again, then the new row leads the next generation,
    and the dead letter's obligation lives on in it.
    """
    dead = ledger.fail(ledger.accept().id)
    row = ledger.accept()

    assert (P.LEADING, 2) == (phase(row), row.dedup_generation)
    assert row.id == ledger.row(dead.id).dedup_successor_id == ledger.lineage(dead.id).owner.id
    assert K.OBLIGATION_HANDED_OFF is ledger.kinds(dead.id)[-1]


def test_events_are_written_once_each(ledger):
    """
    Every event has an id of its own.
    """
    leader = ledger.accept()
    ledger.accept()
    ledger.fail(leader.id)
    events = ledger.table(Event)

    assert len(events) == sum(len(ledger.events(id)) for id in ledger.table(Notification))
