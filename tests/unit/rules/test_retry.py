"""
Budgets and delays, as ``docs/rules.md`` tells them: ``retry_seconds * 2^(cycle_attempts-1)``, capped at
300 s, up to 20 % jitter, Retry-After up to an hour, one attempt for BEST_EFFORT.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.builders import a_notification, an_effective
from uns.core.rules.retry import Retry
from uns.ports.vocabulary import DeliveryMode

GUARANTEED, BEST_EFFORT = DeliveryMode.GUARANTEED, DeliveryMode.BEST_EFFORT


@pytest.mark.parametrize(
    ("mode", "policy", "runtime", "expected"),
    [
        (GUARANTEED, None, 3, 3),
        (GUARANTEED, None, 10, 10),
        (GUARANTEED, 5, 3, 5),
        (GUARANTEED, 1, 3, 1),
        (BEST_EFFORT, None, 3, 1),
        (BEST_EFFORT, 5, 3, 1),
    ],
)
def test_the_budget_of_a_cycle(mode, policy, runtime, expected):
    """
    The policy's number, else the runtime's; BEST_EFFORT has one attempt whatever they say.
    """
    row = a_notification(effective=an_effective(delivery_mode=mode, max_attempts=policy))

    assert expected == Retry(runtime).budget(row)


def test_the_runtimes_defaults_are_the_specs():
    """
    Three attempts, from one second.
    """
    assert (3, 1.0) == (Retry().max_attempts, Retry().base_seconds)


@pytest.mark.parametrize(
    ("base", "attempt", "expected"),
    [
        (1.0, 1, 1.0),
        (1.0, 2, 2.0),
        (1.0, 3, 4.0),
        (1.0, 9, 256.0),
        (1.0, 10, 300.0),
        (2.0, 1, 2.0),
        (2.0, 8, 256.0),
        (2.0, 9, 300.0),
        (300.0, 1, 300.0),
        (301.0, 1, 300.0),
        (0.0, 5, 0.0),
        (0.5, 2, 1.0),
        (1.0, 0, 1.0),
    ],
)
def test_the_delay_doubles_up_to_the_cap(base, attempt, expected):
    """
    Each attempt of a cycle doubles the wait, up to five minutes.
    """
    assert expected == Retry(base_seconds=base).delay(attempt)


@pytest.mark.parametrize(("attempt", "least"), [(1, 1.0), (3, 4.0), (20, 300.0)])
@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_jitter_adds_up_to_a_fifth(attempt, least, jitter):
    """
    Jitter comes on top of the capped delay, so that a crowd at the cap spreads too.
    """
    assert math.isclose(least * (1 + 0.2 * jitter), Retry(jitter=jitter).delay(attempt))


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        (None, 4.0),
        (0.0, 4.0),
        (3.999, 4.0),
        (4.0, 4.0),
        (4.001, 4.001),
        (3599.999, 3599.999),
        (3600.0, 3600.0),
        (3600.001, 3600.0),
        (1e9, 3600.0),
    ],
)
def test_retry_after_raises_the_delay_up_to_an_hour(retry_after, expected):
    """
    A provider may ask for more than the backoff, never for less, and for an hour at most.
    """
    assert expected == Retry().delay(3, retry_after=retry_after)


@given(
    st.floats(0, 1e308),
    st.integers(0, 10**9),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(0, 1e308),
)
def test_no_number_overflows(base, attempt, jitter, retry_after):
    """
    Whatever the configuration and however many attempts, the delay is between nothing and an hour.
    """
    delay = Retry(base_seconds=base, jitter=jitter).delay(attempt, retry_after=retry_after)

    assert 0 <= delay <= 3600


@given(st.floats(0, 1000), st.integers(1, 100))
def test_a_later_attempt_never_waits_less(base, attempt):
    """
    Backoff does not go down within a cycle.
    """
    retry = Retry(base_seconds=base)

    assert retry.delay(attempt) <= retry.delay(attempt + 1)
