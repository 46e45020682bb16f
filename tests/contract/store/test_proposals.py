"""
Proposals: rows that may be due. A store leaves out none that the rule accepts, and none that is first.
"""

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.builders import NOW, a_notification, an_effective
from kit.plans import asked, change, put
from kit.rows import an_event
from kit.stores import open_store
from uns.adapters.sources import ManualClock
from uns.core.rules import ack, callbacks, lease
from uns.core.rules.events import Stamp
from uns.ports.policy import ChannelPlan
from uns.ports.queries import CallbacksDue, CallbacksExhausted, Due, Overdue
from uns.ports.sources import Ids
from uns.ports.vocabulary import Ack, Priority, Status

MOMENT = 1e-6
TRIPLE = pytest.mark.parametrize(
    ("instant", "passed"),
    [(NOW - MOMENT, True), (NOW, True), (NOW + MOMENT, False)],
    ids=["before", "at", "after"],
)
IDS = Ids("01890000-0000-7000-8000-000000000000")


def needing(*primary, fallback=(), **fields):
    return an_effective(channels=ChannelPlan(primary=primary, fallback=fallback), **fields)


def ids(rows):
    return [row.id for row in rows]


@TRIPLE
def test_a_row_is_due_from_its_next_attempt(run, instant, passed):
    """
    Given a leader, then it is proposed from ``next_attempt`` on, that instant included.
    """
    found = run(put(a_notification(next_attempt=instant)), asked(Due(("SLACK",), 5)))

    assert passed == (ids(found) == ["n1"])


@TRIPLE
def test_a_row_is_due_once_its_lease_has_ended(run, instant, passed):
    """
    Given a leased leader, then it is proposed from ``lease_until`` on, that instant included.
    """
    found = run(put(a_notification(lease_until=instant, lease_token="t")), asked(Due(("SLACK",), 5)))

    assert passed == (ids(found) == ["n1"])


@pytest.mark.parametrize(
    "fields",
    [{"status": status} for status in Status if status is not Status.PENDING] + [{"dedup_owner_id": "n0"}],
    ids=str,
)
def test_only_pending_leaders_are_due(run, fields):
    """
    Given a row that nobody may dispatch, then it is not proposed.
    """
    assert run(put(a_notification(**fields)), asked(Due(("SLACK",), 5))) == []


@pytest.mark.parametrize(
    ("needed", "has", "proposed"),
    [
        (needing("SLACK"), ("SLACK",), True),
        (needing("SLACK"), ("EMAIL", "SLACK", "SMS"), True),
        (needing("SLACK"), (), False),
        (needing("SLACK"), ("SLACKER",), False),
        (needing("SLACKER"), ("SLACK",), False),
        (needing("A_SLACK"), ("SLACK",), False),
        (needing("SLACK", "EMAIL"), ("SLACK",), False),
        (needing("SLACK", "EMAIL"), ("SLACK", "EMAIL"), True),
        (needing("SLACK", fallback=("SMS",)), ("SLACK",), False),
        (needing("SLACK", fallback=("SMS",)), ("SMS", "SLACK"), True),
        (needing("SLACK", fallback=("SLACK",)), ("SLACK",), True),
    ],
    ids=str,
)
def test_rows_that_need_another_channel_are_left_out(run, needed, has, proposed):
    """
    Given a row's channels and those of the process, then the row is proposed if it has them all.
    """
    found = run(put(a_notification(effective=needed)), asked(Due(has, 5)))

    assert proposed == (ids(found) == ["n1"])


@pytest.mark.parametrize(
    ("without", "found"), [((), ["a", "b"]), (("h1",), ["b"]), (("h2", "h1"), []), (("h3",), ["a", "b"])]
)
def test_rows_with_settings_that_are_not_wanted_are_left_out(run, without, found):
    """
    Given rows of two effective hashes, when some hashes are not wanted, then their rows are left out.
    """
    rows = [a_notification("a", effective_hash="h1"), a_notification("b", effective_hash="h2")]

    assert found == sorted(ids(run(put(*rows), asked(Due(("SLACK",), 9, without)))))


def test_rows_that_are_not_wanted_take_no_place_of_others(run):
    """
    Given older rows whose settings are not wanted, when one row is asked for, then it is one that is.
    """
    old = [a_notification(f"o{n}", effective_hash="h1", next_attempt=NOW - 9) for n in range(3)]
    run(put(*old, a_notification("n", effective_hash="h2")))

    assert "n" in ids(run(asked(Due(("SLACK",), 1, ("h1",)))))


def test_a_row_claimed_in_this_transaction_is_no_longer_due(run):
    """
    Given a due row, when a plan of the transaction leases it, then later ones are not offered it.
    """
    leased = a_notification(lease_token="t", lease_until=NOW + 60)

    assert run(put(a_notification()), change(a_notification(), leased), asked(Due(("SLACK",), 5))) == []


def test_an_old_row_of_a_low_class_is_among_the_first(run):
    """
    Given more urgent rows than are asked for, when a LOW one has waited long enough, then it is
    proposed all the same: waiting raises it.
    """
    low = a_notification("low", priority=Priority.LOW, next_attempt=NOW - 2 * lease.AGEING_SECONDS)
    high = [a_notification(f"h{n}", priority=Priority.HIGH, next_attempt=NOW - 1) for n in range(5)]

    found = run(put(low, *high), asked(Due(("SLACK",), 2)))

    assert ids(lease.in_order(found, NOW)[:2]) == ["low", "h0"]


@TRIPLE
def test_an_answer_is_overdue_from_its_deadline(run, clock, instant, passed):
    """
    Given a row that awaits an answer, then it is proposed from its deadline on, by the instant
    asked for and not by the clock.
    """
    clock.set(NOW + 3600)
    waiting = a_notification(status=Status.DELIVERED, ack_status=Ack.PENDING, deadline=instant)

    assert passed == (run(put(waiting), asked(Overdue(NOW, 5))) == [waiting])


def test_overdue_rows_come_by_deadline(run):
    """
    Given overdue rows, then the earliest come first, by id where two are as late, up to the limit.
    """
    late = {"c": 3, "a": 5, "d": 1, "b": 3}
    rows = [
        a_notification(id, status=Status.DELIVERED, ack_status=Ack.PENDING, deadline=NOW - seconds)
        for id, seconds in late.items()
    ]

    assert ids(run(put(*rows), asked(Overdue(NOW, 5)))) == ["a", "b", "c", "d"]
    assert ids(run(asked(Overdue(NOW, 2)))) == ["a", "b"]


def test_only_those_who_await_an_answer_are_overdue(run):
    """
    Given rows whose answer is there, or not asked for, then they are not proposed.
    """
    rows = [
        a_notification(f"n{n}", status=Status.DELIVERED, ack_status=answer, deadline=NOW - 1)
        for n, answer in enumerate([None, Ack.ACKED, Ack.DISMISSED, Ack.TIMED_OUT])
    ]

    assert run(put(*rows), asked(Overdue(NOW, 5))) == []


@TRIPLE
def test_a_callback_is_due_from_its_instant(run, instant, passed):
    """
    Given a pending callback, then it is proposed from ``callback_until`` on.
    """
    event = an_event(callback_pending=True, callback_until=instant)

    assert passed == (run(put(event), asked(CallbacksDue(3, 5))) == [event])


@TRIPLE
def test_an_exhausted_callback_is_shown_once_nobody_calls(run, instant, passed):
    """
    Given a callback on its last attempt, then it counts as exhausted when that one's lease has ended.
    """
    event = an_event(callback_pending=True, callback_until=instant, callback_attempts=3)

    assert passed == (run(put(event), asked(CallbacksExhausted(3, 5))) == [event])


@pytest.mark.parametrize(("attempts", "due"), [(0, True), (2, True), (3, False), (4, False)])
def test_a_callback_is_either_due_or_exhausted(run, attempts, due):
    """
    Given a pending callback, then its attempts decide which of the two proposals has it.
    """
    event = an_event(callback_pending=True, callback_until=NOW, callback_attempts=attempts)
    run(put(event))

    assert run(asked(CallbacksDue(3, 5))) == ([event] if due else [])
    assert run(asked(CallbacksExhausted(3, 5))) == ([] if due else [event])


def test_an_event_without_a_callback_is_in_no_proposal(run):
    """
    Given events of which one was delivered and one never wanted a callback, then none is proposed.
    """
    run(put(an_event("e1"), an_event("e2", callback_attempts=3)))

    assert run(asked(CallbacksDue(3, 5))) == []
    assert run(asked(CallbacksExhausted(3, 5))) == []


def test_callbacks_come_by_due_time_then_age_then_id(run):
    """
    Given due callbacks, then they come in (``callback_until``, ``at``, ``id``) order, up to the limit.
    """
    when = {"d": (-2, 0), "b": (-1, -5), "a": (-1, 0), "c": (-1, -5)}
    events = [
        an_event(id, callback_pending=True, callback_until=NOW + until, at=NOW + at)
        for id, (until, at) in when.items()
    ]

    assert ids(run(put(*events), asked(CallbacksDue(3, 5)))) == ["d", "b", "c", "a"]
    assert ids(run(asked(CallbacksDue(3, 2)))) == ["d", "b"]


def test_exhausted_callbacks_come_by_age(run):
    """
    Given exhausted callbacks, then the oldest come first, up to the limit.
    """
    events = [
        an_event(id, callback_pending=True, callback_until=NOW, callback_attempts=3, at=NOW + at)
        for id, at in {"a": 1, "c": 0, "b": 0}.items()
    ]

    assert ids(run(put(*events), asked(CallbacksExhausted(3, 5)))) == ["b", "c", "a"]
    assert ids(run(asked(CallbacksExhausted(3, 1)))) == ["b"]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((NOW - MOMENT, "z"), ["a", "b", "c"]),
        ((NOW, ""), ["a", "b", "c"]),
        ((NOW, "a"), ["b", "c"]),
        ((NOW, "b"), ["c"]),
        ((NOW + 1, "c"), []),
    ],
)
def test_exhausted_callbacks_go_on_after_a_position(run, after, expected):
    """
    A position is exclusive: the pair itself is not repeated, and nothing beside it is left out.
    """
    events = [
        an_event(id, callback_pending=True, callback_until=NOW, callback_attempts=3, at=NOW + at)
        for id, at in {"a": 0, "b": 0, "c": 1}.items()
    ]

    assert expected == ids(run(put(*events), asked(CallbacksExhausted(3, 5, after))))


def test_callbacks_that_the_asker_holds_come_first(run):
    """
    Given callbacks leased to one of the asker's tokens, when it asks again, then they come before
    all that are due, however many these are: its first COMMIT's answer was lost.
    """
    held = [
        an_event(
            f"h{n}",
            callback_pending=True,
            callback_until=NOW + 30,
            callback_token=f"t{n}",
            callback_attempts=n,
        )
        for n in (1, 3)
    ]
    others = an_event("x", callback_pending=True, callback_until=NOW + 30, callback_token="other")
    due = [an_event(f"d{n}", callback_pending=True, callback_until=NOW - n) for n in range(3)]
    run(put(*due, *held, others))

    assert ids(run(asked(CallbacksDue(3, 3, ("t1", "t2", "t3"))))) == ["h1", "h3", "d2"]
    assert ids(run(asked(CallbacksDue(3, 2, ("t1", "t3"))))) == ["h1", "h3"]
    assert ids(run(asked(CallbacksDue(3, 9)))) == ["d2", "d1", "d0"]


def test_a_callback_that_was_made_is_no_longer_held(run):
    """
    Given a delivered callback that keeps its last token, then not even its holder is offered it.
    """
    run(put(an_event(callback_pending=False, callback_token="t1")))

    assert run(asked(CallbacksDue(3, 5, ("t1",)))) == []


# Properties over random rows: few values that lie at, and beside, every boundary.

instants = st.sampled_from([NOW - 1201, NOW - 600, NOW - 1, NOW - MOMENT, NOW, NOW + MOMENT, NOW + 60])
names = ("SLACK", "SMS", "SLACKER")
effectives = st.sampled_from([needing(*some) for some in [("SLACK",), ("SMS", "SLACK"), ("SLACKER",)]])
rows = st.lists(
    st.builds(
        dict,
        effective=effectives,
        priority=st.sampled_from(Priority),
        status=st.sampled_from([Status.PENDING, Status.PENDING, Status.PENDING, *Status]),
        dedup_owner_id=st.sampled_from([None, None, None, "n0"]),
        next_attempt=instants,
        lease_until=st.one_of(st.just(0.0), instants),
        ack_status=st.sampled_from([None, Ack.PENDING, Ack.PENDING, Ack.ACKED]),
        deadline=st.one_of(st.none(), instants),
    ),
    max_size=12,
)
events = st.lists(
    st.builds(
        dict,
        callback_pending=st.sampled_from([True, True, True, False]),
        callback_until=instants,
        callback_attempts=st.integers(0, 4),
        callback_token=st.sampled_from([None, "t1", "t2"]),
        at=instants,
    ),
    max_size=12,
)
limits = st.integers(1, 13)
KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite-memory"])
few = settings(max_examples=40, deadline=None)


@contextmanager
def holding(kind, *held):
    """
    A store at ``NOW`` with these rows.
    """
    with TemporaryDirectory() as folder, open_store(kind, ManualClock(NOW), Path(folder)) as store:
        store.transact(put(*held))
        yield store


def notifications(drawn):
    return [a_notification(f"n{n:02}", **fields) for n, fields in enumerate(drawn)]


@KINDS
@few
@given(drawn=rows, channels=st.sets(st.sampled_from(names)), limit=limits)
def test_no_claimable_row_is_left_out(kind, drawn, channels, limit):
    """
    Of all rows that the rule accepts, the first ``limit`` by the dispatch order are proposed.
    """
    stored = notifications(drawn)
    accepted = [
        row for row in stored if lease.claimable(row, NOW) and lease.servable(row, frozenset(channels))
    ]
    with holding(kind, *stored) as store:
        proposed = store.transact(asked(Due(tuple(sorted(channels)), limit)))

    assert {row.id for row in lease.in_order(accepted, NOW)[:limit]} <= {row.id for row in proposed}
    assert all(row in stored for row in proposed)


@KINDS
@few
@given(drawn=rows, at=instants, limit=limits)
def test_no_overdue_row_is_left_out(kind, drawn, at, limit):
    """
    Of all rows that the rule times out, the ``limit`` with the earliest deadlines are proposed.
    """
    stored = notifications(drawn)
    late = [row for row in stored if ack.time_out(row, callback=False, stamp=Stamp(IDS, at)).reply]
    late.sort(key=lambda row: (row.deadline, row.id))
    with holding(kind, *stored) as store:
        proposed = store.transact(asked(Overdue(at, limit)))

    assert late[:limit] == [row for row in proposed if row in late]


@KINDS
@few
@given(drawn=events, limit=limits, tokens=st.sampled_from([(), ("t1",), ("t1", "t2")]))
def test_no_due_callback_is_left_out(kind, drawn, limit, tokens):
    """
    All callbacks that the asker holds, and then all that the rule lets it claim, are proposed in
    order, up to the limit.
    """
    stored = [an_event(f"e{n:02}", **fields) for n, fields in enumerate(drawn)]
    stored.sort(key=lambda e: (e.callback_until, e.at, e.id))
    held = [e for e in stored if e.callback_pending and e.callback_token in tokens]
    due = [e for e in stored if callbacks.claimable(e, NOW) and e not in held]
    with holding(kind, *stored) as store:
        proposed = store.transact(asked(CallbacksDue(callbacks.CALLBACK_ATTEMPTS, limit, tokens)))

    assert [*held, *due][:limit] == proposed


@KINDS
@few
@given(drawn=events, limit=limits)
def test_no_exhausted_callback_is_left_out(kind, drawn, limit):
    """
    All callbacks that the rule calls exhausted are shown, the oldest first.
    """
    stored = [an_event(f"e{n:02}", **fields) for n, fields in enumerate(drawn)]
    stuck = sorted((e for e in stored if callbacks.exhausted(e, NOW)), key=lambda e: (e.at, e.id))
    with holding(kind, *stored) as store:
        proposed = store.transact(asked(CallbacksExhausted(callbacks.CALLBACK_ATTEMPTS, limit)))

    assert stuck[:limit] == proposed
