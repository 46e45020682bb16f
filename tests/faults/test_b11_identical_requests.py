"""
B11: identical requests at once are one acceptance and replays of it, and break nothing after them.
"""

import asyncio
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing, contextmanager

import httpx2
import pytest

from kit.builders import a_request
from kit.children import Noted, noted, send_the_same
from kit.processes import children
from kit.receiver import LOOPBACK, answers, receiving
from kit.runtimes import PRINCIPAL, a_document, policy_folder
from kit.servers import postgres_database
from kit.service import serving as serve
from kit.waiting import until
from kit.web import ASYNC, NOTIFICATIONS, PRODUCER, a_body
from uns import ChannelResult, Conflict

MANY = 30


class Gate:
    """
    A receiver that takes its time: until it is opened.
    """

    def __init__(self):
        self.calls = []
        self.open = asyncio.Event()

    async def send(self, message):
        self.calls.append(message)
        await self.open.wait()
        return ChannelResult(True)


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def gated(open_runtime, in_force, gate):
    runtime = open_runtime({"PAGER": gate})
    in_force(runtime, a_document(dedup_window_seconds=300))
    return runtime


def same():
    return a_request(idempotency_key="k-1")


def one_acceptance(sent):
    """
    Whether one of ``sent`` is the acceptance and all others replays of it.
    """
    return len({each.notification_id for each in sent}) == 1 and Counter({True: len(sent) - 1, False: 1}) == (
        Counter(each.idempotent_replay for each in sent)
    )


@pytest.mark.parametrize("url", ["file", "memory"], indirect=True)
async def test_tasks(gated, gate):
    """
    B11: given a slow receiver, when 30 tasks send the same request, then there is one id, 29 are
    replays that return before the receiver does, and it is called once.
    """
    sending = [asyncio.ensure_future(gated.send(same(), principal=PRINCIPAL)) for _ in range(MANY)]
    await until(lambda: sum(task.done() for task in sending) == MANY - 1)
    assert {"PENDING"} == {task.result().status for task in sending if task.done()}
    gate.open.set()
    sent = await asyncio.gather(*sending)
    unrelated = await asyncio.gather(
        *(gated.send(a_request(title=f"alert {n}"), principal=PRINCIPAL) for n in range(100))
    )

    assert one_acceptance(sent)
    assert {"DELIVERED"} == {each.status for each in unrelated}
    assert 101 == len(gate.calls)


@pytest.mark.parametrize("url", ["file", "memory"], indirect=True)
@pytest.mark.parametrize("face", ["accept", "send"])
def test_threads(face, runtime, channel):
    """
    B11: given 30 threads, when they put in the same request at once, by either face, then there is
    one id, 29 replays and one call; and 100 unrelated requests go through afterwards.
    """

    def put(request):
        if face == "accept":
            return runtime.accept(request, principal=PRINCIPAL)
        return asyncio.run(runtime.send(request, principal=PRINCIPAL))

    with ThreadPoolExecutor(MANY) as threads:
        sent = list(threads.map(put, [same()] * MANY))
        unrelated = list(threads.map(put, [a_request() for _ in range(100)]))
    asyncio.run(runtime.run_once())
    asyncio.run(runtime.run_once())

    assert one_acceptance(sent)
    assert 100 == len({each.notification_id for each in unrelated})
    assert 101 == len(channel.calls)


def test_processes(url, runtime, tmp_path):
    """
    B11: given two processes, when each sends the same request 15 times at once, then there is one
    id in all answers, 29 of them are replays, and the receiver was called once.
    """
    notes, start = tmp_path / "notes", tmp_path / "start"
    arguments = (url, start, {"PAGER": Noted(notes)}, MANY // 2)
    with children(send_the_same, arguments, arguments) as two:
        start.touch()
        answers = [answer for child in two for answer in child.result()]

    assert MANY == len(answers)
    assert 1 == len({id for id, _ in answers})
    assert Counter({True: MANY - 1, False: 1}) == Counter(replayed for _, replayed in answers)
    assert [answers[0][0]] == noted(notes)
    asyncio.run(runtime.send(a_request(), principal=PRINCIPAL))


async def test_a_replay_tells_how_the_first_one_stands_now(runtime, clock):
    """
    B11: given a request sent long ago, when it comes again, even under a policy that has changed
    since, then the answer is the stored row's present state.
    """
    first = await runtime.send(same(), principal=PRINCIPAL)
    clock.advance(86_400)
    again = await runtime.send(same(), principal=PRINCIPAL)

    assert again.idempotent_replay
    assert ("DELIVERED", first.created_at) == (again.status, again.created_at)
    assert [] == [e for e in runtime.events(first.notification_id) if e["at"] == clock.now()]


SCOPES = [
    ({"principal": "agent-8"}, True),
    ({"source": "billing"}, True),
    ({"idempotency_key": "k-2"}, True),
    ({"idempotency_key": None}, True),
    ({"title": "another"}, False),
]


@pytest.mark.parametrize(("change", "accepted"), SCOPES)
def test_a_key_is_one_principals_for_one_source(change, accepted, runtime):
    """
    B11: another principal, source or key makes another request of it; other content under the same
    key is a conflict that stores nothing.
    """
    first = runtime.accept(same(), principal=PRINCIPAL)
    principal = change.pop("principal", PRINCIPAL)
    request = a_request(**({"idempotency_key": "k-1"} | change))
    if not accepted:
        with pytest.raises(Conflict, match="Idempotency key reused"):
            runtime.accept(request, principal=principal)
        assert runtime.accept(same(), principal=PRINCIPAL).idempotent_replay
        return
    other = runtime.accept(request, principal=principal)

    assert not other.idempotent_replay
    assert first.notification_id != other.notification_id


async def test_http(serving):
    """
    B11: given a receiver that takes its time, when 30 clients post the same request at once, then
    there is one id, 29 are replays answered before the receiver is done, it is called once, and a
    hundred unrelated requests all succeed afterwards.
    """
    gate = Gate()
    async with serving(work=True, adapters={"PAGER": gate}, settings={"send_wait_seconds": 20.0}) as web:
        body = a_body(idempotency_key="k-1")
        posted = [asyncio.ensure_future(web.post(NOTIFICATIONS, body)) for _ in range(MANY)]
        await until(lambda: sum(task.done() for task in posted) == MANY - 1)
        gate.open.set()
        sent = [answer.json for answer in await asyncio.gather(*posted)]
        others = (web.post(NOTIFICATIONS, a_body(title=f"alert {n}")) for n in range(100))
        unrelated = [(answer.status, answer.json["status"]) for answer in await asyncio.gather(*others)]

    assert 1 == len({each["notification_id"] for each in sent})
    assert Counter({True: MANY - 1, False: 1}) == Counter(each["idempotent_replay"] for each in sent)
    assert {(202, "DELIVERED")} == set(unrelated)
    assert 101 == len(gate.calls)


async def test_http_again_and_again(serving):
    """
    B11: given a request that was accepted, when it comes again, one after another, then each answer has
    its id and the state it is in by then; another content under the key is a 409 that stores nothing,
    and the same under another caller's key, or for another source, is another request.
    """
    body = a_body(idempotency_key="k-1")
    async with serving() as web:
        first = await web.post(NOTIFICATIONS, body, headers=ASYNC)
        waiting = [await web.post(NOTIFICATIONS, body, headers=ASYNC) for _ in range(3)]
        await web.runtime.run_once()
        delivered = [await web.post(NOTIFICATIONS, body) for _ in range(3)]
        other = await web.post(NOTIFICATIONS, body | {"message": "another"}, headers=ASYNC)
        others = [
            await web.post(NOTIFICATIONS, body, key=PRODUCER, headers=ASYNC),
            await web.post(NOTIFICATIONS, body | {"source": "billing"}, headers=ASYNC),
        ]
        again = await web.post(NOTIFICATIONS, body)
        stored = await count_of(web)
    replays = [answer.json for answer in (*waiting, *delivered, again)]

    assert (202, False) == (first.status, first.json["idempotent_replay"])
    assert {(first.json["notification_id"], True)} == {
        (each["notification_id"], each["idempotent_replay"]) for each in replays
    }
    assert ["PENDING"] * 3 + ["DELIVERED"] * 4 == [each["status"] for each in replays]
    assert (409, "conflict") == (other.status, other.code)
    assert [False, False] == [each.json["idempotent_replay"] for each in others]
    assert 3 == len({first.json["notification_id"], *(each.json["notification_id"] for each in others)})
    assert 3 == stored


async def count_of(web):
    """
    How many notifications are stored: what a worker finds to do, and what it has done.
    """
    with closing(
        sqlite3.connect(web.container.settings().database_url.removeprefix("sqlite:///"))
    ) as database:
        return database.execute("SELECT count(*) FROM uns_notifications").fetchone()[0]


@contextmanager
def a_database(kind, folder):
    """
    The URL of an empty one.
    """
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'uns.db'}"
        return
    with postgres_database() as url:
        yield url


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_connections_to_two_services(tmp_path, database):
    """
    B11: given two services on one database and a receiver that takes its time, when 30 connections,
    half of them to each, post the same request at once, then there is one id, 29 are replays answered
    before the receiver is done, it is called once, and a hundred unrelated requests all succeed.
    """
    opened = asyncio.Event()

    async def takes_its_time(writer):
        await opened.wait()
        await answers()(writer)

    async with receiving(takes_its_time) as receiver, AsyncExitStack() as running:
        environ = {
            "UNS_DATABASE_URL": running.enter_context(a_database(database, tmp_path)),
            "UNS_API_KEY": "key",
            "UNS_POLICY_DIR": str(policy_folder(tmp_path / "policies", to(receiver.url()))),
            "UNS_EGRESS_ALLOW": LOOPBACK,
            "UNS_SEND_WAIT_SECONDS": "20",
        }
        ports = [running.enter_context(serve(environ, log=tmp_path / f"log{n}")) for n in range(2)]
        clients = [await running.enter_async_context(a_client(port)) for port in ports]

        def post(n, body):
            return asyncio.ensure_future(clients[n % 2].post(NOTIFICATIONS, json=body))

        posted = [post(n, a_body(idempotency_key="k-1")) for n in range(MANY)]
        await until(lambda: sum(task.done() for task in posted) == MANY - 1)
        opened.set()
        sent = [answer.json() for answer in await asyncio.gather(*posted)]
        unrelated = await asyncio.gather(*(post(n, a_body(title=f"alert {n}")) for n in range(100)))

    assert 1 == len({each["notification_id"] for each in sent})
    assert Counter({True: MANY - 1, False: 1}) == Counter(each["idempotent_replay"] for each in sent)
    assert {(202, "DELIVERED")} == {(answer.status_code, answer.json()["status"]) for answer in unrelated}
    assert 101 == len(receiver.requests)
    assert 1 == sum(sent[0]["notification_id"] in request.body.decode() for request in receiver.requests)


def to(url):
    return a_document(channels={"primary": ["WEBHOOK"]}, targets={"WEBHOOK": {"url": url}})


def a_client(port):
    """
    As many connections as there are requests at once.
    """
    return httpx2.AsyncClient(
        base_url=f"http://{LOOPBACK}:{port}",
        headers={"Authorization": "Bearer key"},
        timeout=30,
        limits=httpx2.Limits(max_connections=100),
    )
