"""
B30, through the service: a target inside the network is refused when its policy is to come into force,
and again when it is called; and no answer tells what is inside.
"""

import pytest

from kit.receiver import LOOPBACK, answers, receiving
from kit.runtimes import a_document, policy_folder
from kit.waiting import until
from kit.web import NOTIFICATIONS, RUNTIME, a_body
from kit.webhooks import HOOKS, a_webhook

INNER = "127.0.0.2"
"""Loopback too, and not admitted."""

RELOAD = "/api/v1/policies/reload"
INSIDE = [
    "http://169.254.169.254/p4th",
    "http://[::ffff:127.0.0.2]/p4th",
    "http://[::ffff:7f00:2]/p4th",
    "http://[64:ff9b::7f00:2]/p4th",
    "http://2130706433/p4th",
    "http://0x7f.1/p4th",
    "http://localhost./p4th",
    "http://user:p4ss@10.0.0.1/p4th",
    "http://10.0.0.1:8080/p4th?k=p4ss",
    "http://[::1]/p4th",
    "file:///etc/p4th",
    "ftp://example.org/p4th",
    "https://example.org:0/p4th",
]
TELLING = ("p4th", "p4ss", "user:", "s3cr3t")


@pytest.fixture
async def inner():
    """
    Something inside, that says what it must not be heard to say.
    """
    async with receiving(answers(500, b"s3cr3t"), host=INNER) as inner:
        yield inner


def to(target):
    return a_document("new", channels={"primary": ["WEBHOOK"]}, targets={"WEBHOOK": target})


@pytest.fixture
def reloading(serving, clock, tmp_path):
    """
    Serves, PAGER in force, and asks for a folder with this target to be put in force instead: the
    answer, and the channels that a notification would take by then.
    """

    async def reloading(target, **environ):
        base = tmp_path / "base"
        base.mkdir()
        policy_folder(base / "after", to(target))
        channel = a_webhook(clock, environ)
        async with serving(adapters={"WEBHOOK": channel}, settings={"policy_dir": str(base)}) as web:
            answer = await web.post(RELOAD, {"policy_dir": "after", "allow_gaps": True})
            simulated = await web.post(f"{NOTIFICATIONS}/simulate", a_body())
        return answer, simulated.json["channels"]

    return reloading


@pytest.mark.parametrize("by", ["url", "url_env"])
@pytest.mark.parametrize("inside", INSIDE)
async def test_it_does_not_come_into_force(reloading, inside, by):
    """
    B30: given a policy with such a URL, in its file or in a setting that it names, when it is reloaded,
    then the answer names file, line and field, tells nothing of the URL but its host, and what was in
    force stays.
    """
    target = {"url": inside} if by == "url" else {"url_env": "UNS_TARGET_HOOK"}
    answer, channels = await reloading(target, UNS_TARGET_HOOK=inside)

    assert (422, "validation_error", ["PAGER"]) == (answer.status, answer.code, channels)
    assert answer.json["detail"].startswith(f"new.yaml, line 1: targets.WEBHOOK.{by}")
    assert [f"targets.WEBHOOK.{by}"] == [fault["path"] for fault in answer.json["errors"]]
    assert not [word for word in TELLING if word in answer.body.decode()]


async def test_what_is_outside_or_admitted_comes_into_force(reloading):
    """
    B30: a public name, and what the operator admits.
    """
    answer, channels = await reloading({"url": f"http://{LOOPBACK}/p4th"})

    assert (200, ["WEBHOOK"]) == (answer.status, channels)


@pytest.mark.parametrize(
    "inside",
    [
        "http://127.0.0.2:{port}/p4th",
        "http://[::ffff:7f00:2]:{port}/p4th",
        "http://2130706434:{port}/p4th",
        "http://localhost.:{port}/p4th",
        "http://user:p4ss@127.0.0.2:{port}/p4th",
        "file:///etc/p4th",
    ],
)
async def test_it_is_refused_again_when_it_is_called(hooking, inner, inside):
    """
    B30: given a setting that leads inside by now, when a notification is sent, then nobody was
    connected to, it is a dead letter at once, and no view of the service tells of more than the host.
    """
    environ = {}
    async with hooking({"url_env": "UNS_TARGET_HOOK"}, environ=environ) as web:
        environ["UNS_TARGET_HOOK"] = inside.format(port=inner.port)
        sent = (await web.post(NOTIFICATIONS, a_body())).json
        views = await views_of(web, sent["notification_id"])

    assert ("FAILED", 0) == (sent["status"], inner.connections)
    assert 1 == views[-1].json["attempts"]
    assert all(b"WEBHOOK: " in view.body for view in views[1:])
    assert not [word for word in TELLING for view in views if word in view.body.decode()]


async def test_a_name_that_moves_inside_is_followed_no_further(hooking, inner, clock):
    """
    B30: given a name that was admitted at the first attempt and leads inside at the next, then that
    one is refused for good, and the inside hears nothing.
    """
    names = {HOOKS: ([LOOPBACK], [INNER])}
    async with hooking({"url": inner.url("/p4th", host=HOOKS)}, names=names) as web:
        sent = (await web.post(NOTIFICATIONS, a_body())).json
        clock.advance(30)
        await until(lambda: web.runtime.get(sent["notification_id"])["status"] == "FAILED")
        views = await views_of(web, sent["notification_id"])

    assert ("PENDING", 0) == (sent["status"], inner.connections)
    assert 2 == views[-1].json["attempts"]
    assert f"WEBHOOK: {HOOKS} leads to an address that is not public" in views[-1].body.decode()


async def test_a_redirect_inside_is_not_followed(hooking, inner):
    """
    B30: given a host outside that answers with a redirect inside, then nobody follows it, and no view
    of the service tells where it led.
    """
    async with (
        receiving(answers(302, b"s3cr3t", {"Location": inner.url("/p4th")})) as outer,
        hooking({"url": outer.url("/hook", host=HOOKS)}) as web,
    ):
        sent = (await web.post(NOTIFICATIONS, a_body())).json
        views = await views_of(web, sent["notification_id"])

    assert ("FAILED", 1, 0) == (sent["status"], outer.connections, inner.connections)
    assert "redirects are not followed" in views[-1].body.decode()
    assert not [word for word in (*TELLING, INNER) for view in views if word in view.body.decode()]


async def views_of(web, id):
    """
    Everything that the service shows of a notification, the stored row last.
    """
    paths = [f"{NOTIFICATIONS}/{id}", f"{NOTIFICATIONS}/{id}/delivery", f"{RUNTIME}/dead-letters"]
    return [await web.get(path) for path in (*paths, f"{RUNTIME}/notifications/{id}")]
