import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.policies import a_policy
from uns.core.rules.matching import covering, matches_source, matches_type
from uns.ports.policy import Match
from uns.ports.vocabulary import PolicyStatus


@pytest.mark.parametrize(
    ("pattern", "covered", "uncovered"),
    [
        ("*", ["a", "a.b"], []),
        ("a.b", ["a.b"], ["a", "a.b.c", "a.bc", "xa.b"]),
        ("a.*", ["a.b", "a.b.c"], ["a", "ab", "ab.c", "x.a.b"]),
        ("a.b.*", ["a.b.c", "a.b.c.d"], ["a.b", "a.bc.d", "a.c"]),
    ],
)
def test_a_type_pattern_covers_whole_parts(pattern, covered, uncovered):
    """
    A prefix covers what lies below it, never the prefix itself nor a longer word.
    """
    assert all(matches_type(pattern, kind) for kind in covered)
    assert not any(matches_type(pattern, kind) for kind in uncovered)


@pytest.mark.parametrize(
    ("pattern", "covered", "uncovered"),
    [
        ("pay", ["pay"], ["pay-eu", "Pay", "pa"]),
        ("pay-*", ["pay-", "pay-eu"], ["pay", "xpay-eu"]),
        ("*", ["pay", "anything"], []),
    ],
)
def test_a_source_pattern_covers_any_rest(pattern, covered, uncovered):
    """
    A trailing * stands for any rest, an empty one included; nothing else is a wildcard.
    """
    assert all(matches_source(pattern, source) for source in covered)
    assert not any(matches_source(pattern, source) for source in uncovered)


def sourced(*patterns):
    return Match(source=patterns)


# Loosest first: each policy wins over all before it, for type a.b.c from source pay-eu.
LADDER = [
    a_policy("any", "*"),
    a_policy("any-from-any", "*", match=sourced("*")),
    a_policy("any-from-prefix", "*", match=sourced("pay-*")),
    a_policy("any-from-longer-prefix", "*", match=sourced("x", "pay-e*")),
    a_policy("any-from-exact", "*", match=sourced("pay-eu")),
    a_policy("packaged-prefix", "a.*"),
    a_policy("prefix", "a.*"),
    a_policy("prefix-from-exact", "a.*", match=sourced("pay-eu")),
    a_policy("longer-prefix", "a.b.*"),
    a_policy("packaged-exact", "a.b.c"),
    a_policy("exact", "a.b.c"),
    a_policy("exact-from-prefix", "a.b.c", match=sourced("pay-*")),
    a_policy("exact-from-exact", "a.b.c", match=sourced("pay-eu")),
]


@pytest.mark.parametrize("rung", range(len(LADDER)), ids=[policy.policy_id for policy in LADDER])
def test_the_more_specific_policy_wins(rung):
    """
    Type decides before source, source before packaging, whatever order the policies stand in.
    """
    below = LADDER[: rung + 1]

    assert covering(below, "a.b.c", "pay-eu") is LADDER[rung]
    assert covering(reversed(below), "a.b.c", "pay-eu") is LADDER[rung]


@pytest.mark.parametrize("status", [status for status in PolicyStatus if status is not PolicyStatus.ACTIVE])
def test_only_active_policies_cover(status):
    """
    A policy that is not ACTIVE covers nothing, and leaves the field to a looser one.
    """
    exact, loose = a_policy("exact", "a.b", status=status), a_policy("loose", "*")

    assert covering([exact], "a.b", "app") is None
    assert covering([exact, loose], "a.b", "app") is loose


def test_a_policy_for_other_sources_covers_nothing():
    """
    A policy that names sources is not there for any other.
    """
    assert covering([a_policy(match=sourced("pay", "pay-*"))], "a.b", "app") is None


TYPES = st.sampled_from(["*", "a.*", "a.b.*", "a.b", "a.b.c", "b.*", "ab.*", "a"])
SOURCES = st.sampled_from([None, "*", "p*", "pay", "pay-*", "pay-e*", "pay-eu", "x"])


@st.composite
def sets(draw):
    """
    Policies such as a reload lets pass: no ACTIVE two claim one type and source pattern.
    """
    claims = draw(
        st.lists(st.tuples(TYPES, SOURCES, st.sampled_from(PolicyStatus)), unique_by=lambda c: c[:2])
    )
    return [
        a_policy(f"p{n}", kind, status=status, match=sourced(source) if source else None)
        for n, (kind, source, status) in enumerate(claims)
    ]


def by_elimination(policies, kind, source):
    """
    The rule as a person would apply it: strike out what does not apply, then look from the top.
    """
    left = [p for p in policies if p.status is PolicyStatus.ACTIVE]
    left = [p for p in left if p.match is None or matches_source(p.match.source[0], source)]
    parts = kind.split(".")
    prefixes = [".".join([*parts[:n], "*"]) for n in range(len(parts) - 1, 0, -1)]
    for pattern in [kind, *prefixes, "*"]:
        of_type = {p.match and p.match.source[0]: p for p in left if p.notification_type == pattern}
        for wanted in [source, *(f"{source[:n]}*" for n in range(len(source), -1, -1)), None]:
            if wanted in of_type:
                return of_type[wanted]
    return None


@given(
    sets(),
    st.sampled_from(["a", "a.b", "a.b.c", "a.b.d", "ab.c", "c"]),
    st.sampled_from(["pay", "pay-eu", "pay-us", "x", "y"]),
)
def test_the_winner_is_the_one_found_by_elimination(policies, kind, source):
    """
    For any set, type and source the ranking picks the policy that a naive search from the most
    specific pattern down finds first.
    """
    assert covering(policies, kind, source) is by_elimination(policies, kind, source)
