"""
What a newcomer does wrong: each answer is one line that says what to do, and a status that tells of it.
"""

import json
import socket
import sqlite3
import threading

import pytest

from kit.commands import OBSERVER, OPERATOR
from kit.runtimes import a_document, policy_folder
from kit.servers import free_port
from uns.adapters.sql.migrate import VERSION_TABLE
from uns.entrypoints.cli.exits import Exit
from uns.entrypoints.cli.main import make_app

SEND = ("send", "--type=ask.demo", "--title=t", "--message=m")
LISTED = ("dlq", "list")
UNKNOWN = "01a22e98-b9f7-722a-b989-12fe2d8e3a45"


def told(ended, status):
    """
    The one line on standard error, of a command that ended so and printed nothing.
    """
    assert (status, "") == (ended.status, ended.out)
    (line,) = ended.err.splitlines()
    assert line.startswith("uns: ")
    return line.removeprefix("uns: ")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("snd",), 'Unknown command "snd"'),
        (("get",), "requires an argument"),
        (("get", "a", "b"), "Unused Tokens"),
        (("send", "--typ=x"), "Did you mean --type?"),
        (("send", "--type=x", "--title=t"), "--message is missing"),
        ((*SEND, "--metadata=x"), "--metadata x: write NAME=TEXT"),
        ((*SEND, "--metadata==x"), "--metadata =x: write NAME=TEXT"),
        ((*SEND, "--file=x"), "leave its fields out"),
        ((*SEND, "--wait=soon"), "--wait"),
        (("send", "--file=none.json"), "--file none.json cannot be read: No such file or directory"),
        (("send", "--file=."), "--file . cannot be read: Is a directory"),
        (("dlq", "list", "--where=status=x"), "--where status=x: write NAME=PATTERN, with one of type,"),
        (("dlq", "list", "--where=type"), "--where type: write NAME=PATTERN"),
        (("dlq", "list", "--older-than=soon"), "--older-than soon: write a number and one of s, m, h, d"),
        (("serve", "--port=65536"), "--port must be a whole number from 0 to 65535"),
        (("serve", "--port=-1"), "--port must be a whole number from 0 to 65535"),
        (("serve", "--workers=0"), "--workers must be a whole number from 1 to 64"),
        (("serve", "--workers=65"), "--workers must be a whole number from 1 to 64"),
    ],
)
def test_wrong_use_is_told(uns, command, line):
    """
    What is wrong with a command is said, before anything is tried.
    """
    assert line in told(uns(*command), Exit.USAGE)


@pytest.mark.parametrize("command", [SEND, LISTED, ("serve", "--port=0"), ("worker",), ("init",)])
@pytest.mark.parametrize(
    ("name", "value"),
    [("UNS_PORT", "80000"), ("UNS_URL", "localhost:8000"), ("UNS_DATABASE_URL", "mysql://x")],
)
def test_a_setting_that_is_wrong_is_named(uns, command, name, value):
    """
    Given a variable that cannot be, when any command starts, then it says which one.
    """
    assert name in told(uns(*command, **{name: value}), Exit.USAGE)


@pytest.mark.parametrize(
    "content", ["{", "", "{'a': 1}", "nul", '{"a": 1} x', b"\xff".decode("latin-1")], ids=range(6)
)
def test_json_that_is_none_is_told(uns, tmp_path, content):
    """
    When a file holds no JSON, then the command says so, and nothing is sent.
    """
    (tmp_path / "request.json").write_bytes(content.encode("latin-1"))

    assert "request.json is not valid JSON: " in told(uns("send", "--file=request.json"), Exit.USAGE)


def test_a_database_that_is_not_there_is_not_made(uns, tmp_path):
    """
    When a command looks into a database that nobody made, then it says how one is made, and makes none.
    """
    line = told(uns(*LISTED), Exit.FAILED)

    assert line.startswith(f"there is no database at {tmp_path / 'uns.db'}: make one with `uns init`")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [LISTED, ("init",), ("serve", "--port=0"), ("worker",)])
def test_a_folder_that_is_missing_is_told(uns, tmp_path, command):
    """
    Given a database in a folder that is not there, when anything starts, then it says where.
    """
    line = told(uns(*command, UNS_DATABASE_URL="sqlite:///nowhere/uns.db"), Exit.FAILED)

    assert str(tmp_path / "nowhere" / "uns.db") in line


@pytest.mark.parametrize("command", [LISTED, ("init",), ("serve", "--port=0"), ("worker",)])
def test_a_database_that_is_newer_is_left_alone(uns, tmp_path, command):
    """
    Given a database of a later version, when anything starts, then it says that it needs the newer uns.
    """
    assert uns("init").status == Exit.DONE
    with sqlite3.connect(tmp_path / "uns.db") as database:
        database.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    database.close()
    line = told(uns(*command), Exit.FAILED)

    assert "has a uns schema newer than this code, and was left as it is; run the newer uns" in line


@pytest.mark.parametrize("command", [LISTED, ("init",), ("serve", "--port=0"), ("worker",)])
def test_a_file_that_is_no_database_is_told(uns, tmp_path, command):
    """
    Given a file of something else, when anything starts, then it says so.
    """
    (tmp_path / "uns.db").write_bytes(b"something else, and more than a hundred bytes of it" * 10)

    assert "is not a SQLite database" in told(uns(*command), Exit.FAILED)


def test_a_database_in_memory_cannot_be_shared(uns):
    """
    Several serving processes need a file between them.
    """
    for url in ("sqlite://", "sqlite:///:memory:"):
        line = told(uns("serve", "--workers=2", UNS_DATABASE_URL=url), Exit.USAGE)

        assert "several processes cannot share a database in memory" in line


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "there is no policy here"),
        ("policy_id: [", "wrong.yaml"),
        ("policy_id: x\nchannel: LOG\n", "wrong.yaml"),
    ],
)
@pytest.mark.parametrize("command", [("init",), ("serve", "--port=0")])
def test_policies_that_are_wrong_stop_the_start(uns, tmp_path, command, content, line):
    """
    Given a folder of policies that cannot come into force, when a service starts, then it does not.
    """
    folder = tmp_path / "policies"
    folder.mkdir()
    if content is not None:
        (folder / "wrong.yaml").write_text(content)
    said = told(uns(*command, UNS_POLICY_DIR=str(folder)), Exit.FAILED)

    assert said.startswith("UNS_POLICY_DIR: ")
    assert line in said


@pytest.mark.parametrize("command", [("init",), ("serve", "--port=0")])
@pytest.mark.parametrize("target", ["{url: 'http://10.0.0.1/s3cr3t'}", "{url_env: UNS_TARGET_HOOK}"])
def test_a_target_inside_the_network_stops_the_start(uns, tmp_path, command, target):
    """
    B30: given a policy that sends where nothing may be sent, when a service starts, then it does not,
    and names the file, the line and the field.
    """
    folder = policy_folder(tmp_path / "policies", a_document())
    file = folder / "ops.yaml"
    document = a_document(channels={"primary": ["WEBHOOK"]})
    file.write_text(json.dumps(document)[:-1] + f',\n "targets": {{"WEBHOOK": {target}}}}}')
    hook = "http://user:s3cr3t@10.0.0.1/"
    line = told(uns(*command, UNS_POLICY_DIR=str(folder), UNS_TARGET_HOOK=hook), Exit.FAILED)

    assert line.startswith("UNS_POLICY_DIR: ops.yaml, line 2: targets.WEBHOOK.url")
    assert "10.0.0.1" in line
    assert "s3cr3t" not in line


def test_a_policy_folder_that_is_not_there_stops_the_start(uns):
    """
    A folder that is missing is named by its variable.
    """
    line = told(uns("init", UNS_POLICY_DIR="nowhere"), Exit.FAILED)

    assert line.startswith("UNS_POLICY_DIR: ")
    assert "nowhere" in line


def test_a_port_that_is_taken_is_told(uns, tmp_path):
    """
    Given a port on which somebody listens, when a service is to use it, then it says what to do.
    """
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = told(uns("serve", f"--port={port}"), Exit.FAILED)

    assert f"port {port} is taken: stop what listens there or use --port" == line
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("host", "line"), [("nowhere.invalid", "no host"), ("192.0.2.1", "not an address")])
def test_a_host_that_is_not_ours_is_told(uns, host, line):
    """
    An address of somebody else cannot be listened on.
    """
    assert line in told(uns("serve", f"--host={host}", "--port=0"), Exit.FAILED)


def test_a_service_wants_a_key(uns, url):
    """
    When no key is set, then the command says which variable holds one.
    """
    line = told(uns(*SEND), Exit.REFUSED)

    assert f"{url} wants a key: set UNS_API_KEY to one of its keys" == line


def test_a_key_that_the_service_does_not_know_is_told(uns, url):
    """
    A wrong key is another matter than none, and is not repeated.
    """
    line = told(uns(*SEND, UNS_API_KEY="secret-of-another"), Exit.REFUSED)

    assert f"{url} does not know this key: set UNS_API_KEY to one of its keys" == line


def test_of_two_keys_the_first_is_shown(uns, url):
    """
    While a key rotates, a client with the environment of the service goes on.
    """
    assert Exit.DONE == uns(*LISTED, "--json", UNS_API_KEY=f"{OPERATOR},next").status


@pytest.mark.parametrize(
    "command", [SEND, ("ack", UNKNOWN), ("replay", UNKNOWN), ("dlq", "resolve", UNKNOWN)]
)
def test_a_key_that_may_not_is_told(uns, url, command):
    """
    Given an observer's key, when it would change something, then the service refuses.
    """
    assert "lacks the capability" in told(uns(*command, UNS_API_KEY=OBSERVER), Exit.REFUSED)


def test_a_service_that_is_not_there_is_told(uns):
    """
    When nobody listens at UNS_URL, then the command says so.
    """
    port = free_port()
    line = told(uns(*SEND, UNS_URL=f"http://me:secret@127.0.0.1:{port}"), Exit.FAILED)

    assert line.startswith(f"nothing answers at http://127.0.0.1:{port} (")
    assert line.endswith("start the service, or check UNS_URL")


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".org"])
def test_a_name_that_no_host_can_have_is_told(uns, host):
    """
    Whoever is called by it, or is to listen there.
    """
    remote = told(uns(*SEND, UNS_URL=f"http://{host}/"), Exit.FAILED)
    local = told(uns("serve", "--port=0", f"--host={host}"), Exit.FAILED)

    assert f"http://{host} is no name that a host can have: check UNS_URL" == remote
    assert f"there is no host {host}: use --host, or UNS_HOST, with one of this machine" == local


@pytest.mark.parametrize("command", [LISTED, ("init",)])
def test_a_database_that_cannot_be_named_so_is_told(uns, command):
    """
    With the variable, and without what it holds.
    """
    line = told(uns(*command, UNS_DATABASE_URL="postgresql://u:s3cr3t@db:port/uns"), Exit.USAGE)

    assert line.startswith("UNS_DATABASE_URL ")
    assert "s3cr3t" not in line


@pytest.mark.parametrize("command", [LISTED, ("init",), ("serve", "--port=0"), ("worker",)])
def test_where_no_callback_can_go_is_told_before_anything_starts(uns, command):
    """
    B30: given a callback inside the network, when anything starts that could call it, then it does not.
    """
    line = told(uns(*command, UNS_DATABASE_URL="sqlite://", UNS_CALLBACK_URL="http://10.0.0.1/s3cr3t"), 2)

    assert line.startswith("UNS_CALLBACK_URL: 10.0.0.1 leads to an address that is not public")
    assert "s3cr3t" not in line


@pytest.mark.parametrize(
    ("status", "body"), [(200, "hello"), (404, "<html>"), (302, ""), (500, "{}"), (401, "[]")]
)
def test_what_is_no_uns_service_is_told(uns, httpserver, status, body):
    """
    When something else answers at UNS_URL, then the command says so.
    """
    httpserver.expect_request("/api/v1/notifications").respond_with_data(body, status)
    line = told(uns(*SEND, UNS_URL=httpserver.url_for("")), Exit.FAILED)

    assert line.endswith(f"is no uns service (HTTP {status}): check UNS_URL")


def test_a_request_that_is_not_answered_is_told(uns):
    """
    When the connection breaks off, then whether it was done is unknown, and the command says so.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        breaking = threading.Thread(target=_break_off, args=(listener,))
        breaking.start()
        line = told(uns(*SEND, UNS_URL=f"http://127.0.0.1:{listener.getsockname()[1]}"), Exit.FAILED)
        breaking.join()

    assert line.endswith("look before you repeat it")


def test_every_command_says_what_it_is_for():
    """
    The help of the whole has a line for each command.
    """
    app = make_app()
    names = [
        "ack",
        "callbacks",
        "dismiss",
        "dlq",
        "get",
        "init",
        "replay",
        "send",
        "serve",
        "withdraw",
        "worker",
    ]

    assert names == sorted(name for name in app if not name.startswith("-"))
    assert all(app[name].help.strip() for name in names)


def test_help_and_version_end_well(uns):
    """
    Asking for help is no mistake.
    """
    for asked in ((), ("--help",), ("send", "--help"), ("--version",)):
        ended = uns(*asked)

        assert (Exit.DONE, "") == (ended.status, ended.err)
        assert ended.out


def _break_off(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
