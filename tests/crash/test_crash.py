"""
``kill -9`` under load, again and again: what was accepted ends, and what went well is not done twice.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from itertools import count

import msgspec

from crash import service
from kit.commands import KEYS, OPERATOR
from kit.crowd import Crowd, a_body
from kit.receiver import LOOPBACK, answers, receiving
from kit.runtimes import a_document, policy_folder
from kit.servers import free_port
from kit.waiting import until
from uns.entrypoints.cli.remote import RemoteLedger

CLIENTS = 12
LOADED = 0.4
"""The most, in seconds, that it lives once it has accepted something."""

STARTING = 0.5, 0.25
"""The most that it lives from its start in some rounds, and in how many of them."""

LAPSES = 0.5
"""In how many rounds a minute passes before the next start: the leases of the dead are over."""

END_SECONDS = 60.0
BUSY, SLOW = 7, 5
"""Every so manieth call is turned away, or answered late."""


async def test_a_service_that_is_killed_again_and_again_keeps_its_promises(tmp_path, rounds):
    """
    Given a service under load, when it is killed at any moment and started again, then nothing that
    was accepted is lost, nothing that is on record as a success is sent again, and everything ends.
    """
    chance, port = random.Random(), free_port()
    known: dict[str, int] = {}
    async with receiving(_receiver()) as receiver:
        environ = _environ(tmp_path, receiver.url())
        async with Crowd(port, OPERATOR, clients=CLIENTS) as crowd:
            for _ in range(rounds):
                alive = service.start(tmp_path, port, environ)
                await _live(crowd, chance)
                await asyncio.to_thread(alive.kill)
                if crowd.accepted:
                    _look(tmp_path, crowd, _heard(receiver), known)
                    if chance.random() < LAPSES:
                        service.let_leases_lapse(tmp_path)
        service.let_leases_lapse(tmp_path)
        last = service.start(tmp_path, port, environ)
        await until(lambda: _answers(port), END_SECONDS)
        again = await asyncio.to_thread(_send, port, crowd.cut)
        await until(lambda: set(service.statuses(tmp_path).values()) == {"DELIVERED"}, END_SECONDS)
        await asyncio.to_thread(last.kill)
        heard = _heard(receiver)
    titles = Counter(service.titles(tmp_path))

    assert known, "nothing was delivered in all rounds"
    assert {id: heard[id] for id in known} == known
    assert set(crowd.accepted.values()) | set(again) == set(service.statuses(tmp_path)) == set(heard)
    assert {1} == set(titles.values())
    assert service.is_sound(tmp_path)


async def _live(crowd, chance) -> None:
    seconds, share = STARTING
    if chance.random() < share:
        await asyncio.sleep(chance.uniform(0, seconds))
        return
    before = len(crowd.accepted)
    await until(lambda: len(crowd.accepted) > before, END_SECONDS)
    await asyncio.sleep(chance.uniform(0, LOADED))


def _look(folder, crowd, heard, known) -> None:
    lost = set(crowd.accepted.values()) - set(service.statuses(folder))

    assert set() == lost
    known |= {id: heard[id] for id in service.succeeded(folder) - set(known)}


def _receiver():
    turn = count(1)

    async def behave(writer):
        number = next(turn)
        if number % SLOW == 0:
            await asyncio.sleep(0.05)
        await answers(503 if number % BUSY == 0 else 200)(writer)

    return behave


def _environ(folder, hook) -> dict[str, str]:
    to = {"channels": {"primary": ["WEBHOOK"]}, "targets": {"WEBHOOK": {"url": hook}}}
    policies = policy_folder(folder / "policies", a_document(**to))
    return {
        **KEYS,
        "UNS_POLICY_DIR": str(policies),
        "UNS_EGRESS_ALLOW": LOOPBACK,
        "UNS_RETRY_SECONDS": "0.05",
        "UNS_SEND_WAIT_SECONDS": "0.5",
        # However often it is killed in the middle of the same call, that must not make a dead letter.
        "UNS_MAX_ATTEMPTS": "1000",
    }


def _heard(receiver) -> Counter[str]:
    bodies = (msgspec.json.decode(request.body) for request in receiver.requests)
    return Counter(body["data"]["id"] for body in bodies)


def _answers(port) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True


def _send(port, keys) -> list[str]:
    ledger = RemoteLedger(f"http://{LOOPBACK}:{port}", OPERATOR)
    try:
        return [ledger.send(msgspec.json.encode(a_body(key)))["notification_id"] for key in keys]
    finally:
        ledger.close()
