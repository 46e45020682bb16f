"""
What a reload does: a set of documents is judged as a whole, then takes the place of the one in force.

::

    documents ── compose ──> PolicySet ── activate ──> Decision
                 (422)                    (409, or nothing to do)

``compose`` needs no transaction. ``activate`` is handed what the database holds, read under the
policy authority.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uns.core.rules.matching import PACKAGED_PREFIX, covering, is_packaged
from uns.core.rules.policy import content_hash, content_of
from uns.core.rules.policy_document import checked, origin_of
from uns.ports.checks import fault
from uns.ports.decision import Change, Decision, Signal, SignalKind
from uns.ports.documents import PolicyDocument
from uns.ports.errors import Conflict, Rejected
from uns.ports.policy import (
    AUTHORITY,
    Policy,
    PolicyAuthority,
    PolicyContent,
    PolicyRecord,
    PolicyReload,
    PolicyRevision,
    SnapshotRecord,
)
from uns.ports.vocabulary import PolicyStatus

TRAFFIC_SECONDS = 30 * 86_400.0
_NAMED = 20


class Entry(Struct, frozen=True):
    """
    One policy of a set, with its document and the document's digest.
    """

    policy: Policy
    content: str
    hash: str


class PolicySet(Struct, frozen=True, kw_only=True):
    """
    A valid set of policies, the packaged under-layer included, by policy id.
    """

    entries: tuple[Entry, ...]
    content: str
    hash: str

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(entry.policy.policy_id for entry in self.entries)


class Terms(Struct, frozen=True, kw_only=True):
    """
    Who reloads, and whether types in use may be left without a policy.
    """

    actor: str
    allow_gaps: bool = False


class Standing(Struct, frozen=True, kw_only=True):
    """
    What the database holds.

    ``records`` has those of the set in force and of the new one, ``lines`` the revision that each
    record names; ``contents`` and ``snapshots`` are the digests already stored; ``traffic`` the
    (type, source) pairs accepted in the last ``TRAFFIC_SECONDS``.
    """

    authority: PolicyAuthority | None = None
    records: Mapping[str, PolicyRecord] = {}
    lines: Mapping[str, PolicyRevision] = {}
    contents: Collection[str] = ()
    snapshots: Collection[str] = ()
    traffic: Sequence[tuple[str, str]] = ()


def compose(
    documents: Sequence[PolicyDocument], underlay: Sequence[PolicyDocument], registered: Collection[str]
) -> PolicySet:
    """
    Judge the operator's documents alone and together, and lay the packaged ``underlay`` under them.

    Raises:
        Rejected: a document is wrong, or the set is; the message names file, line and key.
    """
    if not documents:
        raise Rejected("there is no policy here: an empty set would refuse every notification")
    own = [checked(document, registered) for document in documents]
    _refuse_reserved(own)
    _refuse_twins(own)
    _refuse_rivals(own)
    laid_under = [checked(document, registered) for document in underlay]
    entries = [_entry(document.policy) for document in (*own, *laid_under)]
    entries.sort(key=lambda entry: entry.policy.policy_id)
    content = f"[{','.join(entry.content for entry in entries)}]"
    return PolicySet(entries=tuple(entries), content=content, hash=content_hash(content))


def activate(new: PolicySet, standing: Standing, terms: Terms, now: float) -> Decision[PolicyReload]:
    """
    Put ``new`` in force; what it leaves out becomes RETIRED in the same revision.

    The set that is in force already is a no-op.

    Raises:
        Conflict: a DRAFT would be promoted by file (``policy_promotion_conflict``), or a type in
            use would be left without a policy (``policy_gap``).
    """
    authority = standing.authority
    if authority is not None and authority.snapshot_hash == new.hash:
        return Decision(_reply(new, authority))
    _refuse_promotions(new, standing)
    if not terms.allow_gaps:
        _refuse_gaps(new, standing.traffic)
    revision = authority.revision + 1 if authority is not None else 1
    named = PolicyAuthority(id=AUTHORITY, revision=revision, snapshot_hash=new.hash)
    moved = tuple(_moved(new, standing, named, now))
    changes = [
        *_contents(new, standing, now),
        *(change for record in moved for change in _history(record, standing, named, terms)),
        Change(authority, named),
    ]
    signal = Signal(SignalKind.POLICIES, str(revision))
    reply = replace(_reply(new, named, moved), changed=True)
    return Decision(reply, tuple(changes), signals=(signal,))


def _refuse_reserved(documents: Sequence[PolicyDocument]) -> None:
    for document in documents:
        if is_packaged(document.policy):
            predicate = f"must not begin with {PACKAGED_PREFIX}: those are the service's own"
            raise origin_of(document).locate(fault("policy_id", predicate))


def _refuse_twins(documents: Sequence[PolicyDocument]) -> None:
    first: dict[str, PolicyDocument] = {}
    for document in documents:
        other = first.setdefault(document.policy.policy_id, document)
        if other is not document:
            refusal = fault(
                "policy_id", f"is {document.policy.policy_id}, as in {origin_of(other).file} already"
            )
            raise origin_of(document).locate(refusal)


def _refuse_rivals(documents: Sequence[PolicyDocument]) -> None:
    """
    No type pattern and source pattern may belong to two ACTIVE policies: which wins must be plain.
    """
    claimed: dict[tuple[str, str | None], PolicyDocument] = {}
    for document in documents:
        policy = document.policy
        if policy.status is not PolicyStatus.ACTIVE:
            continue
        for source in dict.fromkeys(policy.match.source) if policy.match is not None else (None,):
            other = claimed.setdefault((policy.notification_type, source), document)
            if other is not document:
                whose = f"from {source}" if source is not None else "without match"
                told = (
                    f"is {policy.notification_type} {whose}, as in {origin_of(other).file}; both are ACTIVE"
                )
                raise origin_of(document).locate(fault("notification_type", told))


def _refuse_promotions(new: PolicySet, standing: Standing) -> None:
    for entry in new.entries:
        policy, record = entry.policy, standing.records.get(entry.policy.policy_id)
        promoted = policy.status in {PolicyStatus.ACTIVE, PolicyStatus.PREVIEW}
        if promoted and record is not None and record.status is PolicyStatus.DRAFT:
            told = f"policy {policy.policy_id} is a DRAFT; a file cannot make it {policy.status}"
            raise Conflict(told, code="policy_promotion_conflict")


def _refuse_gaps(new: PolicySet, traffic: Sequence[tuple[str, str]]) -> None:
    policies = [entry.policy for entry in new.entries]
    gaps = sorted(pair for pair in traffic if covering(policies, *pair) is None)
    if gaps:
        named = ", ".join(f"{kind} from {source}" for kind, source in gaps[:_NAMED])
        more = f" and {len(gaps) - _NAMED} more" if len(gaps) > _NAMED else ""
        told = f"no ACTIVE policy would cover what was sent in the last 30 days: {named}{more}"
        raise Conflict(told, code="policy_gap")


def _contents(new: PolicySet, standing: Standing, now: float) -> Iterator[Change]:
    if new.hash not in standing.snapshots:
        yield Change(None, SnapshotRecord(hash=new.hash, content=new.content, created_at=now))
    for entry in new.entries:
        if entry.hash not in standing.contents:
            policy_id = entry.policy.policy_id
            document = PolicyContent(
                hash=entry.hash, policy_id=policy_id, content=entry.content, created_at=now
            )
            yield Change(None, document)


def _moved(new: PolicySet, standing: Standing, named: PolicyAuthority, now: float) -> Iterator[PolicyRecord]:
    """
    The records that this revision alters, as they will be.
    """
    for entry in new.entries:
        policy = entry.policy
        record = PolicyRecord(
            policy_id=policy.policy_id,
            notification_type=policy.notification_type,
            status=policy.status,
            content_hash=entry.hash,
            revision=named.revision,
            updated_at=now,
        )
        before = standing.records.get(policy.policy_id)
        if before is None or (before.content_hash, before.status) != (record.content_hash, record.status):
            yield record
    for policy_id in sorted(set(standing.records) - set(new.ids)):
        before = standing.records[policy_id]
        if before.status is not PolicyStatus.RETIRED and not _proposed(before, standing):
            yield replace(before, status=PolicyStatus.RETIRED, revision=named.revision, updated_at=now)


def _proposed(record: PolicyRecord, standing: Standing) -> bool:
    """
    Whether a record is a draft that a proposal made: no file ever held it, so none can drop it.
    """
    line = standing.lines.get(record.policy_id)
    return record.status is PolicyStatus.DRAFT and line is not None and line.delta_id is not None


def _history(
    record: PolicyRecord, standing: Standing, named: PolicyAuthority, terms: Terms
) -> Iterator[Change]:
    """
    End the line that the policy's present record names, and begin a new one.
    """
    now, policy_id = record.updated_at, record.policy_id
    line = standing.lines.get(policy_id)
    if line is not None and line.status is not PolicyStatus.RETIRED:
        yield Change(line, replace(line, status=PolicyStatus.RETIRED, retired_at=now))
    begun = PolicyRevision(
        id=f"{policy_id}@{named.revision}",
        policy_id=policy_id,
        revision=named.revision,
        notification_type=record.notification_type,
        status=record.status,
        content_hash=record.content_hash,
        snapshot_hash=named.snapshot_hash,
        created_by=terms.actor,
        created_at=now,
        activated_at=now if record.status is PolicyStatus.ACTIVE else None,
        retired_at=now if record.status is PolicyStatus.RETIRED else None,
    )
    yield Change(None, begun)
    yield Change(standing.records.get(policy_id), record)


def _reply(new: PolicySet, named: PolicyAuthority, moved: tuple[PolicyRecord, ...] = ()) -> PolicyReload:
    def now_with(status: PolicyStatus) -> tuple[str, ...]:
        return tuple(record.policy_id for record in moved if record.status is status)

    return PolicyReload(
        revision=named.revision,
        snapshot_hash=new.hash,
        changed=False,
        activated=now_with(PolicyStatus.ACTIVE),
        retired=now_with(PolicyStatus.RETIRED),
        policies=new.ids,
    )


def _entry(policy: Policy) -> Entry:
    content = content_of(policy)
    return Entry(policy, content, content_hash(content))
