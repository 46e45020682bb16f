"""
Choosing dead letters.
"""

import pytest

from kit.builders import NOW
from uns.entrypoints.cli.exits import Usage
from uns.entrypoints.cli.selection import COLUMNS, Selection, selection
from uns.ports.rows import Notification

ROW = {
    "notification_type": "system.alert",
    "source": "pay",
    "principal": "agent-7",
    "policy_id": "ops",
    "agent_id": "a",
    "priority": "HIGH",
    "correlation_id": None,
    "accepted_at": NOW,
}


@pytest.mark.parametrize(
    ("where", "taken"),
    [
        ([], True),
        (["type=system.alert"], True),
        (["type=system.*"], True),
        (["type=*"], True),
        (["type=system"], False),
        (["type=SYSTEM.*"], False),
        (["type=*.alert", "source=pay"], True),
        (["type=*.alert", "source=pay2"], False),
        (["source=p?y"], True),
        (["principal=agent-7", "policy=ops", "agent=a", "priority=HIGH"], True),
        (["correlation="], True),
        (["correlation=?*"], False),
    ],
)
def test_every_condition_must_hold(where, taken):
    """
    A row is chosen when it matches all patterns, as they are written.
    """
    assert taken is selection(where, None).takes(ROW, NOW)


@pytest.mark.parametrize(
    ("age", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("3d", 259_200), ("0s", 0)]
)
def test_an_age_is_reached_at_its_instant(age, seconds):
    """
    A row is old enough from the very instant on.
    """
    chosen = selection([], age)
    taken = [chosen.takes(ROW, NOW + seconds + after) for after in (-0.001, 0, 0.001)]

    assert [False, True, True] == taken


@pytest.mark.parametrize("age", ["", "10", "m", "10 m", "-1h", "1w", "1e3s", "1m30s", "\u0661h"])
def test_an_age_that_is_none_is_wrong_use(age):
    """
    What cannot be read is refused, not guessed.
    """
    with pytest.raises(Usage, match="--older-than"):
        selection([], age)


def test_nothing_chosen_is_told_from_everything():
    """
    Without a condition nothing was chosen; with one that all rows meet, everything was.
    """
    assert not Selection()
    assert all([selection(["type=*"], None), selection([], "0s")])


def test_every_name_is_a_column():
    """
    What can be asked for is stored.
    """
    assert set() == set(COLUMNS.values()) - set(Notification.__struct_fields__)
