"""
``uvicorn uns.app:app``: what the environment describes, or one line that says what is wrong with it.
"""

import importlib

import pytest

import uns.app
from kit.asgi import Asgi, running
from kit.logs import logs_as_they_were
from kit.runtimes import a_document, policy_folder
from kit.web import NOTIFICATIONS, OPERATOR, a_body
from uns.entrypoints.http import environment


@pytest.fixture
def environ(monkeypatch, url):
    """
    An environment with a database and one key.
    """
    environment.app.cache_clear()
    monkeypatch.setenv("UNS_DATABASE_URL", url)
    monkeypatch.setenv("UNS_API_KEY", OPERATOR)
    with logs_as_they_were():
        yield monkeypatch
    environment.app.cache_clear()


async def test_the_application_is_made_once(environ):
    """
    By its documented name, for everybody who asks.
    """
    app = importlib.import_module("uns.app").app

    assert app is uns.app.app
    async with running(app):
        answer = await Asgi(app, OPERATOR).post(NOTIFICATIONS, a_body())
    assert (202, "DELIVERED") == (answer.status, answer.json["status"])


async def test_the_policies_of_its_folder_are_in_force(environ, tmp_path):
    """
    UNS_POLICY_DIR is loaded at the start.
    """
    folder = policy_folder(tmp_path / "policies", a_document("mine", channels={"primary": ["RECORDING"]}))
    environ.setenv("UNS_POLICY_DIR", str(folder))
    async with running(uns.app.app):
        answer = await Asgi(uns.app.app, OPERATOR).post(f"{NOTIFICATIONS}/simulate", a_body())

    assert "mine" == answer.json["policy_id"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UNS_PORT", "x"),
        ("UNS_DATABASE_URL", "mysql://root:s3cr3t@db/uns"),
        ("UNS_DATABASE_URL", "sqlite:////no/such/folder/s3.db"),
        ("UNS_EGRESS_ALLOW", "not a host"),
        ("UNS_CALLBACK_URL", "http://user:s3cr3t@10.0.0.1/"),
        ("UNS_WEBHOOK_SIGNING_SECRET", "whsec_s3cr3t!!"),
        ("UNS_CALLBACK_SECRET", "a,b,s3cr3t"),
        ("UNS_POLICY_DIR", "/no/such/folder"),
    ],
)
def test_what_is_wrong_is_one_line(environ, name, value):
    """
    It names the variable, or what it leads to, shows no secret, and ends the process with status 1.
    """
    environ.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        _ = uns.app.app
    (line,) = str(caught.value.code).splitlines()

    assert line.startswith("uns: ")
    assert name in line or value.removeprefix("sqlite:///") in line
    assert "s3cr3t" not in line


def test_there_is_no_other_name():
    """
    A typing error is told as one.
    """
    with pytest.raises(AttributeError):
        _ = uns.app.application
