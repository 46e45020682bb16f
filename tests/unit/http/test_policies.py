"""
Reloading policies over HTTP: a folder inside UNS_POLICY_DIR, all of it or nothing.
"""

import os

import pytest

from kit.runtimes import a_document, policy_folder
from kit.web import NOTIFICATIONS, OBSERVER, PRODUCER, RESPONDER, a_body

RELOAD = "/api/v1/policies/reload"
NEW = a_document("new", channels={"primary": ["LOG"]})


@pytest.fixture
def base(tmp_path):
    """
    What UNS_POLICY_DIR names; beside it lies a folder that is none of its business.
    """
    (tmp_path / "base").mkdir()
    policy_folder(tmp_path / "outside", a_document("outside"))
    return tmp_path / "base"


@pytest.fixture
def reloading(serving, base):
    """
    Serves with UNS_POLICY_DIR.
    """
    return lambda **more: serving(settings={"policy_dir": str(base)} | more)


async def in_force(web):
    """
    The policy that a notification is sent by now.
    """
    answer = await web.post(f"{NOTIFICATIONS}/simulate", a_body(), key=PRODUCER)
    return answer.json.get("policy_id", answer.json.get("code"))


async def test_a_folder_is_put_in_force(reloading, base):
    """
    200 with the new revision, and what is sent from then on goes by it; equal content is a no-op.
    """
    policy_folder(base / "v2", NEW)
    async with reloading() as web:
        answer = await web.post(RELOAD, {"policy_dir": "v2", "allow_gaps": True})
        again = await web.post(RELOAD, {"policy_dir": "v2"})
        now = await in_force(web)

    assert (200, "new") == (answer.status, now)
    assert answer.json["revision"] == again.json["revision"]
    assert (True, False) == (answer.json["changed"], again.json["changed"])


@pytest.mark.parametrize("name", ["v2", "./v2", "v2/", "deep/../v2", "deep/inner/../../v2"])
async def test_a_folder_inside_may_be_named_in_many_ways(reloading, base, name):
    """
    Relative to UNS_POLICY_DIR, however it is written.
    """
    policy_folder(base / "v2", NEW)
    (base / "deep" / "inner").mkdir(parents=True)
    async with reloading() as web:
        assert 200 == (await web.post(RELOAD, {"policy_dir": name, "allow_gaps": True})).status
        assert "new" == await in_force(web)


async def test_a_folder_may_be_absolute_or_relative_to_where_the_service_runs(reloading, base, monkeypatch):
    """
    As the reference's own example has it.
    """
    policy_folder(base / "v2", NEW)
    monkeypatch.chdir(base.parent)
    async with reloading() as web:
        for name in (str(base / "v2"), "base/v2", str(base / "v2" / ".." / "v2")):
            assert 200 == (await web.post(RELOAD, {"policy_dir": name, "allow_gaps": True})).status
        assert "new" == await in_force(web)


async def test_the_folder_itself(reloading, base):
    """
    ``.`` is UNS_POLICY_DIR, which may be a link itself.
    """
    policy_folder(base / "v2", NEW)
    (base.parent / "link").symlink_to(base / "v2")
    async with reloading(policy_dir=str(base.parent / "link")) as web:
        assert 200 == (await web.post(RELOAD, {"policy_dir": ".", "allow_gaps": True})).status
        assert "new" == await in_force(web)


async def test_what_leads_out_is_refused(reloading, base, monkeypatch):
    """
    403, by "..", by links, by absolute paths, whether there is something or not.
    """
    (base / "out").symlink_to(base.parent / "outside")
    (base / "up").symlink_to("..")
    (base / "loop").symlink_to("loop")
    (base.parent / "base-2").mkdir()
    monkeypatch.chdir(base.parent)
    wanted = (
        "..",
        "../outside",
        "out",
        "up/outside",
        "v2/../../outside",
        "/",
        "/etc",
        "/no/such/folder",
        str(base.parent / "outside"),
        str(base) + "-2",
        "../base-2",
        "../" * 40 + "etc",
        "~",
    )
    async with reloading() as web:
        before = await in_force(web)
        found = {name: await web.post(RELOAD, {"policy_dir": name}) for name in wanted}

        assert before == await in_force(web)
    assert {"~"} == {name for name, answer in found.items() if answer.status != 403}
    assert 404 == found["~"].status  # a name like any other
    assert {"policy_dir_not_allowed"} == {a.code for name, a in found.items() if name != "~"}


async def test_without_the_setting_there_is_no_folder(web, base):
    """
    403, whatever is asked for.
    """
    for name in (".", str(base), "/"):
        answer = await web.post(RELOAD, {"policy_dir": name})

        assert (403, "policy_dir_not_allowed") == (answer.status, answer.code)


async def test_a_folder_that_is_not_there_is_404(reloading, base):
    """
    Missing, or a file; what can be no folder at all, such as a link to itself, is 422.
    """
    (base / "file").write_text("x")
    (base / "loop").symlink_to("loop")
    codes = {"nope": 404, "file": 404, "a/b/c": 404, "loop": 422, "x" * 4000: 422}
    async with reloading() as web:
        found = {name: (await web.post(RELOAD, {"policy_dir": name})).status for name in codes}

    assert codes == found


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, ""),
        ({"a.yaml": "policy_id: [\n"}, "a.yaml"),
        ({"a.yaml": "policy_id: a\npolicy_id: b\n"}, "a.yaml, line 2"),
        ({"a.yaml": "nope: 1\n"}, "a.yaml"),
    ],
)
async def test_a_folder_that_is_wrong_is_422(reloading, base, files, told):
    """
    Naming file and line; what was in force stays.
    """
    (base / "v2").mkdir()
    for name, text in files.items():
        (base / "v2" / name).write_text(text)
    async with reloading() as web:
        before = await in_force(web)
        answer = await web.post(RELOAD, {"policy_dir": "v2", "allow_gaps": True})

        assert before == await in_force(web)
    assert (422, "validation_error") == (answer.status, answer.code)
    assert told in answer.json["detail"]


async def test_a_fifo_is_not_opened(reloading, base):
    """
    Anything that is no regular file is refused without being read: nobody waits for its other end.
    """
    (base / "v2").mkdir()
    os.mkfifo(base / "v2" / "a.yaml")
    async with reloading() as web:
        answer = await web.post(RELOAD, {"policy_dir": "v2"})

    assert (422, True) == (answer.status, "not a regular file" in answer.json["detail"])


async def test_a_type_in_use_does_not_lose_its_policy(reloading, base):
    """
    409 ``policy_gap``, unless the caller allows it.
    """
    policy_folder(base / "v2", a_document("narrow", notification_type="other.*"))
    async with reloading() as web:
        await web.sent()
        refused = await web.post(RELOAD, {"policy_dir": "v2"})
        allowed = await web.post(RELOAD, {"policy_dir": "v2", "allow_gaps": True})

        assert "no_policy" == await in_force(web)
    assert (409, "policy_gap") == (refused.status, refused.code)
    assert 200 == allowed.status


async def test_a_draft_is_not_promoted_by_file(reloading, base):
    """
    409: DRAFT to ACTIVE is for those who approve.
    """
    policy_folder(base / "v2", a_document("new", status="DRAFT"), a_document("all"))
    policy_folder(base / "v3", a_document("new", status="ACTIVE", notification_type="x"), a_document("all"))
    async with reloading() as web:
        assert 200 == (await web.post(RELOAD, {"policy_dir": "v2", "allow_gaps": True})).status
        answer = await web.post(RELOAD, {"policy_dir": "v3", "allow_gaps": True})

    assert (409, True) == (answer.status, "DRAFT" in answer.json["detail"])


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"null", {"policy_dir": None}, {"policy_dir": "."} | {"x": 1}]
)
async def test_a_wrong_body_is_422(reloading, body):
    """
    One folder, and no field unknown.
    """
    async with reloading() as web:
        answer = await web.post(RELOAD, body)

    assert (422, "validation_error") == (answer.status, answer.code)


@pytest.mark.parametrize("key", [PRODUCER, RESPONDER, OBSERVER])
async def test_only_operators_reload(reloading, base, key):
    """
    Nobody else learns what folders there are.
    """
    policy_folder(base / "v2", NEW)
    async with reloading() as web:
        for name in ("v2", "nope", "/"):
            assert 403 == (await web.post(RELOAD, {"policy_dir": name}, key=key)).status
        assert "ops" == await in_force(web)
