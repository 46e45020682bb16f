from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import UUID

import pytest

from kit.policies import a_document, a_policy
from uns.adapters.memory.store import MemoryStore
from uns.adapters.policy_files import packaged_policies
from uns.adapters.sources import ManualClock, new_id
from uns.core.plans.intake import accept
from uns.core.plans.policies import activate, active_snapshot, bootstrap
from uns.core.rules.accept import Acceptance
from uns.core.rules.activation import TRAFFIC_SECONDS
from uns.core.rules.policy import Resolver
from uns.ports.errors import Conflict, NoPolicy, Rejected
from uns.ports.policy import PolicyRecord, PolicyRevision
from uns.ports.requests import AutonomyContextRequest, SendNotificationRequest
from uns.ports.sources import Ids
from uns.ports.store import Plan
from uns.ports.vocabulary import AutonomyMode, NotificationIntent, PolicyStatus

PACKAGED = packaged_policies()
UNDERLAY_IDS = ("packaged-chain", "packaged-governance", "packaged-schedule", "packaged-uns")
KEYS = count()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def signals():
    return []


@pytest.fixture
def store(clock, signals):
    return MemoryStore(clock, publish=signals.extend)


def reload(store, *documents, channels=(), actor="ann", allow_gaps=False):
    plan = activate(documents, packaged=PACKAGED, actor=actor, known_channels=channels, allow_gaps=allow_gaps)
    return store.transact(plan)


def send(store, notification_type, source="app"):
    request = SendNotificationRequest(
        notification_type=notification_type,
        intent=NotificationIntent.OPERATIONAL,
        title="t",
        message="m",
        source=source,
        autonomy_context=AutonomyContextRequest(autonomy_mode=AutonomyMode.LIVE, agent_id=UUID(int=1)),
    )
    key = str(next(KEYS))
    acceptance = Acceptance(
        id=new_id(),
        ids=Ids(new_id()),
        request=request,
        principal="p",
        key=key,
        fingerprint=key,
        dedup_key=key,
    )
    return store.transact(accept(acceptance, Resolver())).accepted.row


def snapshot(store):
    return store.read(active_snapshot(Resolver()))


def test_without_policies_the_snapshot_is_empty(store):
    """
    A database that nobody set up has a snapshot of revision 0 that covers nothing.
    """
    assert (snapshot(store).revision, snapshot(store).policies) == (0, ())
    with pytest.raises(NoPolicy):
        send(store, "a.b")


def test_a_new_database_starts_with_the_packaged_policies(store, signals):
    """
    Bootstrapping puts the two defaults and the under-layer in force as revision 1, by uns itself.
    """
    reply = store.transact(bootstrap(PACKAGED))

    assert (reply.revision, reply.changed) == (1, True)
    assert reply.policies == ("default", "default-ask", *UNDERLAY_IDS)
    assert (snapshot(store).revision, snapshot(store).hash) == (1, reply.snapshot_hash)
    assert store.tables[PolicyRevision]["default@1"].created_by == "uns"
    assert [signal.subject for signal in signals] == ["1"]
    assert send(store, "a.b").policy_id == "default"
    assert send(store, "ask.deploy").policy_id == "default-ask"
    assert send(store, "governance.approval").effective.require_ack is True


def test_a_database_with_policies_is_left_as_it_is(store, signals):
    """
    A later start with the operator's policies in force changes nothing and signals nothing.
    """
    reload(store, a_document("mine"))
    signals.clear()

    assert store.transact(bootstrap(PACKAGED)) is None
    assert snapshot(store).revision == 1
    assert signals == []


def test_eight_starts_at_once_bootstrap_once(store):
    """
    Of any number of processes that start on a new database one writes, and the others find it.
    """
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: store.transact(bootstrap(PACKAGED)), range(8)))

    assert sorted(reply is None for reply in replies) == [False] + [True] * 7
    assert snapshot(store).revision == 1


def test_a_reload_takes_the_place_of_everything_but_the_under_layer(store):
    """
    What the folder does not hold is RETIRED in the one new revision, the packaged defaults included.
    """
    store.transact(bootstrap(PACKAGED))

    reply = reload(store, a_document("mine", "*"))

    assert (reply.revision, reply.activated, reply.retired) == (2, ("mine",), ("default", "default-ask"))
    assert reply.policies == ("mine", *UNDERLAY_IDS)
    assert store.tables[PolicyRecord]["default"].status is PolicyStatus.RETIRED
    assert send(store, "ask.deploy").policy_id == "mine"
    assert send(store, "uns.alert").policy_id == "packaged-uns"


def test_a_reload_is_a_no_op_the_second_time(store, signals):
    """
    Equal content keeps the revision, also when the answer to the first COMMIT was lost.
    """
    store.transact(bootstrap(PACKAGED))
    plan = activate([a_document("mine")], packaged=PACKAGED, actor="ann", known_channels=())
    first = store.transact(plan)
    signals.clear()

    again = store.transact(plan)

    assert (first.changed, again.changed) == (True, False)
    assert (again.revision, again.snapshot_hash) == (first.revision, first.snapshot_hash)
    assert signals == []


def test_what_was_retired_returns_with_its_history(store):
    """
    Going back and forth between two sets leaves a line for every move.
    """
    store.transact(bootstrap(PACKAGED))
    reload(store, a_document("mine"))
    own = [document for document in PACKAGED if document.policy.policy_id == "default"]

    reply = reload(store, *own)

    assert (reply.activated, reply.retired) == (("default",), ("mine",))
    lines = store.tables[PolicyRevision]
    assert [lines[f"default@{n}"].status for n in (1, 2, 3)] == [
        PolicyStatus.RETIRED,
        PolicyStatus.RETIRED,
        PolicyStatus.ACTIVE,
    ]


def test_a_wrong_set_is_refused_before_any_transaction():
    """
    What does not depend on the database is judged without it: there is no plan to run.
    """
    with pytest.raises(Rejected, match="names FAX"):
        activate([a_document(primary=("FAX",))], packaged=PACKAGED, actor="ann", known_channels=())


def test_a_registered_channel_is_known(store):
    """
    The host's adapters count as channels, each process for itself.
    """
    assert reload(store, a_document(primary=("FAX",)), channels=("FAX",)).changed is True


def test_a_refused_reload_leaves_everything_in_force(store, signals):
    """
    After a conflict the old set stands, and the next acceptance goes by it.
    """
    store.transact(bootstrap(PACKAGED))
    send(store, "a.b")
    signals.clear()

    with pytest.raises(Conflict, match=r"a\.b from app") as conflict:
        reload(store, a_document("mine", "x.*"))

    assert conflict.value.code == "policy_gap"
    assert snapshot(store).revision == 1
    assert signals == []
    assert send(store, "a.b").policy_id == "default"


def test_a_gap_may_be_allowed(store):
    """
    With ``allow_gaps`` a type in use loses its policy, and is refused from then on.
    """
    store.transact(bootstrap(PACKAGED))
    send(store, "a.b")

    assert reload(store, a_document("mine", "x.*"), allow_gaps=True).changed is True
    with pytest.raises(NoPolicy):
        send(store, "a.b")


@pytest.mark.parametrize(("late", "gap"), [(-1.0, True), (0.0, True), (1.0, False)])
def test_traffic_counts_for_thirty_days(store, clock, late, gap):
    """
    A type last seen thirty days ago is still in use; a second later it is not.
    """
    store.transact(bootstrap(PACKAGED))
    send(store, "a.b")
    clock.advance(TRAFFIC_SECONDS + late)

    if gap:
        with pytest.raises(Conflict):
            reload(store, a_document("mine", "x.*"))
    else:
        assert reload(store, a_document("mine", "x.*")).changed is True


def test_the_service_s_own_traffic_never_makes_a_gap(store):
    """
    What only the service sends is covered by the under-layer, whatever the folder holds.
    """
    store.transact(bootstrap(PACKAGED))
    send(store, "uns.alert", source="uns")

    assert reload(store, a_document("mine", "x.*")).changed is True


def test_two_reloads_at_once_both_count(store):
    """
    Reloads are serial: each gets a revision of its own, and the last one stands.
    """
    store.transact(bootstrap(PACKAGED))
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda n: reload(store, a_document(f"p{n}")), range(4)))

    assert sorted(reply.revision for reply in replies) == [2, 3, 4, 5]
    last = max(replies, key=lambda reply: reply.revision)
    assert snapshot(store).hash == last.snapshot_hash
    in_force = [r.policy_id for r in store.tables[PolicyRecord].values() if r.status is PolicyStatus.ACTIVE]
    assert sorted(in_force) == sorted(last.policies)


def test_a_plan_takes_the_authority_for_itself():
    """
    Plans that write policies ask for the authority exclusively; those that read share it.
    """
    assert bootstrap(PACKAGED).wants.activates
    assert activate([a_document()], packaged=PACKAGED, actor="ann", known_channels=()).wants.activates
    reading = active_snapshot(Resolver())
    assert isinstance(reading, Plan)
    assert not reading.wants.activates


def test_the_snapshot_holds_the_documents(store):
    """
    What is read back is what was loaded.
    """
    reload(store, a_document("mine", require_ack=True))

    assert a_policy("mine", require_ack=True) in snapshot(store).policies
