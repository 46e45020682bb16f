"""
A newcomer's mistakes, each made in a process of its own: whatever is wrong, the answer says what to do.
A second service on the same file is none: see ``test_serve``.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from kit.commands import OBSERVER, OPERATOR, without_settings
from kit.servers import free_port
from kit.web import NOTIFICATIONS, a_body
from uns.entrypoints.cli.exits import Exit

SEND = ("send", "--type=ask.demo", "--title=t", "--message=m")


def run(folder, *arguments, **settings):
    """
    How ``python -m uns`` ended, and the one line that it said.
    """
    ended = subprocess.run(
        [sys.executable, "-m", "uns", *arguments],
        cwd=folder,
        env=without_settings(os.environ) | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    (line,) = ended.stderr.splitlines()
    assert "" == ended.stdout
    return ended.returncode, line


def asked(url, body, key, path=NOTIFICATIONS):
    """
    Status and problem of a request.
    """
    headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url + path, body, headers))
    return refused.value.code, json.load(refused.value)


HERE = [
    (
        SEND,
        {},
        Exit.FAILED,
        "make one with `uns init` or `uns serve`, name it in UNS_DATABASE_URL, or name a",
    ),
    (
        ("serve", "--port={port}"),
        {},
        Exit.FAILED,
        "port {port} is taken: stop what listens there or use --port",
    ),
    (
        ("serve", "--port=0"),
        {"UNS_DATABASE_URL": "sqlite:///nowhere/uns.db"},
        Exit.FAILED,
        "nowhere/uns.db cannot be opened: its directory must exist, and this user may write there",
    ),
    (
        ("serve", "--port=0"),
        {"UNS_POLICY_DIR": "nowhere"},
        Exit.FAILED,
        "UNS_POLICY_DIR: there is no policy f",
    ),
    (
        ("serve", "--port=0"),
        {"UNS_PORT": "http"},
        Exit.USAGE,
        "UNS_PORT must be a whole number from 1 to 65535",
    ),
    (SEND, {"UNS_URL": "{url}"}, Exit.REFUSED, "{url} wants a key: set UNS_API_KEY to one of its keys"),
    (
        SEND,
        {"UNS_URL": "{url}", "UNS_API_KEY": "guess"},
        Exit.REFUSED,
        "{url} does not know this key: set UNS_API_KEY to one of its keys",
    ),
    (
        ("send", "--file=wrong.json"),
        {"UNS_URL": "{url}", "UNS_API_KEY": OPERATOR},
        Exit.USAGE,
        "wrong.json is not valid JSON: JSON is malformed: trailing comma in object (byte 14)",
    ),
    (SEND, {"UNS_URL": "http://127.0.0.1:{free}"}, Exit.FAILED, "start the service, or check UNS_URL"),
]
OVER_HTTP = [
    (b"{}", None, 401, "send one as `Authorization: Bearer <key>`"),
    (b"{}", "guess", 401, "send one as `Authorization: Bearer <key>`"),
    (b"{}", OBSERVER, 403, "this credential lacks the capability: send"),
    (b'{"title": "x",}', OPERATOR, 422, "The body is not valid JSON: JSON is malformed: trailing comma in"),
    (b"title=x&message=y", OPERATOR, 422, "The body is not valid JSON"),
    (b"", OPERATOR, 422, "notification_type is required"),
    (json.dumps(a_body(titel="x")).encode(), OPERATOR, 422, "titel is not a field of this request"),
    (
        json.dumps(a_body(notification_type="Ask Me")).encode(),
        OPERATOR,
        422,
        "must be parts of a-z, 0-9 and _",
    ),
    (json.dumps(a_body(require_ack="yes")).encode(), OPERATOR, 422, "require_ack: Expected `bool"),
]


@pytest.mark.parametrize(("command", "settings", "status", "told"), HERE)
def test_a_command_says_what_to_do(tmp_path, service, command, settings, status, told):
    """
    Given an empty folder, and a service elsewhere, when a command is used wrongly, then one line says
    what to do, and the status tells of it.
    """
    (tmp_path / "wrong.json").write_text('{"title": "x",}')
    names = {"url": service, "port": service.rpartition(":")[2], "free": str(free_port())}
    settings = {name: value.format(**names) for name, value in settings.items()}
    ended, line = run(tmp_path, *(part.format(**names) for part in command), **settings)

    assert status == ended
    assert line.startswith("uns: ")
    assert told.format(**names) in line


@pytest.mark.parametrize(("body", "key", "status", "told"), OVER_HTTP)
def test_an_answer_says_what_to_do(service, body, key, status, told):
    """
    When a request is wrong, then the problem says how it should be.
    """
    answered, problem = asked(service, body, key)

    assert (status, status) == (answered, problem["status"])
    assert told in problem["detail"]
