"""
Room: a slow destination has its share of the slots, and never the last of them.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.builders import a_notification
from uns.core.rules.room import SHARE, Room, fits, fitting

names = st.sampled_from("abcdef")
goes_to = st.lists(st.lists(names, max_size=3, unique=True).map(tuple), max_size=100)
shares = st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0])


def rows_to(*destinations):
    """
    A row for each, its destinations in ``source``, where ``where`` finds them.
    """
    return [a_notification(f"n{n}", source="|".join(to)) for n, to in enumerate(destinations)]


def where(row):
    return tuple(filter(None, row.source.split("|")))


def started(rows, slots, busy=None, share=SHARE):
    return list(fitting(rows, Room(slots=slots, busy=busy or {}, to=where, share=share)))


def all_to(name, count):
    return rows_to(*[(name,)] * count)


@pytest.mark.parametrize(
    ("slots", "alone"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 3), (64, 16), (100, 25)]
)
def test_one_destination_gets_a_quarter(slots, alone):
    """
    Of all slots, rounded up: never nothing, where there is anything.
    """
    assert alone == len(started(all_to("slow", 200), slots))


@pytest.mark.parametrize(("share", "alone"), [(0.5, 32), (0.75, 48), (1.0, 64)])
def test_the_share_can_be_another(share, alone):
    """
    With all of it there is no bound but the slots, which are whoever asks'.
    """
    found = started(all_to("slow", 64), 64, share=share)

    assert alone == len(found)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10, 20, 60])
def test_however_many_are_slow_some_slots_stay_free(count):
    """
    Given destinations that take whatever they get, then the next one still finds room.
    """
    rows = rows_to(*[(f"slow {n % count}",) for n in range(count * 64)])
    taken = started(rows, 64)
    left = 64 - len(taken)
    busy = Counter(where(row)[0] for row in taken)

    assert left > 0
    assert 1 == len(started(all_to("healthy", 1), left, busy))
    assert max(busy.values()) <= 16


def test_what_does_not_fit_is_passed_over_and_the_rest_goes_on():
    """
    In the order of the rows.
    """
    rows = all_to("slow", 30) + rows_to(("quick",), ())

    assert rows[:2] + rows[30:] == started(rows, 8)


def test_what_is_under_way_counts():
    """
    Room that is taken already is not given twice.
    """
    assert 0 == len(started(all_to("slow", 5), 48, {"slow": 16}))
    assert 1 == len(started(all_to("slow", 5), 49, {"slow": 16}))
    assert 0 == len(started(all_to("slow", 5), 60, {"slow": 40}))


def test_a_row_with_two_destinations_needs_room_at_both():
    """
    It counts to both when it has.
    """
    rows = rows_to(("a", "b"), ("a",), ("b",), ("c",))

    assert [rows[0], rows[3]] == started(rows, 4)
    assert [rows[2], rows[3]] == started(rows, 4, {"a": 2})


def test_what_goes_nowhere_always_fits():
    """
    What cannot hang holds nobody up.
    """
    assert 50 == len(started(rows_to(*[()] * 50), 50, {"slow": 14}))


@given(goes_to, st.integers(0, 64), shares)
def test_nobody_has_more_than_their_share(destinations, slots, share):
    """
    Of what was free before, rounded up, whoever else takes what.
    """
    taken = Counter(
        name for row in started(rows_to(*destinations), slots, share=share) for name in where(row)
    )

    assert all(count <= -(-slots * share // 1) for count in taken.values())


@given(goes_to, st.integers(0, 64))
def test_asking_twice_gives_the_same(destinations, slots):
    """
    The plan that asks may run a second time: nothing is remembered in between.
    """
    rows, room = rows_to(*destinations), Room(slots=slots, busy={"a": 1}, to=where)

    assert list(fitting(rows, room)) == list(fitting(rows, room))


@given(st.integers(0, 100), st.integers(0, 100), shares)
def test_more_is_never_easier(busy, free, share):
    """
    What does not fit now does not fit when more is under way, or less is free.
    """
    if not fits(busy, free, share):
        assert not fits(busy + 1, free, share)
        assert not fits(busy, max(free - 1, 0), share)
