import json
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.policies import a_document, a_policy
from uns.core.rules.activation import Standing, Terms, activate, compose
from uns.core.rules.matching import covering
from uns.core.rules.policy import content_hash, content_of, snapshot_of
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import Conflict, Rejected
from uns.ports.policy import (
    AUTHORITY,
    Match,
    Overlay,
    Policy,
    PolicyAuthority,
    PolicyContent,
    PolicyRecord,
    PolicyRevision,
    SnapshotRecord,
)
from uns.ports.vocabulary import AutonomyMode, PolicyStatus

NOW = 1_800_000_000.0
TERMS = Terms(actor="ann")
UNDERLAY = (a_document("packaged-uns", "uns.*"),)
ACTIVE, PREVIEW, DRAFT, RETIRED = (
    PolicyStatus.ACTIVE,
    PolicyStatus.PREVIEW,
    PolicyStatus.DRAFT,
    PolicyStatus.RETIRED,
)


def a_set(*documents):
    return compose(documents, UNDERLAY, ())


class World:
    """
    What a database would hold after each reload: the decisions, applied to dictionaries.
    """

    def __init__(self):
        self.rows = {
            PolicyAuthority: {},
            SnapshotRecord: {},
            PolicyContent: {},
            PolicyRecord: {},
            PolicyRevision: {},
        }

    def reload(self, *documents, now=NOW, terms=TERMS, traffic=()):
        new = a_set(*documents)
        decision = activate(new, self.standing(new, traffic), terms, now)
        for change in decision.changes:
            key, rows = self._key(change.after), self.rows[type(change.after)]
            assert rows.get(key) == change.before
            rows[key] = change.after
        return decision

    def standing(self, new, traffic=()):
        authority = self.rows[PolicyAuthority].get(AUTHORITY)
        ids = set(new.ids)
        if authority is not None:
            ids.update(p["policy_id"] for p in json.loads(self.snapshot.content))
        records = {id: record for id, record in self.records.items() if id in ids}
        return Standing(
            authority=authority,
            records=records,
            lines={id: self.lines[f"{id}@{record.revision}"] for id, record in records.items()},
            contents=set(self.rows[PolicyContent]),
            snapshots=set(self.rows[SnapshotRecord]),
            traffic=traffic,
        )

    @property
    def authority(self):
        return self.rows[PolicyAuthority][AUTHORITY]

    @property
    def snapshot(self):
        return self.rows[SnapshotRecord][self.authority.snapshot_hash]

    @property
    def records(self):
        return self.rows[PolicyRecord]

    @property
    def lines(self):
        return self.rows[PolicyRevision]

    def _key(self, row):
        match row:
            case PolicyAuthority() | PolicyRevision():
                return row.id
            case PolicyRecord():
                return row.policy_id
            case _:
                return row.hash


def test_an_empty_set_is_refused():
    """
    A folder without policies would refuse every notification, so it is refused itself.
    """
    with pytest.raises(Rejected, match="there is no policy here"):
        a_set()


def test_a_wrong_document_is_refused_whatever_stands_beside_it():
    """
    One fault in one file refuses the set, and is told with that file.
    """
    with pytest.raises(Rejected, match=r"^b\.yaml: channels\.primary\.0 names FAX"):
        a_set(a_document("a", file="a.yaml"), a_document("b", "b", primary=("FAX",), file="b.yaml"))


def test_a_registered_channel_may_be_named():
    """
    A channel is known if this process has an adapter for it, built in or registered.
    """
    assert compose([a_document(primary=("FAX",))], (), {"FAX"}).ids == ("ops",)


def test_two_files_may_not_have_one_policy_id():
    """
    The second file of an id is refused and names the first.
    """
    with pytest.raises(Rejected, match=r"^b\.yaml: policy_id is ops, as in a\.yaml already") as refusal:
        a_set(a_document(file="a.yaml"), a_document(notification_type="x", file="b.yaml"))

    assert refusal.value.path == "policy_id"


def test_the_service_s_own_ids_are_reserved():
    """
    An operator's policy cannot pass for one of the under-layer.
    """
    with pytest.raises(Rejected, match="policy_id must not begin with packaged-"):
        a_set(a_document("packaged-uns", "uns.*"))


@pytest.mark.parametrize(
    ("one", "other", "whose"),
    [
        (None, None, "without match"),
        (("pay",), ("pay",), "from pay"),
        (("pay", "pay-*"), ("x", "pay-*"), r"from pay-\*"),
    ],
)
def test_two_active_policies_of_one_type_and_match_are_refused(one, other, whose):
    """
    Where no rule says which of two ACTIVE policies would win, the set is refused.
    """
    first = a_document("a", "x.*", file="a.yaml", match=one and Match(source=one))
    second = a_document("b", "x.*", file="b.yaml", match=other and Match(source=other))

    with pytest.raises(Rejected, match=rf"^b\.yaml: notification_type is x\.\* {whose}, as in a\.yaml"):
        a_set(first, second)


@pytest.mark.parametrize(
    "second",
    [
        a_document("b", "x.y"),
        a_document("b", "x.*", match=Match(source=("pay",))),
        a_document("b", "x.*", status=DRAFT),
        a_document("b", "x.*", status=PREVIEW),
        a_document("b", "x.*", status=RETIRED),
        a_document("b", "uns.*"),
    ],
    ids=["type", "match", "draft", "preview", "retired", "packaged"],
)
def test_policies_that_cannot_tie_stand_together(second):
    """
    Another type, another match, or one that is not in force or is packaged, does no harm.
    """
    assert set(a_set(a_document("a", "x.*"), second).ids) == {"a", "b", "packaged-uns"}


def test_one_source_named_twice_in_one_policy_is_no_rivalry():
    """
    A policy does not compete with itself.
    """
    assert "a" in a_set(a_document("a", match=Match(source=("pay", "pay")))).ids


def test_a_set_is_its_content():
    """
    Order and file names do not matter; the stored text is the list of documents by policy id.
    """
    a, b = a_document("a", "a", file="1.yaml"), a_document("b", "b", file="2.yaml")

    new, same = a_set(a, b), a_set(b, a_document("a", "a", file="elsewhere.yaml"))

    assert new == same
    assert new.ids == ("a", "b", "packaged-uns")
    assert new.hash == sha256(new.content.encode()).hexdigest()
    assert msgspec.json.decode(new.content, type=list[Policy]) == [a.policy, b.policy, UNDERLAY[0].policy]


def test_the_first_reload_writes_everything():
    """
    Into an empty database goes revision 1: contents, snapshot, records, their first lines, and a
    signal that policies changed.
    """
    world = World()

    decision = world.reload(a_document("a"), a_document("d", "x", status=DRAFT))

    reply = decision.reply
    assert (reply.revision, reply.changed) == (1, True)
    assert reply.activated == ("a", "packaged-uns")
    assert reply.retired == ()
    assert reply.policies == ("a", "d", "packaged-uns")
    assert decision.signals == (Signal(SignalKind.POLICIES, "1"),)
    assert world.authority == PolicyAuthority(id=AUTHORITY, revision=1, snapshot_hash=reply.snapshot_hash)
    assert snapshot_of(world.snapshot, 1).policies[0] == a_policy("a")
    digest = content_hash(content_of(a_policy("a")))
    assert world.rows[PolicyContent][digest] == PolicyContent(
        hash=digest, policy_id="a", content=content_of(a_policy("a")), created_at=NOW
    )
    assert world.records["a"] == PolicyRecord(
        policy_id="a",
        notification_type="*",
        status=ACTIVE,
        content_hash=digest,
        revision=1,
        updated_at=NOW,
    )
    assert world.lines["a@1"] == PolicyRevision(
        id="a@1",
        policy_id="a",
        revision=1,
        notification_type="*",
        status=ACTIVE,
        content_hash=digest,
        snapshot_hash=reply.snapshot_hash,
        created_by="ann",
        created_at=NOW,
        activated_at=NOW,
    )
    assert world.lines["d@1"].activated_at is None


def test_equal_content_is_a_no_op():
    """
    The set that is in force already changes nothing, whoever loads it and whatever has traffic.
    """
    world = World()
    first = world.reload(a_document("a", "a", priority="NORMAL")).reply

    again = world.reload(a_document("a", "a"), terms=Terms(actor="bob"), traffic=[("b", "app")])

    assert again.changes == again.signals == ()
    assert again.reply.changed is False
    assert again.reply.activated == again.reply.retired == ()
    assert (again.reply.revision, again.reply.snapshot_hash) == (1, first.snapshot_hash)
    assert again.reply.policies == first.policies


def test_what_is_not_in_the_set_becomes_retired():
    """
    A policy that vanished is RETIRED in the one new revision, with who and when; its line ends.
    """
    world = World()
    world.reload(a_document("a"), a_document("b", "b"))

    reply = world.reload(a_document("a"), now=NOW + 5, terms=Terms(actor="bob")).reply

    assert (reply.revision, reply.activated, reply.retired) == (2, (), ("b",))
    assert reply.policies == ("a", "packaged-uns")
    assert (world.records["b"].status, world.records["b"].revision) == (RETIRED, 2)
    assert (world.lines["b@1"].status, world.lines["b@1"].retired_at) == (RETIRED, NOW + 5)
    assert (world.lines["b@1"].activated_at, world.lines["b@1"].created_by) == (NOW, "ann")
    retired = world.lines["b@2"]
    assert (retired.status, retired.created_by, retired.retired_at) == (RETIRED, "bob", NOW + 5)
    assert world.records["a"].revision == 1
    assert "a@2" not in world.lines


def test_an_altered_policy_gets_a_new_line():
    """
    The old line of an altered policy ends as the new one begins; the old content is kept.
    """
    world = World()
    world.reload(a_document("a"))

    reply = world.reload(a_document("a", require_ack=True), now=NOW + 5).reply

    assert (reply.activated, reply.retired) == (("a",), ())
    assert (world.lines["a@1"].status, world.lines["a@1"].retired_at) == (RETIRED, NOW + 5)
    assert (world.lines["a@2"].status, world.lines["a@2"].activated_at) == (ACTIVE, NOW + 5)
    assert world.records["a"].revision == 2
    assert {row.policy_id for row in world.rows[PolicyContent].values()} == {"a", "packaged-uns"}
    assert len(world.rows[PolicyContent]) == 3


def test_what_was_retired_may_return():
    """
    Going back to an earlier set stores no content twice and puts the old policies in force again.
    """
    world = World()
    world.reload(a_document("a"), a_document("b", "b"))
    world.reload(a_document("a"))

    decision = world.reload(a_document("a"), a_document("b", "b"), now=NOW + 9)

    assert (decision.reply.revision, decision.reply.activated) == (3, ("b",))
    assert (world.records["b"].status, world.lines["b@3"].activated_at) == (ACTIVE, NOW + 9)
    assert world.lines["b@2"].retired_at == NOW
    assert not [c for c in decision.changes if isinstance(c.after, PolicyContent | SnapshotRecord)]


def test_a_file_may_retire_a_policy_itself():
    """
    Status RETIRED in the file takes a policy out of force; dropping the file then moves no record.
    """
    world = World()
    world.reload(a_document("a"), a_document("b", "b"))

    told = world.reload(a_document("a"), a_document("b", "b", status=RETIRED)).reply
    dropped = world.reload(a_document("a")).reply

    assert (told.activated, told.retired) == ((), ("b",))
    assert (dropped.changed, dropped.retired, dropped.revision) == (True, (), 3)
    assert world.records["b"].revision == 2


@pytest.mark.parametrize("status", [ACTIVE, PREVIEW])
def test_a_draft_is_not_promoted_by_file(status):
    """
    Between a draft and force stands an approval, which no file replaces.
    """
    world = World()
    world.reload(a_document("a"), a_document("d", "d", status=DRAFT))

    with pytest.raises(Conflict, match=f"policy d is a DRAFT; a file cannot make it {status}") as conflict:
        world.reload(a_document("a"), a_document("d", "d", status=status))

    assert conflict.value.code == "policy_promotion_conflict"
    assert world.authority.revision == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DRAFT, DRAFT),
        (DRAFT, RETIRED),
        *((before, after) for before in (ACTIVE, PREVIEW, RETIRED) for after in PolicyStatus),
    ],
)
def test_every_other_move_by_file_is_free(before, after):
    """
    Of all moves only those out of DRAFT into force are kept from files.
    """
    world = World()
    world.reload(a_document("a"), a_document("p", "p", status=before))

    world.reload(a_document("a"), a_document("p", "p", status=after, links=False))

    assert world.records["p"].status is after


def test_a_draft_by_proposal_is_left_alone():
    """
    A draft that no file ever held is not retired for being in none; one from a file is.
    """
    world = World()
    world.reload(a_document("a"), a_document("d", "d", status=DRAFT))
    standing = world.standing(a_set(a_document("a")))
    proposed = msgspec.structs.replace(standing.lines["d"], delta_id="delta-1")
    of_proposal = msgspec.structs.replace(standing, lines={**standing.lines, "d": proposed})

    assert activate(a_set(a_document("a")), standing, TERMS, NOW).reply.retired == ("d",)
    assert activate(a_set(a_document("a")), of_proposal, TERMS, NOW).reply.retired == ()


TRAFFIC = [("b.x", "app"), ("a.x", "pay"), ("a.x", "app"), ("uns.alert", "uns")]


def test_a_gap_is_refused_with_the_types_named():
    """
    A type in use that the new set would not cover is a conflict, told with its sources in order.
    """
    world = World()
    world.reload(a_document("a"))

    with pytest.raises(Conflict, match=r"a\.x from app, b\.x from app$") as conflict:
        world.reload(a_document("a", "a.*", match=Match(source=("pay",))), traffic=TRAFFIC)

    assert conflict.value.code == "policy_gap"
    assert world.authority.revision == 1


def test_a_gap_may_be_allowed():
    """
    Whoever says so may leave types in use without a policy.
    """
    world = World()
    world.reload(a_document("a"))

    reply = world.reload(
        a_document("a", "a"), terms=Terms(actor="ann", allow_gaps=True), traffic=TRAFFIC
    ).reply

    assert reply.changed is True


def test_only_active_policies_close_a_gap():
    """
    A PREVIEW of the type covers nothing.
    """
    world = World()
    world.reload(a_document("a"))

    with pytest.raises(Conflict, match=r"b\.x from app$"):
        world.reload(a_document("a", "a.*"), a_document("b", "b.*", status=PREVIEW), traffic=TRAFFIC)


def test_a_long_list_of_gaps_is_cut():
    """
    Twenty gaps are named and the rest counted.
    """
    world = World()
    world.reload(a_document("a"))
    traffic = [(f"t{n:02}", "app") for n in range(23)]

    with pytest.raises(Conflict, match=r"t00 from app, .*t19 from app and 3 more$"):
        world.reload(a_document("a", "x"), traffic=traffic)


def test_the_under_layer_covers_its_types_under_any_set():
    """
    An operator's * does not reach the service's own types; an exact type, a longer prefix or the
    very same pattern does.
    """

    def winner(document):
        policies = [entry.policy for entry in a_set(document).entries]
        return covering(policies, "uns.worker.down", "uns").policy_id

    assert winner(a_document("any", "*")) == "packaged-uns"
    assert winner(a_document("same", "uns.*")) == "same"
    assert winner(a_document("longer", "uns.worker.*")) == "longer"
    assert winner(a_document("exact", "uns.worker.down")) == "exact"


DOCUMENTS = st.builds(
    lambda id, kind, status, ack: a_document(id, kind, status=status, require_ack=ack),
    st.sampled_from("abc"),
    st.sampled_from(["x", "y", "*"]),
    st.sampled_from([ACTIVE, PREVIEW, RETIRED]),
    st.booleans(),
)


@given(
    st.lists(st.lists(DOCUMENTS, min_size=1, max_size=3, unique_by=lambda d: d.policy.policy_id), max_size=6)
)
def test_after_any_reloads_records_lines_and_snapshot_agree(folders):
    """
    Through any sequence of reloads every record is told by the line it names, every line's content
    is stored, exactly one line of a policy that is not RETIRED stands, and the records in force are
    those of the snapshot.
    """
    world, revision = World(), 0
    for n, folder in enumerate(folders):
        try:
            decision = world.reload(*folder, now=NOW + n)
        except Rejected:  # two ACTIVE of one type: not a set
            continue
        revision += decision.reply.changed
        assert world.authority.revision == revision
        in_set = {p.policy_id: p for p in snapshot_of(world.snapshot, revision).policies}
        assert set(decision.reply.policies) == set(in_set)
        for id, record in world.records.items():
            line = world.lines[f"{id}@{record.revision}"]
            assert (line.status, line.content_hash) == (record.status, record.content_hash)
            assert record.content_hash in world.rows[PolicyContent]
            standing = [x for x in world.lines.values() if x.policy_id == id and x.status is not RETIRED]
            assert len(standing) == (record.status is not RETIRED)
            assert record.status is (in_set[id].status if id in in_set else RETIRED)


def test_every_layer_survives_storage():
    """
    What is resolved later is decoded from the stored text, so overlays must come back whole.
    """
    document = a_document(
        autonomy={AutonomyMode.SHADOW: Overlay(require_ack=False)}, irreversible=Overlay(max_attempts=2)
    )
    world = World()
    world.reload(document)

    assert document.policy in snapshot_of(world.snapshot, 1).policies
