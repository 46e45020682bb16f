"""
B20: a response ends in one way, by an answer before the deadline or by the deadline itself.
"""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.builders import a_request
from kit.runtimes import PRINCIPAL, a_document
from kit.waiting import until
from uns import Conflict

MINUTES = 15
TERMINAL = {"ACKED", "DISMISSED", "TIMED_OUT"}


@pytest.fixture
def told():
    return []


@pytest.fixture
def runtime(open_runtime, in_force, channel, told):
    async def callback(event):
        told.append((event["notification_id"], event["kind"]))

    runtime = open_runtime({"PAGER": channel}, callback=callback)
    in_force(runtime, a_document(require_ack=True, ack_timeout_minutes=MINUTES))
    return runtime


@pytest.fixture
def asked(runtime):
    """
    Delivers so many notifications that await an answer; their ids.
    """

    def asked(times):
        async def send():
            requests = [a_request() for _ in range(times)]
            return await asyncio.gather(*(runtime.send(request, principal=PRINCIPAL) for request in requests))

        return [sent.notification_id for sent in asyncio.run(send())]

    return asked


def ends_of(runtime, id):
    return [event["kind"] for event in runtime.events(id) if event["kind"] in TERMINAL]


def test_the_deadline_is_the_policys_from_the_delivery(runtime, clock, asked):
    """
    B20: a delivered notification awaits its answer for as long as its policy says.
    """
    row = runtime.get(asked(1)[0])

    assert ("PENDING", clock.now() + 60 * MINUTES) == (row["ack_status"], row["deadline"])


@pytest.mark.parametrize("late", [0.0, 0.001, 5.0, 86_400.0])
@pytest.mark.parametrize("dismiss", [False, True])
def test_an_answer_at_the_deadline_or_later_is_refused(late, dismiss, runtime, clock, asked):
    """
    B20 (a): given no sweeper, when the answer comes at the deadline or later, then it is refused
    each time, and the response is timed out later.
    """
    (id,) = asked(1)
    clock.set(runtime.get(id)["deadline"] + late)
    for _ in range(2):
        with pytest.raises(Conflict) as refused:
            runtime.acknowledge(id, actor="ann", dismiss=dismiss)
        assert ("DEADLINE_PASSED", 409) == (refused.value.reason, refused.value.status)
    assert "PENDING" == runtime.get(id)["ack_status"]
    runtime.expire()

    row = runtime.get(id)
    assert ("TIMED_OUT", "uns-timeout-worker") == (row["ack_status"], row["actor"])
    assert {"escalation_required": True} == row["response_metadata"]
    assert ["TIMED_OUT"] == ends_of(runtime, id)
    with pytest.raises(Conflict):
        runtime.acknowledge(id, actor="ann", dismiss=dismiss)


def test_an_answer_just_before_it_counts_for_good(runtime, clock, asked):
    """
    B20 (b): given an answer a millisecond before the deadline, when the deadlines are swept later,
    then it stands, and its repetition gives the first instant again.
    """
    (id,) = asked(1)
    clock.set(runtime.get(id)["deadline"] - 0.001)
    answered = runtime.acknowledge(id, actor="ann")
    clock.advance(86_400)
    runtime.expire()
    again = runtime.acknowledge(id, actor="ann")

    assert "ACKED" == runtime.get(id)["ack_status"]
    assert answered == again
    assert ["ACKED"] == ends_of(runtime, id)


@pytest.mark.parametrize(
    ("at", "ack_status"), [(-0.001, "PENDING"), (0.0, "TIMED_OUT"), (0.001, "TIMED_OUT")]
)
@pytest.mark.parametrize("given", [True, False])
def test_the_sweep_takes_what_is_due_at_its_instant(at, ack_status, given, runtime, clock, asked):
    """
    B20: given an instant, or the clock's, when the deadlines are swept, then a response is timed
    out from its deadline on, not before.
    """
    (id,) = asked(1)
    instant = runtime.get(id)["deadline"] + at
    if not given:
        clock.set(instant)
    assert runtime.expire(now=instant if given else None) is None

    assert ack_status == runtime.get(id)["ack_status"]


def test_a_race_has_one_winner_for_each(runtime, clock, asked, told):
    """
    B20 (c): given 50 responses, when one thread sweeps at the deadline while eight answer, then
    each has one terminal event and one callback, and an answer was accepted just where it stands.
    """
    ids = asked(50)
    deadline = runtime.get(ids[0])["deadline"]
    clock.set(deadline - 0.001)

    def answer(id):
        try:
            return runtime.acknowledge(id, actor="ann").ack_status
        except Conflict:
            return None

    with ThreadPoolExecutor(9) as threads:
        answering = [threads.submit(answer, id) for id in ids[: len(ids) // 2]]
        sweeping = threads.submit(runtime.expire, now=deadline)
        answering += [threads.submit(answer, id) for id in ids[len(ids) // 2 :]]
        accepted = [future.result() for future in answering]
        sweeping.result()
    clock.set(deadline)
    asyncio.run(runtime.deliver_callbacks())

    stand = [runtime.get(id)["ack_status"] for id in ids]
    assert [status if status == "ACKED" else None for status in stand] == accepted
    assert {"ACKED", "TIMED_OUT"} >= set(stand)
    assert [[status] for status in stand] == [ends_of(runtime, id) for id in ids]
    assert Counter((str(id), status) for id, status in zip(ids, stand, strict=True)) == Counter(told)


@pytest.mark.parametrize("sweepers", [1, 2])
def test_the_sweep_comes_in_hundreds(sweepers, open_runtime, runtime, clock, asked):
    """
    B20 (d): given 250 responses due at once, when they are swept again and again, by one process
    or two, then each sweep takes a hundred at most and the third leaves none.
    """
    ids = asked(250)
    others = [runtime, open_runtime()][:sweepers]
    clock.advance(60 * MINUTES)
    left = []
    for n in range(4):
        others[n % sweepers].expire()
        left.append(sum(runtime.get(id)["ack_status"] == "PENDING" for id in ids))

    assert [150, 50, 0, 0] == left
    assert all(ends_of(runtime, id) == ["TIMED_OUT"] for id in ids)


@pytest.mark.parametrize("face", ["run_once", "worker"])
def test_a_round_leaves_none(face, runtime, clock, asked, told):
    """
    B20 (d): given 250 responses due at once, when a worker makes a round, then none is left.
    """
    ids = asked(250)
    clock.advance(60 * MINUTES)

    async def work():
        if face == "run_once":
            await runtime.run_once()
            return
        at_work = asyncio.ensure_future(runtime.worker())
        await until(lambda: len(told) == len(ids))
        at_work.cancel()
        await asyncio.wait({at_work})

    asyncio.run(work())

    assert {"TIMED_OUT"} == {runtime.get(id)["ack_status"] for id in ids}
    assert len(told) == (250 if face == "worker" else 0)


def test_two_who_answer_at_once(runtime, asked):
    """
    B20: given one response, when ten people answer it at once, then one answer was accepted and
    nine are conflicts.
    """
    (id,) = asked(1)

    def answer(n):
        try:
            return runtime.acknowledge(id, actor=f"ann-{n}", dismiss=n % 2 == 0).acked_by
        except Conflict:
            return None

    with ThreadPoolExecutor(10) as threads:
        accepted = [name for name in threads.map(answer, range(10)) if name is not None]

    assert [runtime.get(id)["actor"]] == accepted
    assert 1 == len(ends_of(runtime, id))


def test_nothing_is_swept_that_awaits_no_answer(runtime, clock, asked, in_force):
    """
    B20: given notifications answered, not delivered yet, and in need of no answer, when a sweep
    comes much later, then it leaves them alone.
    """
    answered, dismissed = asked(2)
    runtime.acknowledge(answered, actor="ann")
    runtime.acknowledge(dismissed, actor="ann", dismiss=True)
    waiting = runtime.accept(a_request(), principal=PRINCIPAL).notification_id
    in_force(runtime, a_document())
    (plain,) = asked(1)
    before = [runtime.get(id) for id in (answered, dismissed, waiting, plain)]
    clock.advance(30 * 86_400)
    runtime.expire()

    assert before == [runtime.get(id) for id in (answered, dismissed, waiting, plain)]
