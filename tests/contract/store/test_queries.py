"""
The closed union of queries: what each answers, and in which order. Proposals: ``test_proposals``.
"""

import typing
from itertools import permutations

import pytest
from msgspec.structs import replace

from kit.builders import NOW, a_notification
from kit.ordered_tx import QUERIES
from kit.plans import asked, change, put
from kit.rows import a_copy, an_audit, an_event
from uns.ports import queries as ports
from uns.ports.queries import (
    AuditsOf,
    CallbacksDue,
    CallbacksExhausted,
    CopiesOf,
    CopiesOfLine,
    DeadLetters,
    DedupKeyOf,
    Due,
    EventsOf,
    EventsWithIds,
    FollowerCount,
    FollowersOf,
    LineInto,
    LineOf,
    Overdue,
    TypesSeen,
    WithKey,
)
from uns.ports.rows import Link
from uns.ports.store import Plan
from uns.ports.vocabulary import Status


def ids(rows):
    return [row.id for row in rows]


def behind(id, owner="n1", **fields):
    return a_notification(id, dedup_owner_id=owner, **fields)


def failed(id, **fields):
    return a_notification(id, status=Status.FAILED, **fields)


def link_of(row):
    return Link(**{name: getattr(row, name) for name in Link.__struct_fields__})


def test_the_union_is_closed():
    """
    Every query of the port has a lock class, and so a place in these tests.
    """
    queries = {
        kind
        for kind in vars(ports).values()
        if isinstance(kind, type) and issubclass(kind, ports.Query) and kind is not ports.Query
    }

    assert queries == set(QUERIES)
    assert all(typing.get_type_hints(query) for query in queries)


def test_with_key_finds_the_row_of_an_idempotency_digest(run):
    """
    Given two rows, when one's digest is asked for, then it alone is found; an unknown one is empty.
    """
    rows = [a_notification("n1"), a_notification("n2")]

    assert rows[1:] == run(put(*rows), asked(WithKey("key-n2")))
    assert run(asked(WithKey("key-n3"))) == []


def test_with_key_missed_and_then_inserted_is_found(run):
    """
    Given a plan that asked for a digest in vain, when a later one inserts it, then the next finds it.
    """
    missed, _, found = run.outcomes(asked(WithKey("key-n1")), put(a_notification()), asked(WithKey("key-n1")))

    assert ([], [a_notification()]) == (missed, found)


def test_dedup_key_of_is_the_rows(run):
    """
    ``DedupKeyOf`` answers with the key, with None for a row without one, and with nothing for no row.
    """
    run(put(a_notification("n1", dedup_key="k"), a_notification("n2", dedup_key=None)))

    assert run(asked(DedupKeyOf("n1"))) == ["k"]
    assert run(asked(DedupKeyOf("n2"))) == [None]
    assert run(asked(DedupKeyOf("n3"))) == []


def test_dedup_key_of_a_row_that_was_missed_is_found_once_it_is_there(run):
    """
    Given a plan that asked in vain, when a later one inserts the row, then the next one has the key.
    """
    missed, _, found = run.outcomes(asked(DedupKeyOf("n1")), put(a_notification()), asked(DedupKeyOf("n1")))

    assert ([], ["d" * 64]) == (missed, found)


def test_followers_come_in_acceptance_order(run):
    """
    Given followers of equal and of different age, then they come by ``accepted_at`` and then by id.
    """
    run(
        put(
            a_notification("n1"),
            behind("b", accepted_at=NOW + 1),
            behind("d", accepted_at=NOW),
            behind("c", accepted_at=NOW),
            behind("a", accepted_at=NOW + 0.5),
        )
    )

    assert ids(run(asked(FollowersOf("n1", Status.PENDING, 9)))) == ["c", "d", "a", "b"]
    assert ids(run(asked(FollowersOf("n1", Status.PENDING, 2)))) == ["c", "d"]
    assert ids(run(asked(FollowersOf("n1", Status.PENDING, 0)))) == []


def test_followers_are_those_of_one_owner_and_one_status(run):
    """
    Given rows behind two owners in several states, then only those asked for come.
    """
    rows = [
        a_notification("n1"),
        behind("a"),
        behind("b", status=Status.FAILED),
        behind("c", status=Status.DEDUPLICATED),
        behind("d", owner="n2"),
    ]

    assert run(put(*rows), asked(FollowersOf("n1", Status.PENDING, 9))) == [rows[1]]
    assert run(asked(FollowersOf("n1", Status.FAILED, 9))) == [rows[2]]
    assert run(asked(FollowersOf("n2", Status.PENDING, 9))) == [rows[4]]
    assert run(asked(FollowersOf("n3", Status.PENDING, 9))) == []


def test_followers_are_counted_by_status(run):
    """
    ``FollowerCount`` counts the rows behind one owner with any of the statuses.
    """
    rows = [behind(str(n), status=status) for n, status in enumerate([*Status, Status.PENDING])]
    run(put(a_notification("n1"), *rows, behind("other", owner="n2")))

    assert run(asked(FollowerCount("n1", (Status.PENDING,)))) == [2]
    assert run(asked(FollowerCount("n1", (Status.PENDING, Status.FAILED)))) == [3]
    assert run(asked(FollowerCount("n1", ()))) == [0]
    assert run(asked(FollowerCount("n3", (Status.PENDING,)))) == [0]


def test_a_follower_that_moved_in_this_transaction_has_moved(run):
    """
    Given a follower, when a plan of the transaction promotes it, then later ones do not find it.
    """
    run(put(a_notification("n1"), behind("a"), behind("b")))
    promoted = replace(behind("a"), dedup_owner_id=None)

    assert run(change(behind("a"), promoted), asked(FollowersOf("n1", Status.PENDING, 9))) == [behind("b")]


def test_copies_are_those_of_one_notification(run):
    """
    ``CopiesOf`` has the successes of one notification, those just written included.
    """
    run(put(a_copy("n1", "SLACK"), a_copy("n2", "SMS")))

    found = run(put(a_copy("n1", "EMAIL")), asked(CopiesOf("n1")))

    assert {copy.channel for copy in found} == {"SLACK", "EMAIL"}
    assert run(asked(CopiesOf("n3"))) == []


def test_a_copy_that_moved_is_there_once(run):
    """
    Given a copy, when a plan updates it and asks again, then it comes once, as it is now.
    """
    before, after = a_copy(), a_copy(state="UPDATED")
    run(put(before))

    def update(tx):
        tx.find(CopiesOf("n1"))
        change(before, after).run(tx)
        return list(tx.find(CopiesOf("n1")))

    assert run(Plan(update)) == [after]
    assert run(asked(CopiesOf("n1"))) == [after]


LINES = {
    "itself": ("n1", {"n1"}),
    "an owner, then its successors": ("f", {"f", "n1", "n2", "n3"}),
    "a successor": ("n2", {"n2", "n3"}),
    "the end": ("n3", {"n3"}),
    "a cycle": ("c1", {"c1", "c2"}),
    "a cycle, from outside": ("c0", {"c0", "c1", "c2"}),
    "a row that points at itself": ("s", {"s"}),
    "a missing target": ("m", {"m"}),
    "an unknown id": ("x", set()),
    "a successor of a row that is not FAILED": ("p", {"p"}),
}


@pytest.mark.parametrize(("start", "expected"), LINES.values(), ids=LINES)
def test_the_line_of_a_row(run, start, expected):
    """
    ``LineOf`` follows the owner if there is one, else the successor of a FAILED row, and ends on
    cycles and on rows that are missing.
    """
    rows = [
        behind("f"),
        failed("n1", dedup_successor_id="n2", dead_letter=True),
        failed("n2", dedup_successor_id="n3", dead_letter=True),
        a_notification("n3"),
        behind("c0", owner="c1"),
        failed("c1", dedup_successor_id="c2"),
        behind("c2", owner="c1"),
        behind("s", owner="s"),
        behind("m", owner="gone"),
        a_notification("p", dedup_successor_id="n3"),
        behind("other", owner="n3"),
    ]
    if start == "n1":
        rows[1] = failed("n1")

    links = run(put(*rows), asked(LineOf(start)))

    assert expected == {link.id for link in links}
    assert sorted(links, key=lambda link: link.id) == [
        link_of(row) for row in sorted(rows, key=lambda row: row.id) if row.id in expected
    ]


INTO = {
    "a whole tree": ("end", ["a", "b", "c", "d", "end"]),
    "a branch": ("c", ["a", "c"]),
    "a leaf": ("a", ["a"]),
    "a cycle": ("y", ["x", "y"]),
    "a row that is gone": ("gone", ["left"]),
    "an unknown id": ("z", []),
}


@pytest.mark.parametrize(("id", "expected"), INTO.values(), ids=INTO)
def test_the_line_into_a_row(run, id, expected):
    """
    ``LineInto`` has every row whose successors lead to one, itself included, whatever their state.
    """
    leads = {"a": "c", "b": "end", "c": "d", "d": "end", "x": "y", "y": "x", "left": "gone"}
    rows = [failed(name, dedup_successor_id=target) for name, target in leads.items()]

    found = run(put(*rows, a_notification("end"), behind("f", owner="end")), asked(LineInto(id)))

    assert expected == sorted(ids(found))
    assert all(row in rows or row.id == "end" for row in found)


def test_the_copies_of_a_line_are_those_of_all_rows_that_lead_to_it(run):
    """
    Given a line of two and a stranger, when the end's copies are asked for, then both have theirs.
    """
    run(put(failed("n1", dedup_successor_id="n2"), a_notification("n2"), a_notification("n3")))
    copies = [a_copy("n1", "SLACK"), a_copy("n2", "SLACK"), a_copy("n2", "SMS"), a_copy("n3", "SLACK")]

    found = run(put(*copies), asked(CopiesOfLine("n2")))

    assert copies[:3] == sorted(found, key=lambda copy: (copy.notification_id, copy.channel))
    assert run(asked(CopiesOfLine("n1"))) == copies[:1]
    assert run(asked(CopiesOfLine("n4"))) == []


@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_a_timeline_is_in_the_order_of_writing(run, order):
    """
    Given events of one instant, whatever their ids, then they come as they were written.
    """
    events = [an_event(id) for id in order]

    assert events == run(put(events[0], an_event("other", "n2")), put(*events[1:]), asked(EventsOf("n1")))
    assert events == run(asked(EventsOf("n1")))


def test_a_timeline_keeps_its_order_when_an_event_moves(run):
    """
    Given two events, when the first one's callback moves, then it is still the first.
    """
    first, second = an_event("e1", callback_pending=True), an_event("e2")
    moved = replace(first, callback_token="t")

    assert run(put(first, second), change(first, moved), asked(EventsOf("n1"))) == [moved, second]


def test_events_with_ids_are_those_that_exist(run):
    """
    ``EventsWithIds`` has those of the events asked for that exist, also after they were missed.
    """
    events = [an_event("e1"), an_event("e2", "n2"), an_event("e3")]
    asked_for = asked(EventsWithIds(("e2", "e1", "gone")))

    missed, _, found = run.outcomes(asked_for, put(*events), asked_for)

    assert missed == []
    assert events[:2] == sorted(found, key=lambda event: event.id)
    assert run(asked(EventsWithIds(()))) == []


def test_audits_of_are_the_settlements_of_one_notification(run):
    """
    Given settlements of two notifications, then one's come alone, by ``created_at`` and then id.
    """
    late, early, other = (
        an_audit("a1", created_at=NOW + 1),
        an_audit("a2", created_at=NOW),
        an_audit("a0", "n2"),
    )
    twin = an_audit("a3", created_at=NOW)

    assert run(put(late, early, twin, other), asked(AuditsOf("n1"))) == [early, twin, late]
    assert run(asked(AuditsOf("n3"))) == []


def test_dead_letters_come_in_acceptance_order(run):
    """
    Given dead letters of equal and of different age, then they come by ``accepted_at`` and then id.
    """
    rows = [
        failed("b", dead_letter=True, accepted_at=NOW),
        failed("a", dead_letter=True, accepted_at=NOW + 1),
        failed("c", dead_letter=True, accepted_at=NOW),
        failed("d", accepted_at=NOW),
        a_notification("e"),
    ]

    assert ids(run(put(*rows), asked(DeadLetters(9)))) == ["b", "c", "a"]
    assert ids(run(asked(DeadLetters(2)))) == ["b", "c"]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((NOW - 1e-6, "z"), ["a", "b", "c"]),
        ((NOW, ""), ["a", "b", "c"]),
        ((NOW, "a"), ["b", "c"]),
        ((NOW, "b"), ["c"]),
        ((NOW + 1, "b"), ["c"]),
        ((NOW + 1, "c"), []),
    ],
)
def test_dead_letters_go_on_after_a_position(run, after, expected):
    """
    A position is exclusive: the pair itself is not repeated, and nothing beside it is left out.
    """
    run(
        put(
            *(
                failed(id, dead_letter=True, accepted_at=NOW + at)
                for id, at in {"a": 0, "b": 0, "c": 1}.items()
            )
        )
    )

    assert expected == ids(run(asked(DeadLetters(9, after))))


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (NOW - 1e-6, [("a", "s1"), ("a", "s2"), ("b", "s1")]),
        (NOW, [("a", "s1"), ("a", "s2"), ("b", "s1")]),
        (NOW + 1e-6, [("a", "s2"), ("b", "s1")]),
        (NOW + 11, []),
    ],
)
def test_types_seen_are_distinct_pairs_since_an_instant(run, since, expected):
    """
    A row accepted exactly at ``since`` counts; a pair comes once, and sorted.
    """
    seen = [("b", "s1", 10), ("a", "s1", 0), ("a", "s2", 10), ("a", "s2", 9)]
    rows = [
        a_notification(f"n{n}", notification_type=type, source=source, accepted_at=NOW + at)
        for n, (type, source, at) in enumerate(seen)
    ]

    assert expected == run(put(*rows), asked(TypesSeen(since)))


LATE = [
    FollowersOf("n1", Status.PENDING, 1),
    FollowerCount("n1", (Status.PENDING,)),
    CopiesOfLine("n1"),
    LineOf("n1"),
    LineInto("n1"),
    EventsWithIds(("e1",)),
    EventsOf("n1"),
    AuditsOf("n1"),
    DeadLetters(1),
    TypesSeen(NOW),
    Due((), 1),
    Overdue(NOW, 1),
    CallbacksDue(3, 1),
    CallbacksExhausted(3, 1),
]
EARLY_OR_LATE = {WithKey, DedupKeyOf, CopiesOf}


def test_every_query_is_asked_too_late():
    """
    All queries but the three that know a plan's own changes are tried after it applied something.
    """
    assert {type(query) for query in LATE} == set(QUERIES) - EARLY_OR_LATE


@pytest.mark.parametrize("query", LATE, ids=lambda query: type(query).__name__)
@pytest.mark.parametrize("written", [a_copy("n9"), an_event("e9")], ids=["change", "event"])
def test_a_plan_asks_before_it_applies(unwatched, query, written):
    """
    When a plan asks the database something after it applied a decision, then it is told so and
    nothing of it is kept: the database does not know of the decision yet.
    """

    def late(tx):
        put(written).run(tx)
        return tx.find(query)

    (outcome,) = unwatched.outcomes(Plan(late))

    assert isinstance(outcome, AssertionError)
    assert unwatched(asked(CopiesOf("n9"))) == []
    assert unwatched(asked(EventsOf("n1"))) == []


def test_the_plans_own_changes_are_in_what_it_may_ask_afterwards(run):
    """
    When a plan has inserted a row and a copy, then it finds both by digest, by dedup key and by id.
    """

    def write_and_ask(tx):
        put(a_notification(), a_copy()).run(tx)
        return [*tx.find(WithKey("key-n1")), *tx.find(DedupKeyOf("n1")), *tx.find(CopiesOf("n1"))]

    assert run(Plan(write_and_ask)) == [a_notification(), "d" * 64, a_copy()]
