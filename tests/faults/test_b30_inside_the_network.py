"""
B30: no target, no redirect and no name leads a request inside the network.
"""

import pytest

from kit.builders import a_request
from kit.receiver import answers, receiving
from kit.runtimes import PRINCIPAL
from kit.webhooks import HOOKS

INNER = "127.0.0.2"
"""Loopback too, and not admitted."""


@pytest.fixture
async def inner():
    """
    Something inside, that says what it must not be heard to say.
    """
    async with receiving(answers(500, b"s3cr3t"), host=INNER) as inner:
        yield inner


async def sent_to(sending, url):
    """
    The row after a first attempt, its URL taken from a setting that was changed once its policy was in
    force: neither would take it.
    """
    environ = {}
    runtime = sending({"url_env": "UNS_TARGET_HOOK"}, environ)
    environ["UNS_TARGET_HOOK"] = url
    sent = await runtime.send(a_request(), principal=PRINCIPAL)
    return runtime.get(sent.notification_id)


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/p4th",
        "http://127.0.0.2:{port}/p4th",
        "http://[::1]:{port}/p4th",
        "http://[::ffff:127.0.0.2]:{port}/p4th",
        "http://[::ffff:7f00:2]:{port}/p4th",
        "http://[::ffff:7f00:1]:{port}/p4th",
        "http://[64:ff9b::7f00:2]:{port}/p4th",
        "http://2130706434:{port}/p4th",
        "http://0x7f.2:{port}/p4th",
        "http://0177.0.0.2:{port}/p4th",
        "http://127.2:{port}/p4th",
        "http://localhost.:{port}/p4th",
        "http://0.0.0.0:{port}/p4th",
        "http://10.0.0.1/p4th",
        "http://user:p4ss@10.0.0.1/p4th",
        "http://user:p4ss@127.0.0.1:{port}/p4th",
        "file:///etc/p4th",
        "ftp://127.0.0.1:{port}/p4th",
    ],
)
async def test_a_target_inside_is_refused_before_a_byte_is_sent(sending, inner, target):
    """
    B30: given a target inside, in whatever spelling, when a notification is sent, then nobody was
    connected to, the failure is for good, and its reason tells nothing of the URL but the host.
    """
    row = await sent_to(sending, target.format(port=inner.port))

    assert 0 == inner.connections
    assert ("FAILED", True, 1) == (row["status"], row["dead_letter"], row["attempts"])
    error = row["outcome"]["error_message"]
    assert error.startswith("WEBHOOK: ")
    assert not [word for word in ("p4th", "p4ss", "user:", "s3cr3t") if word in error]


async def test_a_redirect_inside_is_not_followed(sending, inner):
    """
    B30: given a public host that answers with a redirect inside, when a notification is sent, then
    the inside hears nothing, and the reason says that redirects are not followed, not where to.
    """
    async with receiving(answers(302, b"s3cr3t", {"Location": inner.url()})) as receiver:
        row = await sent_to(sending, receiver.url(host=HOOKS))

    assert (1, 0) == (receiver.connections, inner.connections)
    assert "FAILED" == row["status"]
    told = f"WEBHOOK: {HOOKS}:{receiver.port} answered 302 Found: redirects are not followed"
    assert told == row["outcome"]["error_message"]


async def test_what_is_admitted_is_reached(sending):
    """
    B30: given one operator setting that admits it, when a notification is sent inside, then it
    arrives.
    """
    async with receiving() as receiver:
        row = await sent_to(sending, receiver.url())

    assert ("DELIVERED", 1) == (row["status"], receiver.connections)
