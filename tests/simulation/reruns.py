"""
A plan that was committed twice, because the first answer was lost, says what it said the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from uns.core.plans.dispatch import Concluded
from uns.core.plans.intake import Taken
from uns.core.rules.attempt import Go, Started
from uns.core.rules.lease import Claim
from uns.core.rules.settle import Settled

Held = Callable[[Claim], bool]
"""Whether the lease of a claim still stands."""


def same_again(first: Any, second: Any, held: Held) -> Iterator[str]:
    """
    What differs between two replies of one plan, beyond what others have changed in between.
    """
    if type(first) is not type(second):
        yield from _claims((first,), (second,), held)
    elif isinstance(first, tuple):
        yield from _claims(first, second, held)
    elif isinstance(first, Claim):
        yield from _claims((first,), (second,), held)
    elif isinstance(first, Taken):
        if first.accepted.row.id != second.accepted.row.id:
            yield "R6 an acceptance that ran twice made two notifications"
        if first.accepted.replayed is not second.accepted.replayed:
            yield "R6 an acceptance that ran twice takes itself for a replay"
        yield from _claims((first.claim,), (second.claim,), held)
    elif isinstance(first, Concluded):
        if first.settled is not second.settled and first.settled is not Settled.LOST:
            yield "R6 a settlement that ran twice does not know itself again"
    elif isinstance(first, Started) and first.go is not second.go and Go.LOST not in (first.go, second.go):
        # Whether a lease has ended is the clock's to say, which may have been set forth or back between.
        yield "R6 calls that were started are not made"


def _claims(first: tuple[Any, ...], second: tuple[Any, ...], held: Held) -> Iterator[str]:
    tokens = {claim.token for claim in second if isinstance(claim, Claim)}
    for claim in first:
        if not isinstance(claim, Claim) or claim.token in tokens:
            continue
        if held(claim):
            yield "R6 a claim that ran twice forgot what it had leased"
