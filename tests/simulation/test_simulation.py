"""
Many workers, crashes, lost answers, clocks that jump, people who answer early: no promise breaks.
"""

from __future__ import annotations

from collections import Counter

import pytest

from simulation.run import check, simulate
from simulation.truth import Violation
from uns.core.rules import ack

WATCHED = range(1_000_000, 1_000_300)
"""The runs that are watched for what occurs in them; none of the others."""

PLANS = (
    "accept",
    "callback claim",
    "callback settle",
    "claim",
    "claim_due",
    "conclude",
    "expire",
    "fall_back",
    "give_back",
    "renew",
    "replay",
    "resolve_failure",
    "respond",
    "start",
    "withdraw",
)
FAULTS = ("crash before", "crash after", "answer lost", "stale", "unavailable", "committed twice")
OCCURS = {
    **{f"{fault}: {plan}": 1 for fault in FAULTS for plan in PLANS},
    "ACKED": 10,
    "ATTEMPT_RETURNED": 8,
    "DEDUP_RELINKED": 450,
    "DEDUP_SATISFIED": 250,
    "DISMISSED": 6,
    "FAILURE_RESOLVED": 45,
    "LEASE_LOST": 15,
    "OBLIGATION_HANDED_OFF": 150,
    "RECOVERY_STARTED": 55,
    "REPLAY_REQUESTED": 50,
    "TIMED_OUT": 50,
    "WITHDRAWN": 25,
    "a callback failed": 30,
    "a callback went well": 70,
    "a claim only to settle": 55,
    "a clock jumped": 500,
    "a failed owner handed off to a newcomer": 20,
    "a key reused for another request": 40,
    "a lapsed lease was taken over": 100,
    "a lease expired on the final attempt": 45,
    "a lease was renewed": 450,
    "a pause": 200,
    "a whole line was resolved": 1,
    "a replay refused": 200,
    "a replay turned its line": 20,
    "a withdrawal refused": 100,
    "accepted DEDUPLICATED behind one": 150,
    "accepted PENDING as leader": 150,
    "accepted PENDING behind one": 500,
    "an answer refused": 45,
    "an attempt was paced": 4,
    "an early answer proved delivery": 5,
    "an idempotent replay": 200,
    "crash": 300,
    "dispatched by hand": 4,
    "the cap on hand-offs was reached": 15,
    "two calls at once": 1,
    "what had failed with its owner was satisfied": 35,
    "withdrawn when DELIVERED": 1,
    "withdrawn when PENDING": 4,
    "withdrawn with a lease": 20,
}
"""What has to occur in them, and how often at least: about a quarter of what does."""


def test_no_promise_is_broken(seeds):
    """
    Given any of these seeds, when its run is over, then every promise of the ledger was kept.
    """
    for seed in seeds:
        check(seed)


def test_everything_of_interest_occurs():
    """
    A simulation in which nothing goes wrong proves nothing: what it is for occurs again and again.
    """
    counts = sum((check(seed) for seed in WATCHED), Counter())

    assert {} == {what: counts[what] for what, least in OCCURS.items() if counts[what] < least}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_is_one_run(seed):
    """
    Given a seed, when it is run twice, then both runs are the same to the last event.
    """
    first, second = simulate(seed), simulate(seed)

    assert first == second


def test_a_broken_promise_tells_its_story(monkeypatch):
    """
    Given a rule that is broken, when a seed finds it, then the message has seed, story and command.
    """
    monkeypatch.setattr(ack, "provable", lambda row: False)
    seed = next(seed for seed in range(1000) if simulate(seed).broken)

    with pytest.raises(Violation) as caught:
        check(seed)
    told = str(caught.value)

    assert told.startswith(f"seed {seed}: P11 ")
    assert told.endswith(f"pytest tests/simulation --seed={seed}")
    assert "CHANNEL_ATTEMPT_STARTED n1" in told
