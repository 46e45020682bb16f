"""
Policies in and out of force, and the snapshot that is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct

from uns.core.rules import activation as rules
from uns.core.rules.activation import PolicySet, Standing, Terms
from uns.core.rules.matching import is_packaged
from uns.core.rules.policy import Resolver
from uns.ports.documents import PolicyDocument
from uns.ports.policy import (
    AUTHORITY,
    PolicyAuthority,
    PolicyContent,
    PolicyRecord,
    PolicyReload,
    PolicyRevision,
    Snapshot,
    SnapshotRecord,
)
from uns.ports.queries import TypesSeen
from uns.ports.store import Plan, Tx, Wants

BOOTSTRAP_ACTOR = "uns"
_NO_SNAPSHOT = Snapshot(hash="", revision=0, policies=())


class _Member(Struct, frozen=True):
    """
    All that a reload needs of the old set, so that an old document may lack today's fields.
    """

    policy_id: str


def activate(
    documents: Sequence[PolicyDocument],
    *,
    packaged: Sequence[PolicyDocument],
    actor: str,
    known_channels: Collection[str],
    allow_gaps: bool = False,
) -> Plan[PolicyReload]:
    """
    Put ``documents`` in force as the whole set, over the packaged under-layer.

    Args:
        packaged: all documents that come with the service.
        known_channels: the names of the adapters that the host registered with this process.

    Raises:
        Rejected: at once, and not by the plan, if a document or the set is wrong.
        Conflict: a DRAFT would be promoted by file, or a type in use would lose its policy.
    """
    underlay = [document for document in packaged if is_packaged(document.policy)]
    new = rules.compose(documents, underlay, known_channels)
    terms = Terms(actor=actor, allow_gaps=allow_gaps)

    def run(tx: Tx) -> PolicyReload:
        return tx.apply(rules.activate(new, _standing(tx, new), terms, tx.now))

    return Plan(run, Wants(policy=True, activates=True))


def bootstrap(packaged: Sequence[PolicyDocument]) -> Plan[PolicyReload | None]:
    """
    Give a new database the packaged policies; reply None, and do nothing, if it has any.

    Safe for any number of processes at once: whoever comes second finds the first one's.
    """
    own = [document for document in packaged if not is_packaged(document.policy)]
    first = activate(own, packaged=packaged, actor=BOOTSTRAP_ACTOR, known_channels=())

    def run(tx: Tx) -> PolicyReload | None:
        if tx.get(PolicyAuthority, AUTHORITY) is not None:
            return None
        return first.run(tx)

    return Plan(run, first.wants)


def active_snapshot(resolver: Resolver) -> Plan[Snapshot]:
    """
    The set in force, for reading; an empty one of revision 0 if there is none. Applies nothing.
    """

    def run(tx: Tx) -> Snapshot:
        authority = tx.get(PolicyAuthority, AUTHORITY)
        record = tx.get(SnapshotRecord, authority.snapshot_hash) if authority is not None else None
        if authority is None or record is None:
            return _NO_SNAPSHOT
        return resolver.snapshot_of(record, authority.revision)

    return Plan(run, Wants(policy=True))


def _standing(tx: Tx, new: PolicySet) -> Standing:
    authority = tx.get(PolicyAuthority, AUTHORITY)
    if authority is not None and authority.snapshot_hash == new.hash:
        return Standing(authority=authority)  # nothing will be done, so nothing else is read
    ids = sorted({*new.ids, *_members(tx, authority)})
    records = {id: record for id in ids if (record := tx.get(PolicyRecord, id)) is not None}
    lines = {id: tx.get(PolicyRevision, f"{id}@{record.revision}") for id, record in records.items()}
    hashes = [entry.hash for entry in new.entries]
    return Standing(
        authority=authority,
        records=records,
        lines={id: line for id, line in lines.items() if line is not None},
        contents={hash for hash in hashes if tx.get(PolicyContent, hash) is not None},
        snapshots={new.hash} if tx.get(SnapshotRecord, new.hash) is not None else (),
        traffic=tx.find(TypesSeen(tx.now - rules.TRAFFIC_SECONDS)),
    )


def _members(tx: Tx, authority: PolicyAuthority | None) -> list[str]:
    record = tx.get(SnapshotRecord, authority.snapshot_hash) if authority is not None else None
    if record is None:
        return []
    return [member.policy_id for member in msgspec.json.decode(record.content, type=list[_Member])]
