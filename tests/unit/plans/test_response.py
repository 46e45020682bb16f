"""
Answering, timing out and withdrawing as transactions, as ``docs/rules.md`` tells them.

- through the canonical owner only: ``test_an_answer_to_another_row_names_the_owner`` and its likes
- an answer that proves delivery (R7): ``test_an_answer_settles_*``, ``test_*_proves_nothing``
- exactly one wins: ``test_one_of_three_wins``; a hundred at a time: ``test_a_hundred_at_a_time``
- a sweep run twice (R6): ``test_a_sweep_run_again_*``
- withdrawing, by whom and through whom: ``test_only_producer_or_operator_*`` and those after it
"""

from itertools import permutations

import pytest

from kit.builders import NOW, a_policy, an_acceptance
from kit.ledger import Ledger
from kit.phases import a_row_in
from uns.core.plans import intake, response
from uns.core.rules.ack import Answer
from uns.core.rules.lifecycle import Phase, phase
from uns.core.rules.settle import Settled
from uns.ports.errors import Conflict, Forbidden, NotFound
from uns.ports.policy import ChannelPlan
from uns.ports.rows import AckAudit, Copy
from uns.ports.vocabulary import Ack, EventKind, Status

P, K = Phase, EventKind
UNKNOWN = "0000ffff-0000-7000-8000-000000000000"
ANSWERS = (K.ACKED, K.DISMISSED, K.TIMED_OUT)


@pytest.fixture
def ledger():
    return Ledger(a_policy(require_ack=True, ack_timeout_minutes=15))


def contents(ledger):
    return {kind: dict(rows) for kind, rows in ledger.store.tables.items()}


def awaiting(ledger, **fields):
    return ledger.deliver(ledger.accept(**fields).id).id


def answers(ledger, id):
    return [kind for kind in ledger.kinds(id) if kind in ANSWERS]


def put_on_record(ledger, id):
    ledger.put(Copy(notification_id=id, channel="SLACK", ref=None, routing=None, state="SENT", at=NOW))


def test_an_answer_is_stored_told_and_audited(ledger):
    """
    One transaction for row, event and audit record.
    """
    id = awaiting(ledger)
    row = ledger.respond(id, metadata='{"note":"on it"}')

    assert row == ledger.row(id)
    assert (P.ANSWERED, "ann", NOW) == (phase(row), row.actor, row.responded_at)
    assert [K.ACKED] == answers(ledger, id)
    assert [(Ack.PENDING, Ack.ACKED)] == [
        (audit.old_status, audit.new_status) for audit in ledger.table(AckAudit).values()
    ]


@pytest.mark.parametrize("to", [Ack.ACKED, Ack.DISMISSED])
def test_ones_own_answer_again_changes_nothing(ledger, to):
    """
    The first answer again, however late, with its first metadata.
    """
    id = awaiting(ledger)
    first = ledger.respond(id, to=to, metadata='{"n":1}')
    ledger.clock.advance(10_000)
    before = contents(ledger)

    assert first == ledger.respond(id, to=to, metadata='{"n":2}')
    assert before == contents(ledger)


def test_an_answer_run_again(ledger):
    """
    Given that the answer to the commit was lost, when the plan runs again, then it is one answer.
    """
    id = awaiting(ledger)
    plan = response.respond(id, Answer(to=Ack.ACKED, actor="ann"), ledger.ids())
    first, before = ledger.run(plan), contents(ledger)

    assert first == ledger.run(plan)
    assert before == contents(ledger)


def test_an_answer_to_nothing(ledger):
    """
    There is no such notification.
    """
    with pytest.raises(NotFound):
        ledger.respond(UNKNOWN)


@pytest.mark.parametrize("state", ["follower", "duplicate", "predecessor", "failed with it"])
def test_an_answer_to_another_row_names_the_owner(ledger, state):
    """
    A response to a row that is not its own canonical owner is a conflict that names the owner.
    """
    line = [ledger.accept().id for _ in range(5)]
    id, owner = {
        "follower": (line[1], line[0]),
        "duplicate": (line[1], line[0]),
        "predecessor": (line[0], line[1]),
        "failed with it": (line[4], line[3]),
    }[state]
    if state == "duplicate":
        ledger.deliver(line[0])
    for failing in {"predecessor": line[:1], "failed with it": line[:4]}.get(state, []):
        ledger.fail(failing)
    before = contents(ledger)
    with pytest.raises(Conflict) as refused:
        ledger.respond(id)

    assert (owner, "NOT_OWNER") == (refused.value.obligation_owner_id, refused.value.reason)
    assert before == contents(ledger)


def test_an_answer_to_a_row_without_an_owner(ledger):
    """
    Where the lineage does not resolve, the conflict says why.
    """
    ledger.put(a_row_in(P.FOLLOWING, "n1", dedup_owner_id="gone"))
    with pytest.raises(Conflict) as refused:
        ledger.respond("n1")

    assert ("MISSING_TARGET", None) == (refused.value.reason, refused.value.obligation_owner_id)


@pytest.mark.parametrize("leased", [True, False])
def test_an_answer_settles_what_a_human_has(ledger, leased):
    """
    Given a pending owner with a success on record, when a human answers, then it is DELIVERED and
    answered in one transaction, its followers are satisfied, and its worker finds its lease gone.
    """
    id, follower = ledger.accept().id, ledger.accept().id
    claim = ledger.claim(id) if leased else None
    put_on_record(ledger, id)
    ledger.clock.advance(1)
    row = ledger.respond(id)

    assert (P.ANSWERED, NOW + 1, NOW + 1) == (phase(row), row.delivered_at, row.responded_at)
    assert P.DEDUPLICATED is phase(ledger.row(follower))
    assert (NOW + 301, 0) == (ledger.window(row).until, ledger.window(row).followers)
    assert [K.DELIVERY_RESULT, K.ACKED] == ledger.kinds(id)[-2:]
    if claim is not None:
        assert Settled.LOST is ledger.conclude(claim, SLACK=True).settled
        assert row == ledger.row(id)


def test_an_answer_settles_through_a_predecessors_success(ledger):
    """
    Given an heir that is pending while its failed predecessor's call had succeeded after all, when
    the human who has that message answers, then the heir is settled.
    """
    first, heir = ledger.accept().id, ledger.accept().id
    late = ledger.claim(first)
    ledger.clock.advance(60)
    ledger.fail(first)
    ledger.conclude(late, SLACK=True)
    row = ledger.respond(heir)

    assert (P.ANSWERED, ()) == (phase(row), row.outcome.channels_succeeded)
    assert P.DEAD_LETTER is phase(ledger.row(first))


def test_an_answer_that_proves_run_again(ledger):
    """
    Run again, the plan finds its answer given.
    """
    id = ledger.accept().id
    put_on_record(ledger, id)
    plan = response.respond(id, Answer(to=Ack.DISMISSED, actor="ann"), ledger.ids())
    first, before = ledger.run(plan), contents(ledger)

    assert first == ledger.run(plan)
    assert before == contents(ledger)


def test_an_answer_without_a_success_on_record_proves_nothing(ledger):
    """
    Nobody is known to have the message: the answer is refused and the row goes on.
    """
    id = ledger.accept().id
    with pytest.raises(Conflict, match="awaits no response yet"):
        ledger.respond(id)

    assert P.LEADING is phase(ledger.row(id))


def test_an_answer_that_nobody_asked_for_proves_nothing():
    """
    Without require_ack a success on record settles nothing by an answer.
    """
    ledger = Ledger()
    id = ledger.accept().id
    put_on_record(ledger, id)
    with pytest.raises(Conflict, match="requires no response"):
        ledger.respond(id)

    assert P.LEADING is phase(ledger.row(id))


@pytest.mark.parametrize("order", list(permutations(["ack", "dismiss", "expire"])), ids="-".join)
def test_one_of_three_wins(ledger, order):
    """
    Of ACKED, DISMISSED and TIMED_OUT exactly one wins a race, and exactly one callback event exists.
    """
    id = awaiting(ledger, wants_callback=True)
    deadline = ledger.row(id).deadline
    for step in order:
        if step == "expire":
            ledger.expire(at=deadline)
            continue
        to = {"ack": Ack.ACKED, "dismiss": Ack.DISMISSED}[step]
        try:
            ledger.respond(id, step, to)
        except Conflict:
            assert step != order[0]

    expected = {"ack": K.ACKED, "dismiss": K.DISMISSED, "expire": K.TIMED_OUT}[order[0]]
    assert [expected] == answers(ledger, id)
    assert [True] == [e.callback_pending for e in ledger.events(id) if e.kind in ANSWERS]
    assert expected == ledger.row(id).ack_status


@pytest.mark.parametrize(("offset", "expired"), [(-0.001, 0), (0.0, 1), (0.001, 1)])
@pytest.mark.parametrize("given", [True, False], ids=["the instant given", "the transaction's"])
def test_expiry_at_the_deadline(ledger, offset, expired, given):
    """
    A sweep judges by the instant it is given, else by its transaction's.
    """
    id = awaiting(ledger)
    instant = ledger.row(id).deadline + offset
    if not given:
        ledger.clock.set(instant)

    assert expired == ledger.expire(at=instant if given else None)
    assert ([K.TIMED_OUT] if expired else []) == answers(ledger, id)
    if expired:
        assert instant == ledger.row(id).responded_at


@pytest.mark.parametrize("callback", [True, False])
def test_a_timeout_is_called_back_where_one_is_configured(ledger, callback):
    """
    The settling process's callback counts where the row wanted none.
    """
    id = awaiting(ledger)
    ledger.clock.advance(900)
    ledger.expire(callback=callback)

    assert callback is ledger.events(id, K.TIMED_OUT)[0].callback_pending


def test_a_hundred_at_a_time(ledger):
    """
    The earliest deadlines first, a hundred in one transaction, until none is due.
    """
    ids = []
    for n in range(101):
        ids.append(awaiting(ledger, title=f"alert {n}"))
        ledger.clock.advance(1)
    ledger.clock.advance(900)

    assert 100 == ledger.expire()
    assert P.AWAITING is phase(ledger.row(ids[100]))
    assert [1, 0] == [ledger.expire(), ledger.expire()]
    assert [[K.TIMED_OUT]] * 101 == [answers(ledger, id) for id in ids]


def test_a_sweep_run_again_keeps_every_event(ledger):
    """
    Given a sweep whose answer was lost, and a deadline that passed since, when the plan runs again,
    then it repeats its reply and leaves the newly overdue row, event and callback included, to the
    next sweep.
    """
    first = awaiting(ledger, title="first", wants_callback=True)
    ledger.clock.advance(1)
    second = awaiting(ledger, title="second", wants_callback=True)
    ledger.clock.set(ledger.row(first).deadline)
    plan = response.expire(at=None, callback=False, ids=ledger.ids())

    assert 1 == ledger.run(plan)
    ledger.clock.advance(1)
    assert 1 == ledger.run(plan)
    assert [] == answers(ledger, second)
    assert 1 == ledger.expire()
    assert [[K.TIMED_OUT]] * 2 == [answers(ledger, id) for id in (first, second)]


def test_a_sweep_run_again_changes_nothing(ledger):
    """
    With nothing else overdue the second run finds nothing to do.
    """
    awaiting(ledger)
    ledger.clock.advance(900)
    plan = response.expire(at=None, callback=True, ids=ledger.ids())
    ledger.run(plan)
    before = contents(ledger)
    ledger.run(plan)

    assert before == contents(ledger)


@pytest.mark.parametrize(
    ("actor", "operator", "allowed"),
    [("agent-7", False, True), ("agent-8", False, False), ("agent-8", True, True)],
)
def test_only_producer_or_operator_withdraws(ledger, actor, operator, allowed):
    """
    The producing principal, or an operator; anybody else is refused, before anything is said of the
    row.
    """
    id = ledger.accept().id
    if allowed:
        assert P.WITHDRAWN is phase(ledger.withdraw(id, actor, operator=operator))
        return
    with pytest.raises(Forbidden):
        ledger.withdraw(id, actor, operator=operator)

    assert P.LEADING is phase(ledger.row(id))


def test_withdrawing_nothing(ledger):
    """
    There is no such notification.
    """
    with pytest.raises(NotFound):
        ledger.withdraw(UNKNOWN)


@pytest.mark.parametrize("delivered", [True, False])
def test_withdrawing_through_another_row_names_the_owner(ledger, delivered):
    """
    Only through the canonical owner.
    """
    owner, other = ledger.accept().id, ledger.accept().id
    if delivered:
        ledger.deliver(owner)
    with pytest.raises(Conflict) as refused:
        ledger.withdraw(other)

    assert owner == refused.value.obligation_owner_id


def test_a_withdrawn_owner_takes_its_followers_along(ledger):
    """
    A pending owner ends with all that wait behind it: nothing is handed off, nothing is sent, and
    all of them resolve to it.
    """
    owner, *followers = (ledger.accept().id for _ in range(3))
    ledger.withdraw(owner)

    assert P.WITHDRAWN is phase(ledger.row(owner))
    assert [P.FAILED_WITH_OWNER] * 2 == [phase(ledger.row(id)) for id in followers]
    assert {owner} == {ledger.lineage(id).owner.id for id in (owner, *followers)}
    assert {"withdrawn with its owner"} == {ledger.row(id).outcome.error_message for id in followers}
    assert () == ledger.claim_due(9)


def test_a_withdrawn_key_is_free_again(ledger):
    """
    What is accepted after a withdrawal leads, and the withdrawn row hands nothing to it.
    """
    owner = ledger.accept().id
    ledger.withdraw(owner)
    row = ledger.accept()

    assert (P.LEADING, 2) == (phase(row), row.dedup_generation)
    assert None is ledger.row(owner).dedup_successor_id


def test_withdrawing_what_awaits_an_answer(ledger):
    """
    It is DISMISSED by who withdrew it; a human's late answer is refused.
    """
    id = awaiting(ledger)
    row = ledger.withdraw(id)

    assert (Ack.DISMISSED, "agent-7", Status.DELIVERED) == (row.ack_status, row.actor, row.status)
    assert [K.DISMISSED, K.WITHDRAWN] == ledger.kinds(id)[-2:]
    with pytest.raises(Conflict):
        ledger.respond(id, "ann", Ack.DISMISSED)


@pytest.mark.parametrize("delivered", [True, False])
def test_a_second_withdrawing_gives_the_first_answer(ledger, delivered):
    """
    Nothing is written the second time, and run again the plan is the same withdrawal.
    """
    id = awaiting(ledger) if delivered else ledger.accept().id
    plan = response.withdraw(id, actor="agent-7", operator=False, callback=False, ids=ledger.ids())
    first, before = ledger.run(plan), contents(ledger)

    assert first == ledger.run(plan) == ledger.withdraw(id, "ops", operator=True)
    assert before == contents(ledger)


def test_a_withdrawal_is_called_back_like_an_answer(ledger):
    """
    A dismissal by withdrawing has its one callback event.
    """
    id = awaiting(ledger, wants_callback=True)
    ledger.withdraw(id)

    assert [True] == [e.callback_pending for e in ledger.events(id) if e.kind in ANSWERS]


def test_the_answer_of_a_partly_delivered_owner():
    """
    Under ``all`` a human who has one copy may answer while the other channel is still tried.
    """
    ledger = Ledger(
        a_policy(require_ack=True, channels=ChannelPlan(primary=("SLACK", "EMAIL"), require="all"))
    )
    id = ledger.accept().id
    ledger.attempt(id, SLACK=True, EMAIL=False)
    row = ledger.respond(id)

    assert (P.ANSWERED, ("SLACK",)) == (phase(row), row.outcome.channels_succeeded)


def test_the_owner_is_named_to_other_principals_too(ledger):
    """
    Answering is not the producer's: the owner may be another principal's row of the same line.
    """
    id = ledger.run(intake.accept(an_acceptance(principal="agent-9"), ledger.resolver)).accepted.row.id
    ledger.deliver(id)

    assert "ann" == ledger.respond(id).actor
