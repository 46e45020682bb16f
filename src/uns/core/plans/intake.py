"""
Acceptance in one transaction: authority, idempotency, policy, dedup generation, row and event.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from uns.core.plans.groups import window_of
from uns.core.rules import accept as rules
from uns.core.rules import lease
from uns.core.rules.accept import Acceptance, Accepted
from uns.core.rules.events import Stamp
from uns.core.rules.lease import Bearer, Claim
from uns.core.rules.policy import Resolver, check_overrides
from uns.ports.errors import NoPolicy, Rejected
from uns.ports.policy import AUTHORITY, PolicyAuthority, Resolved, Shape, SnapshotRecord
from uns.ports.queries import WithKey
from uns.ports.requests import SendNotificationRequest
from uns.ports.rows import Notification
from uns.ports.store import STARTING, Plan, Tx, Wants


class Taken(Struct, frozen=True):
    """
    An acceptance, and the claim made with it where the caller asked for one.
    """

    accepted: Accepted
    claim: Claim | None = None


def accept(
    acceptance: Acceptance,
    resolver: Resolver,
    *,
    bearer: Bearer | None = None,
    channels: frozenset[str] = frozenset(),
) -> Plan[Taken]:
    """
    Accept a request, and for a ``bearer`` claim the new leader in the same transaction.

    Args:
        channels: those the bearer's process can call; it claims no row that needs another.

    Raises:
        Conflict: the idempotency key is stored with another fingerprint.
        NoPolicy: no policy covers the type.
        Rejected: the policy forbids the intent or an override.
    """
    # Resolved ahead under the policies last seen; used only if the authority still names them.
    guess = resolver.guess(shape_of(acceptance.request))
    guessed_key = rules.window_key(acceptance, guess) if guess is not None else None

    def run(tx: Tx) -> Taken:
        try:
            resolved = _resolve(tx, resolver, acceptance.request, guess)
        except Rejected:
            # A replay is answered whatever the policy has come to say since.
            if found := tx.find(WithKey(acceptance.key)):
                return _known(found[0], acceptance, bearer)
            raise
        key = guessed_key if resolved is guess else rules.window_key(acceptance, resolved)
        window = window_of(tx, key)
        if found := tx.find(WithKey(acceptance.key)):
            return _known(found[0], acceptance, bearer)
        owner = tx.get(Notification, window.owner_id) if window is not None else None
        fresh = rules.fresh(acceptance, resolved, key, tx.now)
        stamp = Stamp(acceptance.ids, tx.now)
        decision = rules.accept(fresh, window, owner, resolved=resolved, stamp=stamp)
        row = decision.reply.row
        if bearer is None or not lease.claimable(row, tx.now) or not lease.servable(row, channels):
            return Taken(tx.apply(decision))
        accepted = tx.apply(replace(decision, signals=()))  # claimed at once: nobody need be woken
        return Taken(accepted, tx.apply(lease.claim(row, (), bearer, tx.now)))

    return Plan(run, Wants(policy=True, windows=_some(guessed_key), keys=(acceptance.key,)), STARTING)


def simulate(request: SendNotificationRequest, resolver: Resolver) -> Plan[Resolved]:
    """
    What a request would resolve to now. Applies nothing.
    """
    return Plan(lambda tx: _resolve(tx, resolver, request, None), Wants(policy=True))


def shape_of(request: SendNotificationRequest) -> Shape:
    """
    What of a request decides its policy.
    """
    return Shape(
        notification_type=request.notification_type,
        source=request.source,
        intent=request.intent,
        autonomy_mode=request.autonomy_context.autonomy_mode,
        irreversible=request.irreversible,
    )


def _resolve(
    tx: Tx, resolver: Resolver, request: SendNotificationRequest, guess: Resolved | None
) -> Resolved:
    authority = tx.get(PolicyAuthority, AUTHORITY)
    if authority is None:
        raise NoPolicy("no policies are loaded")
    if guess is not None and _stands(guess, authority):
        resolved = guess
    else:
        record = tx.get(SnapshotRecord, authority.snapshot_hash)
        if record is None:
            raise NoPolicy("the policy snapshot in force is missing")
        resolved = resolver.resolve(resolver.snapshot_of(record, authority.revision), shape_of(request))
    check_overrides(resolved, request)
    return resolved


def _stands(guess: Resolved, authority: PolicyAuthority) -> bool:
    return guess.revision == authority.revision and guess.snapshot_hash == authority.snapshot_hash


def _known(row: Notification, acceptance: Acceptance, bearer: Bearer | None) -> Taken:
    accepted = rules.known(row, acceptance)
    ours = bearer is not None and not accepted.replayed and row.lease_token == bearer.token
    if bearer is None or not ours:
        return Taken(accepted)
    return Taken(accepted, lease.resume(row, (), bearer))


def _some(key: str | None) -> tuple[str, ...]:
    return () if key is None else (key,)
