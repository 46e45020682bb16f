"""
What ``docs/webhooks.md`` tells receivers to do accepts what uns sends, and nothing else.
"""

import json
import time

import pytest

from kit.pages import read, snippets
from kit.receiver import receiving
from uns.adapters.callback_http import HttpCallback
from uns.adapters.egress import Egress, GuardedClient
from uns.adapters.sources import FunctionClock
from uns.adapters.standard_webhooks import Signer
from uns.core.rules import signature

PAGE = read("docs/webhooks.md")
BLOCKS = snippets(PAGE)
KINDS = ["library", "by hand", "X-UNS"]
SECRET = "whsec_dW5zLXRlc3Qtc2VjcmV0LTI0LWJ5dGVz"
NEXT = "whsec_bmV4dC10ZXN0LXNlY3JldC0yNC1ieXRlcy4u"


@pytest.fixture(params=range(len(KINDS)), ids=KINDS)
def genuine(request):
    """
    The function that a block of the page defines.
    """
    known = {}
    exec(compile(BLOCKS[request.param].code, "docs/webhooks.md", "exec"), known)
    return known["genuine"]


async def received(*secrets, ago=0.0):
    """
    A callback as it arrives, with every kind of signature.
    """
    clock = FunctionClock(lambda: time.time() - ago)
    client = GuardedClient(Egress.parse("127.0.0.1"))
    async with receiving() as receiver:
        callback = HttpCallback(client, clock, receiver.url(), secrets=secrets, sign=signature.sign)
        await callback({"id": "01a22e68-03ab-7abc-9d7e-5a2b1f1f0000", "kind": "ACKED", "why": "é"})
    return receiver.requests[0]


async def test_what_uns_sends_is_genuine(genuine):
    """
    Given a request, signed with one secret or two, when a receiver follows the page, then it accepts
    it with each of them.
    """
    one, two = await received(SECRET), await received(SECRET, NEXT)

    assert genuine(one.body, one.headers, SECRET)
    assert genuine(two.body, two.headers, SECRET)
    assert genuine(two.body, two.headers, NEXT)


async def test_everything_else_is_not(genuine):
    """
    Given another secret, another body or an old request, when a receiver follows the page, then it
    refuses.
    """
    fresh, old = await received(SECRET), await received(SECRET, ago=310)

    assert not genuine(fresh.body, fresh.headers, NEXT)
    assert not genuine(fresh.body + b" ", fresh.headers, SECRET)
    assert not genuine(old.body, old.headers, SECRET)


def test_the_page_has_a_block_for_each_kind():
    """
    Every Python block is tried here.
    """
    assert len(KINDS) == len(BLOCKS)


def test_the_secret_of_the_page_is_one():
    """
    The command that makes a secret makes one that signs.
    """
    (command,) = [line[2:] for line in PAGE.splitlines() if line.startswith("$ python3 -c ")]
    program = command.removeprefix("python3 -c '").removesuffix("'")
    made = []
    exec(program, {"print": made.append})

    assert "webhook-signature" in Signer(made, "S").headers("id-1", 5.0, b"{}")
    assert made[0].startswith("whsec_")


def test_the_bodies_of_the_page_are_json():
    """
    What is shown can be read.
    """
    bodies = [block.split("\n```")[0] for block in PAGE.split("```json\n")[1:]]

    assert [{"type", "attempt", "data"}, {"id", "notification_id", "kind", "at", "payload", "attempt"}] == [
        set(json.loads(body)) for body in bodies
    ]
