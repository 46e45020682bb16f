"""
Signals that wait: each once, in order, in bounds.
"""

import threading

from uns.adapters.pubsub.outbox import MOST_SUBJECTS, Outbox
from uns.ports.decision import Signal, SignalKind

DUE, SETTLED, POLICIES = SignalKind.DUE, SignalKind.SETTLED, SignalKind.POLICIES


def signals(kind, *subjects):
    return [Signal(kind, subject) for subject in subjects]


def test_each_signal_waits_once():
    """
    In the order in which they came, by kind; what is taken waits no more.
    """
    outbox = Outbox()
    outbox.add([*signals(SETTLED, "b", "a"), *signals(DUE, "x"), *signals(SETTLED, "b", "c")])

    assert outbox
    assert {SETTLED: ("b", "a", "c"), DUE: ("x",)} == outbox.take()
    assert not outbox
    assert {} == outbox.take()


def test_the_first_to_wait_is_told_apart():
    """
    Whoever adds the first has to wake the sender; nobody else, and no one who adds nothing.
    """
    outbox = Outbox()

    assert [False, True, False] == [outbox.add(each) for each in ((), signals(DUE, "a"), signals(DUE, "b"))]
    outbox.take()

    assert outbox.add(signals(DUE, "a"))


def test_many_become_a_hint():
    """
    So many subjects of a kind are kept, and for one more only the hint; other kinds keep theirs.
    """
    outbox = Outbox()
    subjects = [f"n{n}" for n in range(MOST_SUBJECTS)]
    outbox.add([*signals(SETTLED, *subjects, *subjects), *signals(DUE, "x")])

    assert {SETTLED: tuple(subjects), DUE: ("x",)} == outbox.take()
    outbox.add([*signals(SETTLED, *subjects, "more", "still more"), *signals(DUE, "x")])

    assert {SETTLED: ("",), DUE: ("x",)} == outbox.take()


def test_a_hint_stands_for_all():
    """
    Whether it comes first or last.
    """
    outbox = Outbox()
    for subjects in (("", "a"), ("a", ""), ("", "")):
        outbox.add(signals(SETTLED, *subjects))

        assert {SETTLED: ("",)} == outbox.take()


def test_of_revisions_the_last_counts():
    """
    It is the one in force, whichever number it has, or none.
    """
    outbox = Outbox()
    for revisions, last in ((("7", "8"), "8"), (("8", "7"), "7"), (("7", ""), ""), (("", "7"), "7")):
        outbox.add(signals(POLICIES, *revisions))

        assert {POLICIES: (last,)} == outbox.take()


def test_what_was_put_back_comes_first():
    """
    Before what was added in the meantime, and a later revision still counts.
    """
    outbox = Outbox()
    outbox.add([*signals(SETTLED, "a", "b"), *signals(POLICIES, "7")])
    taken = outbox.take()
    outbox.add([*signals(SETTLED, "c", "a"), *signals(DUE, "x"), *signals(POLICIES, "8")])
    outbox.put_back(taken)

    assert {SETTLED: ("a", "b", "c"), POLICIES: ("8",), DUE: ("x",)} == outbox.take()


def test_nothing_is_lost_between_threads():
    """
    Given threads that add while another takes, then each signal is taken once.
    """
    outbox, taken, done = Outbox(), [], threading.Event()

    def take():
        while not done.is_set() or outbox:
            taken.extend(subject for subjects in outbox.take().values() for subject in subjects)

    taker = threading.Thread(target=take)
    adders = [
        threading.Thread(
            target=lambda n=n: [outbox.add(signals(SETTLED, f"{n}-{i}")) for i in range(MOST_SUBJECTS // 4)]
        )
        for n in range(4)
    ]
    for thread in (taker, *adders):
        thread.start()
    for thread in adders:
        thread.join()
    done.set()
    taker.join()

    assert sorted(f"{n}-{i}" for n in range(4) for i in range(MOST_SUBJECTS // 4)) == sorted(taken)
