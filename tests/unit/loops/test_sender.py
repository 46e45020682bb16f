"""
Accepting and sending at once: ``send`` returns after its one attempt has settled, never after a
backoff; followers, duplicates and replays return at once.
"""

import pytest

from kit.builders import NOW, a_policy, a_request, put_in_force
from kit.channels import ScriptedChannel, SlowChannel
from kit.commits import Crash, HookedCommits, InlineCommits, LossyCommits, MortalCommits
from kit.ledger import Ledger, paced, refused
from kit.process import a_dispatcher, a_sender, sources
from kit.virtual_time import in_virtual_time
from uns.core.loops.insist import Insistent
from uns.core.loops.sender import Intake
from uns.core.rules.digest import content_dedup_key, fingerprint, idempotency_digest
from uns.core.rules.lifecycle import Phase, phase
from uns.ports.channel import ChannelResult
from uns.ports.errors import Conflict, NoPolicy, Rejected, StoreUnavailable
from uns.ports.policy import ChannelPlan
from uns.ports.rows import Notification
from uns.ports.vocabulary import EventKind, Status

P, K = Phase, EventKind
FAIL = ChannelResult(False, error="no")


@pytest.fixture
def ledger():
    return Ledger()


async def sent(ledger, commits=None, principal="agent-7", channel=None, **fields):
    sender = a_sender(ledger, commits, SLACK=channel or ScriptedChannel())
    return await sender.send(a_request(**fields), principal)


@in_virtual_time
async def test_a_request_is_delivered_in_two_transactions(ledger):
    """
    Acceptance with claim and start, then the outcome; the reply is the settled row.
    """
    commits = MortalCommits(ledger.store, 0, after=False)
    done = await sent(ledger, commits)

    assert (2, False) == (commits.commits, done.replayed)
    assert (Status.DELIVERED, done.row) == (done.row.status, ledger.row(done.row.id))
    assert [
        K.ACCEPTED,
        K.ATTEMPT_STARTED,
        K.CHANNEL_ATTEMPT_STARTED,
        K.CHANNEL_ATTEMPT_RESULT,
        K.DELIVERY_RESULT,
    ] == ledger.kinds(done.row.id)


@in_virtual_time
async def test_what_is_accepted_is_told_though_its_first_attempt_is_not_settled(ledger, caplog):
    """
    Given a store that no longer answers once the request is accepted, then the caller has its id,
    the log says so, and a worker goes on once the lease has lapsed.
    """
    done = await sent(ledger, MortalAnswers(ledger.store))

    assert (Status.PENDING, False) == (done.row.status, done.replayed)
    assert f"the first attempt of {done.row.id} was not settled" in caplog.text
    ledger.clock.advance(60)
    assert [done.row.id] == [claim.id for claim in ledger.claim_due(9)]


class MortalAnswers(InlineCommits):
    """
    Commits of a store that takes one plan, and then none.
    """

    def __init__(self, store):
        super().__init__(store)
        self._taken = False

    async def run(self, plan):
        if self._taken:
            raise StoreUnavailable
        self._taken = True
        return await super().run(plan)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (True, P.DELIVERED),
        (FAIL, P.LEADING),
        (paced(), P.LEADING),
        (refused(), P.DEAD_LETTER),
        (KeyError("x"), P.LEADING),
    ],
)
@in_virtual_time
async def test_sending_returns_after_one_attempt(ledger, result, expected):
    """
    Whatever it came to: what failed is a worker's to try again.
    """
    channel = ScriptedChannel(result)
    done = await sent(ledger, channel=channel)

    assert (expected, 1, NOW) == (phase(done.row), len(channel.calls), ledger.clock.now())
    assert done.row == ledger.row(done.row.id)


@in_virtual_time
async def test_sending_takes_as_long_as_its_channel(ledger):
    """
    The attempt is awaited up to its limit, and not beyond.
    """
    done = await sent(ledger, channel=SlowChannel(100.0, stubborn=True))

    assert (NOW + 10, P.LEADING) == (ledger.clock.now(), phase(done.row))


@in_virtual_time
async def test_a_known_request_returns_at_once(ledger):
    """
    An idempotent replay returns the row as it stands and sends nothing, though it is due.
    """
    waiting = ledger.accept(idempotency_key="k")
    channel = ScriptedChannel()
    done = await sent(ledger, channel=channel, idempotency_key="k")

    assert (waiting, True, []) == (done.row, done.replayed, channel.calls)


@pytest.mark.parametrize(("delivered", "expected"), [(False, P.FOLLOWING), (True, P.DEDUPLICATED)])
@in_virtual_time
async def test_what_is_coalesced_returns_at_once(ledger, delivered, expected):
    """
    A follower waits for its owner's delivery, a duplicate has it: neither is sent.
    """
    owner = ledger.accept()
    if delivered:
        ledger.deliver(owner.id)
    channel = ScriptedChannel()
    done = await sent(ledger, channel=channel)

    assert (expected, False, []) == (phase(done.row), done.replayed, channel.calls)


@in_virtual_time
async def test_without_the_adapter_a_request_is_left_to_others(ledger):
    """
    It is accepted all the same.
    """
    done = await a_sender(ledger, LOG=ScriptedChannel()).send(a_request(), "agent-7")

    assert (P.LEADING, 0) == (phase(done.row), done.row.attempts)


@in_virtual_time
async def test_a_lease_lost_on_the_way_returns_what_was_accepted(ledger):
    """
    Given a settlement that came too late, then the reply is the accepted row; others end it.
    """
    commits = HookedCommits(ledger.store, 2, lambda: ledger.clock.advance(60))
    done = await sent(ledger, commits)

    assert (Status.PENDING, K.LEASE_LOST) == (done.row.status, ledger.kinds(done.row.id)[-1])


@in_virtual_time
async def test_fallbacks_are_part_of_the_attempt():
    """
    One attempt is primaries and fallbacks.
    """
    ledger = Ledger(a_policy(channels=ChannelPlan(primary=("SLACK",), fallback=("EMAIL",))))
    sender = a_sender(ledger, SLACK=ScriptedChannel(FAIL), EMAIL=ScriptedChannel())
    done = await sender.send(a_request(), "agent-7")

    assert (Status.DELIVERED, ("EMAIL",)) == (done.row.status, done.row.outcome.channels_succeeded)


@pytest.mark.parametrize(
    ("fields", "principal", "path"),
    [
        ({}, "", "principal"),
        ({}, "a\nb", "principal"),
        ({}, "x" * 256, "principal"),
        ({"notification_type": "uns.alert"}, "agent-7", "notification_type"),
        ({"notification_type": "governance.approval"}, "agent-7", "notification_type"),
        ({"metadata": {"slack_channel": "#c"}}, "agent-7", "metadata.slack_channel"),
        ({"require_ack": True}, "agent-7", "require_ack"),
    ],
)
@in_virtual_time
async def test_a_refused_request_is_neither_stored_nor_sent(ledger, fields, principal, path):
    """
    The refusal names the field; no row, no call.
    """
    channel = ScriptedChannel()
    with pytest.raises(Rejected) as refused_:
        await sent(ledger, principal=principal, channel=channel, **fields)

    assert (path, {}, []) == (refused_.value.path, ledger.rows(), channel.calls)


@in_virtual_time
async def test_conflicts_and_missing_policies_are_raised(ledger):
    """
    What the ledger refuses the sender raises.
    """
    await sent(ledger, idempotency_key="k")
    with pytest.raises(Conflict):
        await sent(ledger, idempotency_key="k", title="another")
    put_in_force(ledger.store, a_policy(notification_type="other.*"))
    with pytest.raises(NoPolicy):
        await sent(ledger)


@pytest.mark.parametrize("at", [1, 2])
@in_virtual_time
async def test_a_lost_answer_is_no_second_request(ledger, at):
    """
    Given that the answer to either commit is lost, then the same plan is run again: one row, one
    call, and no replay.
    """
    channel = ScriptedChannel()
    done = await sent(ledger, Insistent(LossyCommits(ledger.store, at)), channel=channel)

    assert (Status.DELIVERED, False) == (done.row.status, done.replayed)
    assert (1, 1) == (len(ledger.rows()), len(channel.calls))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", [1, 2])
@in_virtual_time
async def test_what_was_accepted_survives_a_crash(ledger, dies_at, after):
    """
    Given a crash before or after either commit, then what was accepted is delivered by another
    process once the lease has run out, and what was not has left nothing.
    """
    channel = ScriptedChannel()
    with pytest.raises(Crash):
        await sent(ledger, MortalCommits(ledger.store, dies_at, after=after), channel=channel)
    ledger.clock.advance(60)
    for id in ledger.rows():
        await a_dispatcher(ledger, SLACK=channel).dispatch(id)

    accepted = (dies_at, after) != (1, False)
    assert [Status.DELIVERED] * accepted == [row.status for row in ledger.rows().values()]
    assert len(channel.calls) <= 2


@pytest.mark.parametrize("wants", [True, False])
@in_virtual_time
async def test_whether_a_callback_is_wanted_is_the_processs(ledger, wants):
    """
    A process with a callback stores that with every row it accepts.
    """
    sender = a_sender(ledger, wants_callback=wants, SLACK=ScriptedChannel())
    done = await sender.send(a_request(), "agent-7")

    assert wants is done.row.wants_callback


def an_intake(ledger):
    return Intake(ledger.resolver, sources(ledger), wants_callback=False)


def test_a_request_is_digested_by_its_door(ledger):
    """
    Key, fingerprint and dedup key are those of principal, source and content.
    """
    request = a_request(idempotency_key="k")
    ready = an_intake(ledger).ready(request, "agent-7")

    assert idempotency_digest("agent-7", "pay", "k") == ready.key
    assert (fingerprint(request), content_dedup_key(request)) == (ready.fingerprint, ready.dedup_key)
    assert "disk" == an_intake(ledger).ready(a_request(dedup_key="disk"), "agent-7").dedup_key


def test_without_a_key_a_fresh_id_stands_in(ledger):
    """
    Such a request is never a replay of another; ids are drawn anew for each.
    """
    intake = an_intake(ledger)
    first, second = (intake.ready(a_request(), "agent-7") for _ in range(2))

    assert first.key != second.key
    assert first.id != second.id
    assert first.ids.nth(0) != second.ids.nth(0)


def test_accepting_leaves_dispatch_to_a_worker(ledger):
    """
    The plan of an accept claims nothing, and wakes a worker.
    """
    ledger.signals.clear()
    taken = ledger.run(an_intake(ledger).accept(a_request(), "agent-7"))

    assert (None, P.LEADING) == (taken.claim, phase(taken.accepted.row))
    assert 1 == len(ledger.signals)
    assert [taken.accepted.row] == list(ledger.table(Notification).values())
