"""
B06: one slow destination holds up nobody else's deliveries, nor their requests, nor the probes.
"""

import asyncio
import signal
import time
from contextlib import asynccontextmanager

import httpx2

from kit.receiver import LOOPBACK, answers, hangs, receiving
from kit.runtimes import a_document, policy_folder
from kit.service import served
from kit.waiting import until
from kit.web import ASYNC, NOTIFICATIONS, a_body

EACH = 20
SLOTS = 12
"""Fewer than there are notifications for the receiver that hangs."""

SECONDS = 4.0
"""A few seconds: less than the ten that one call to the slow receiver takes."""


def to(name, url):
    """
    A policy that sends ``name.*`` to a URL.
    """
    channels, targets = {"primary": ["WEBHOOK"]}, {"WEBHOOK": {"url": url}}
    return a_document(name, notification_type=f"{name}.*", channels=channels, targets=targets)


@asynccontextmanager
async def a_client(tmp_path, *documents):
    """
    A client of a service with few slots. It is killed in the end: the calls that hang would keep it.
    """
    environ = {
        "UNS_DATABASE_URL": f"sqlite:///{tmp_path / 'uns.db'}",
        "UNS_API_KEY": "key",
        "UNS_POLICY_DIR": str(policy_folder(tmp_path / "policies", *documents)),
        "UNS_EGRESS_ALLOW": LOOPBACK,
        "UNS_WORKER_CONCURRENCY": str(SLOTS),
    }
    with served("uns.app:app", environ, log=tmp_path / "log", end=signal.SIGKILL) as port:
        url, headers = f"http://{LOOPBACK}:{port}", {"Authorization": "Bearer key"}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
            yield client


async def posted(client, name, count, **more):
    """
    What each of ``count`` requests was answered, one after another.
    """
    bodies = [a_body(notification_type=f"{name}.x", title=f"{name} {n}") for n in range(count)]
    return [(await client.post(NOTIFICATIONS, json=body, **more)).json() for body in bodies]


async def probing(client, stop):
    """
    How long each look at the probe took, one after another until ``stop``.
    """
    took = []
    while not stop.is_set():
        begun = time.monotonic()
        assert 200 == (await client.get("/healthz")).status_code
        took.append(time.monotonic() - begun)
        await asyncio.sleep(0.02)
    return took


async def all_delivered(client, sent):
    """
    Whether all of ``sent`` are, by now.
    """
    looks = [(await client.get(f"{NOTIFICATIONS}/{each['notification_id']}")).json() for each in sent]
    return {"DELIVERED"} == {look["status"] for look in looks}


async def test_a_receiver_that_hangs_holds_up_nobody_else(tmp_path):
    """
    B06: given twenty notifications for a receiver that hangs and twenty for a healthy one, accepted
    in that order, then the healthy ones are delivered within a few seconds, a request for the healthy
    one is answered with its delivery meanwhile, and the probe answers throughout.
    """
    async with (
        receiving(hangs()) as slow,
        receiving(answers()) as healthy,
        a_client(tmp_path, to("slow", slow.url()), to("quick", healthy.url())) as client,
    ):
        stop = asyncio.Event()
        probes = asyncio.ensure_future(probing(client, stop))
        await posted(client, "slow", EACH, headers=ASYNC)
        begun = time.monotonic()
        quick = await posted(client, "quick", EACH, headers=ASYNC)
        (waited,) = await posted(client, "quick", 1)
        await until(lambda: len(healthy.requests) > EACH, SECONDS)
        took = time.monotonic() - begun
        stop.set()
        looks = await probes

        assert "DELIVERED" == waited["status"]
        assert await all_delivered(client, quick)
        assert took < SECONDS
        assert SLOTS // 4 == len(slow.requests)
        assert (True, True) == (len(looks) > 5, max(looks) < 1.0)


async def test_several_receivers_that_hang_hold_up_nobody_else(tmp_path):
    """
    B06: given receivers that hang, each with more than it could ever take, then a healthy one is
    served within a few seconds all the same.
    """
    async with (
        receiving(hangs()) as first,
        receiving(hangs()) as second,
        receiving(hangs()) as third,
        receiving(answers()) as healthy,
    ):
        slow = [to(f"slow{n}", each.url()) for n, each in enumerate((first, second, third))]
        async with a_client(tmp_path, *slow, to("quick", healthy.url())) as client:
            for n in range(3):
                await posted(client, f"slow{n}", EACH, headers=ASYNC)
            begun = time.monotonic()
            quick = await posted(client, "quick", EACH)
            took = time.monotonic() - begun

    assert {"DELIVERED"} == {each["status"] for each in quick}
    assert took < SECONDS
