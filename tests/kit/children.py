"""
What other processes do in tests of more than one.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kit.builders import a_request
from kit.waiting import soon, until
from uns import (
    ChannelMessage,
    ChannelResult,
    Conflict,
    NotFound,
    Runtime,
    SimpleAdapterRegistry,
    UnsError,
)
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.policy_files import packaged_policies
from uns.adapters.pubsub.postgres import postgres_pubsub
from uns.adapters.pubsub.redis import redis_pubsub
from uns.entrypoints.wiring import Options, assemble, open_ledger
from uns.ports.decision import Signal, SignalKind
from uns.ports.store import Plan, Store, idle

FIRST_CYCLE = 1
NOBODY = 65_534
MEET_SECONDS = 20.0


def die() -> None:
    """
    What no process survives, and what none of its code hears of.
    """
    os.kill(os.getpid(), signal.SIGKILL)


class Noted:
    """
    A channel that notes each call as one line in a file that processes share.

    Args:
        fatal: the process dies once the call is noted.
    """

    def __init__(self, notes: Path, *, fatal: bool = False) -> None:
        self._notes = notes
        self._fatal = fatal

    async def send(self, message: ChannelMessage) -> ChannelResult:
        with self._notes.open("a") as notes:
            notes.write(f"{message.notification.id}\n")
        if self._fatal:
            die()
        return ChannelResult(True)


class Fatal:
    """
    A callback that its process does not survive.
    """

    async def __call__(self, event: dict[str, Any]) -> None:
        die()


def noted(notes: Path) -> list[str]:
    """
    The ids of the calls so far, in order.
    """
    return notes.read_text().split() if notes.exists() else []


class Mortal:
    """
    A store whose process dies at its ``dies_at``-th group of plans, before or after the commit.
    """

    def __init__(self, store: Store, dies_at: int, *, after: bool) -> None:
        self._store = store
        self._left = dies_at
        self._after = after

    def transact_many(self, plans: Sequence[Plan[Any]], meanwhile: Callable[[], None] = idle) -> list[Any]:
        self._left -= 1
        if self._left == 0 and not self._after:
            die()
        replies = self._store.transact_many(plans, meanwhile)
        if self._left == 0:
            die()
        return replies

    def transact(self, plan: Plan[Any]) -> Any:
        return self._store.transact(plan)

    def read(self, plan: Plan[Any]) -> Any:
        return self._store.read(plan)

    def close(self) -> None:
        self._store.close()


def work(url: str, now: float, adapters: dict[str, Any], face: str, *arguments: Any) -> Any:
    """
    Open a runtime whose clock stands still, and await one of its methods.
    """
    registry = SimpleAdapterRegistry(adapters)
    with Runtime(url, adapters=registry, clock=lambda: now, callback=adapters.get("callback")) as runtime:
        return asyncio.run(getattr(runtime, face)(*arguments))


def send_and_die(url: str, now: float, adapters: dict[str, Any]) -> Any:
    """
    Send one request in a process whose adapter kills it.
    """
    registry = SimpleAdapterRegistry(adapters)
    with Runtime(url, adapters=registry, clock=lambda: now) as runtime:
        return asyncio.run(runtime.send(a_request(), principal="agent-7"))


def work_mortally(
    url: str, now: float, notes: Path, face: str, dies_at: int, after: bool, *arguments: Any
) -> Any:
    """
    The same, in a process that dies at a commit.
    """
    registry = SimpleAdapterRegistry({"PAGER": Noted(notes)})
    options = Options(clock=lambda: now)
    store = Mortal(open_ledger(url, registry, options).store, dies_at, after=after)
    with Runtime.over(assemble(store, InProcessPubSub(), registry, options), registry) as runtime:
        return asyncio.run(getattr(runtime, face)(*arguments))


def send_the_same(url: str, start: Path, adapters: dict[str, Any], times: int) -> list[tuple[str, bool]]:
    """
    Send one request so many times at once, when ``start`` is there; the id and whether it was a replay.
    """

    async def send(runtime: Runtime) -> list[tuple[str, bool]]:
        request = a_request(idempotency_key="k-1")
        await until(start.exists)
        sent = await asyncio.gather(*(runtime.send(request, principal="agent-7") for _ in range(times)))
        return [(str(each.notification_id), each.idempotent_replay) for each in sent]

    with Runtime(url, adapters=SimpleAdapterRegistry(adapters)) as runtime:
        return asyncio.run(send(runtime))


class Fickle(Noted):
    """
    Fails in the first delivery cycle of each notification, and is noted in later ones.
    """

    async def send(self, message: ChannelMessage) -> ChannelResult:
        if f":{FIRST_CYCLE}:" in message.idempotency_token:
            return ChannelResult(False, error="not today")
        return await super().send(message)


def live(url: str, start: Path, adapters: dict[str, Any], clients: int, times: int) -> list[str]:
    """
    A process under load: a worker, and clients that accept, answer, replay and read; the ids accepted.
    """

    def serve(runtime: Runtime) -> list[str]:
        accepted = []
        for n in range(times):
            type = ("plain.one", "ask.me", "fickle.one", "plain.two")[n % 4]
            sent = runtime.accept(a_request(notification_type=type), principal="agent-7")
            accepted.append(str(sent.notification_id))
            runtime.simulate(a_request(), principal="agent-7")
            if type == "ask.me":
                _meet(runtime, accepted[-1], "DELIVERED")
                runtime.acknowledge(accepted[-1], actor="ann")
            if type == "fickle.one":
                _meet(runtime, accepted[-1], "FAILED")
                runtime.dead_letters()
                runtime.replay(accepted[-1], actor="ann")
        for id in accepted:
            _meet(runtime, id, "DELIVERED")
            runtime.events(id)
        return accepted

    async def run(runtime: Runtime) -> list[str]:
        await until(start.exists)
        stop = asyncio.Event()
        working = asyncio.ensure_future(runtime.worker(stop))
        accepted = await asyncio.gather(*(asyncio.to_thread(serve, runtime) for _ in range(clients)))
        stop.set()
        await working
        return [id for ids in accepted for id in ids]

    with Runtime(url, adapters=SimpleAdapterRegistry(adapters), max_attempts=1) as runtime:
        return asyncio.run(run(runtime))


class Fitful:
    """
    A channel that fails every third time.
    """

    def __init__(self) -> None:
        self._calls = 0

    async def send(self, message: ChannelMessage) -> ChannelResult:
        self._calls += 1
        return ChannelResult(self._calls % 3 != 0, error="not now", retryable=False)


def crowd_hot_keys(url: str, start: Path, keys: int, seconds: float) -> list[float]:
    """
    Accept, settle, answer, withdraw and replay on a few dedup keys; how long each call took.

    That somebody else was quicker is no error.
    """
    waits: list[float] = []
    clients = 8

    async def call(work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        try:
            return await asyncio.to_thread(work)
        except (Conflict, NotFound):
            return None
        finally:
            waits.append(time.perf_counter() - begun)

    async def client(runtime: Runtime, n: int) -> None:
        chance, ends = random.Random(n), time.monotonic() + seconds
        while time.monotonic() < ends:
            request = a_request(dedup_key=f"hot{chance.randrange(keys)}", notification_type="ask.me")
            begun = time.perf_counter()
            sent = await runtime.send(request, principal="agent-7")
            waits.append(time.perf_counter() - begun)
            id = sent.notification_id
            answer = runtime.acknowledge if chance.random() < 1 / 2 else runtime.withdraw
            await call(partial(answer, id, actor=f"ann{n % 2}"))
            for letter in (await call(runtime.dead_letters))[:1]:
                await call(partial(runtime.replay, letter["id"], actor="ops"))
            await runtime.run_once()

    async def run(runtime: Runtime) -> None:
        await until(start.exists, MEET_SECONDS)
        await asyncio.gather(*(client(runtime, n) for n in range(clients)))

    with Runtime(url, adapters=SimpleAdapterRegistry({"FITFUL": Fitful()}), max_attempts=1) as runtime:
        asyncio.run(run(runtime))
    return waits


def _meet(runtime: Runtime, id: str, status: str) -> None:
    ends = time.monotonic() + MEET_SECONDS
    while runtime.get(id)["status"] != status:
        assert time.monotonic() < ends, f"{id} did not become {status}"
        time.sleep(0.01)


def accepts(url: str, create_tables: bool) -> tuple[str, str] | None:
    """
    The code and text of the error with which a runtime does not open, or does not accept, where the
    process has no privileges.
    """
    _give_up_privileges()
    try:
        ledger = open_ledger(url, None, Options(create_tables=create_tables, patience_seconds=0))
        with Runtime.over(ledger) as runtime:
            runtime.accept(a_request(), principal="agent-7")
    except UnsError as error:
        return error.code, str(error)
    return None


def reloads(url: str, folder: str) -> tuple[str, str] | None:
    """
    The code and text of the error with which policies are not loaded, where the process has no
    privileges.
    """
    _give_up_privileges()
    with Runtime(url) as runtime:
        try:
            runtime.reload_policies(folder)
        except UnsError as error:
            return error.code, str(error)
    return None


def _give_up_privileges() -> None:
    packaged_policies()  # what is loaded late is loaded while it may be read
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def answers_later(url: str, now: float, id: str, seconds: float) -> str:
    """
    Acknowledge a notification after a while; who did.
    """
    with Runtime(url, clock=lambda: now) as runtime:
        time.sleep(seconds)
        return runtime.acknowledge(id, actor="ann").acked_by


def outgrows_its_limit(url: str) -> dict[str, Any]:
    """
    Accept large requests until the files of this process may not grow, then with more room again.
    """
    file = Path(url.removeprefix("sqlite:///"))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    told: dict[str, Any] = {"accepted": [], "resumed": [], "refused": None}
    with Runtime.over(open_ledger(url, None, Options(patience_seconds=0))) as runtime:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        limit = max(path.stat().st_size for path in file.parent.glob("uns.db*")) + 200_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
        while told["refused"] is None:
            request = a_request(message="a" * 60_000, idempotency_key=f"k{len(told['accepted'])}")
            try:
                told["accepted"].append(str(runtime.accept(request, principal="agent-7").notification_id))
            except UnsError as error:
                told["refused"] = error.code, str(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        again = runtime.accept(request, principal="agent-7")
        assert not again.idempotent_replay
        told["resumed"].append(str(again.notification_id))
    told["accepted"] += told["resumed"]
    return told


def echo_signals(kind: str, url: str) -> list[str]:
    """
    Say that it listens until it is spoken to, and answer; the subjects it heard.
    """
    pubsub = redis_pubsub(url) if kind == "Redis" else postgres_pubsub(url)
    heard: list[Signal] = []
    pubsub.subscribe(heard.extend)
    try:
        soon(lambda: heard)
        heard.clear()
        pubsub.publish([Signal(SignalKind.CALLBACK, "listening")])
        soon(lambda: Signal(SignalKind.DUE, "ping") in heard)
        pubsub.publish([Signal(SignalKind.SETTLED, "pong")])
    finally:
        pubsub.close()
    return [each.subject for each in heard if each.kind is SignalKind.DUE]
