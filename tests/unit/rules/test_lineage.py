"""
Lineage, as ``docs/rules.md`` tells it: owner if set, else successor if FAILED, else the end; CYCLE,
MISSING_TARGET, GROUP_MISMATCH; an ``escalation_of`` link crosses keys and generations.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uns.core.rules.lineage import Lineage, onward, resolve
from uns.ports.rows import Link
from uns.ports.vocabulary import LineageError, Status

FAILED, PENDING, DELIVERED = Status.FAILED, Status.PENDING, Status.DELIVERED
CYCLE, MISSING, MISMATCH = LineageError.CYCLE, LineageError.MISSING_TARGET, LineageError.GROUP_MISMATCH


def link(id, status=FAILED, owner=None, successor=None, key="k", generation=1, escalation_of=None):
    return Link(id, status, key, generation, owner, successor, status is FAILED, None, escalation_of)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (link("a", PENDING), None),
        (link("a", DELIVERED), None),
        (link("a", FAILED), None),
        (link("a", PENDING, owner="o"), "o"),
        (link("a", Status.DEDUPLICATED, owner="o"), "o"),
        (link("a", FAILED, owner="o", successor="s"), "o"),
        (link("a", FAILED, successor="s"), "s"),
        (link("a", PENDING, successor="s"), None),
        (link("a", DELIVERED, successor="s"), None),
    ],
)
def test_where_a_row_leads(row, expected):
    """
    To its owner if set, else to its successor if it is FAILED, else nowhere: it is the owner.
    """
    assert expected == onward(row)


def test_a_whole_line_leads_to_its_end():
    """
    From a follower over its failed owner and that one's successors to the obligation that is alive.
    """
    end = link("d", PENDING, generation=3)
    links = [
        link("a", owner="b"),
        link("b", successor="c"),
        link("c", successor="d", generation=2),
        end,
    ]

    assert [Lineage(end)] * 4 == [resolve(id, links) for id in "abcd"]


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([], MISSING),
        ([link("a", successor="b")], MISSING),
        ([link("a", PENDING, owner="b")], MISSING),
        ([link("a", successor="b"), link("b", successor="c")], MISSING),
        ([link("a", successor="a")], CYCLE),
        ([link("a", PENDING, owner="a")], CYCLE),
        ([link("a", successor="b"), link("b", successor="a")], CYCLE),
        ([link("a", PENDING, owner="b"), link("b", successor="c"), link("c", successor="b")], CYCLE),
        ([link("a", successor="b"), link("b", PENDING, key="other")], MISMATCH),
        ([link("a", PENDING, owner="b"), link("b", PENDING, key="other")], MISMATCH),
        ([link("a", PENDING, owner="b"), link("b", PENDING, generation=2)], MISMATCH),
        ([link("a", successor="b"), link("b", PENDING, key=None)], MISMATCH),
    ],
)
def test_why_an_owner_is_not_found(links, expected):
    """
    A row seen twice, a row that is not there, two keys in one line, an owner in another generation.
    """
    assert Lineage(None, expected) == resolve("a", links)


def test_a_successor_may_be_of_a_later_generation():
    """
    A new acceptance opens a generation, and the failed owner hands off across it.
    """
    end = link("b", PENDING, generation=2)

    assert Lineage(end) == resolve("a", [link("a", successor="b"), end])


@pytest.mark.parametrize("key", ["k", "other", None])
def test_an_escalation_may_cross_keys(key):
    """
    A step has no dedup key of the original's; the link that names it is enough, and no other is.
    """
    step = link("b", PENDING, key=key, generation=None, escalation_of="a")
    strange = link("b", PENDING, key=key, generation=None, escalation_of="x")

    assert Lineage(step) == resolve("a", [link("a", successor="b"), step])
    if key != "k":
        assert Lineage(None, MISMATCH) == resolve("a", [link("a", successor="b"), strange])


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.tuples(
            st.sampled_from(Status),
            st.none() | st.sampled_from("abcdefg"),
            st.none() | st.sampled_from("abcdefg"),
            st.sampled_from(["k", "k", "k", None]),
            st.integers(1, 2),
        ),
    ),
    st.sampled_from("abcdef"),
)
def test_every_line_resolves_or_says_why(rows, start):
    """
    Whatever is stored, the walk ends: with an owner that leads nowhere further, or with an error.
    """
    links = [link(id, status, o, s, key, gen) for id, (status, o, s, key, gen) in rows.items()]
    found = resolve(start, links)

    assert (found.owner is None) is (found.error is not None)
    if found.owner is not None:
        assert onward(found.owner) is None
        assert Lineage(found.owner) == resolve(found.owner.id, links)
