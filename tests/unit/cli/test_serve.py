"""
``uns serve`` and ``uns worker``, as processes.
"""

import json
import os
import re
import signal
import stat
import subprocess
import time
import tomllib
import urllib.error
import urllib.request

import pytest

from kit.commands import KEYS, OPERATOR, await_health, running, serving, without_settings
from kit.pages import ROOT
from uns.entrypoints.cli.exits import Exit

ROLES = ["operator", "producer", "responder", "observer"]
SEND = ("send", "--type=ask.demo", "--title=t", "--message=m", "--json")


def in_sh(line, folder, **environ):
    """
    What a line for a shell prints; its status is that of its last command.
    """
    run = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=without_settings(os.environ) | environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return run.stdout


def commands_in(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith("curl ")]


def keys_in(text):
    return dict(re.findall(r"^  (operator|producer|responder|observer) +(\S+)$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def dev(tmp_path_factory):
    """
    A fresh folder after two starts of ``uns serve --dev``: what each printed, and what its lines answered.
    """
    folder = tmp_path_factory.mktemp("dev")
    printed, answered, ended = [], [], []
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving(folder, "--dev") as (service, _):
            service.await_line("/ack")
            printed.append(service.out.read_text().removeprefix("".join(printed)))
            answered.append([json.loads(in_sh(line, folder)) for line in commands_in(printed[-1])])
            began = time.monotonic()
            ended.append((service.stop(number), time.monotonic() - began))
    return folder, printed, answered, ended


def test_the_first_start_prints_a_key_for_each_role(dev):
    """
    Given a fresh folder, when a service for development starts, then it prints four keys, each its own.
    """
    _, (first, _), *_ = dev
    keys = keys_in(first)

    assert ROLES == list(keys)
    assert 4 == len(set(keys.values()))
    assert all(len(key) >= 32 for key in keys.values())


def test_the_keys_are_kept_beside_the_database_for_their_owner_alone(dev):
    """
    The file holds what was printed, is nobody else's to read, and is not for the repository.
    """
    folder, (first, _), *_ = dev
    file = folder / "uns.db.dev-credentials.json"
    ignored = subprocess.run(["git", "check-ignore", "-q", file.name], cwd=ROOT, check=False).returncode

    assert sorted(keys_in(first).values()) == sorted(json.loads(file.read_text()).values())
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert [file] == list(folder.glob("*credentials*"))
    assert 0 == ignored


@pytest.mark.parametrize("start", [0, 1], ids=["first", "second"])
def test_the_printed_lines_work_as_printed(dev, start):
    """
    When the three lines are pasted into a shell, then one asks, one looks, and one acknowledges.
    """
    asked, found, acked = dev[2][start]

    assert ("DELIVERED", "PENDING") == (asked["status"], asked["ack_status"])
    assert ("ask.demo", "PENDING") == (found["notification_type"], found["ack_status"])
    assert ("ACKED", "local-operator") == (acked["ack_status"], acked["acked_by"])
    assert asked["notification_id"] == found["notification_id"] == acked["notification_id"]


def test_later_starts_say_where_the_keys_are(dev):
    """
    When the service starts again, then it names the file and shows no key.
    """
    folder, (first, second), *_ = dev

    assert str(folder / "uns.db.dev-credentials.json") in second
    assert not any(key in second for key in keys_in(first).values())


@pytest.mark.parametrize("start", [0, 1], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_well_and_soon(dev, start):
    """
    When an idle service is told to stop, then it ends with status 0, within a few seconds.
    """
    status, seconds = dev[3][start]

    assert 0 == status
    assert 5 > seconds


def test_keys_of_the_environment_come_before_those_of_development(tmp_path):
    """
    Given a key in the environment, when a service for development starts, then it makes none.
    """
    with serving(tmp_path, "--dev", **KEYS) as (service, _):
        service.await_line("/ack")
        lines = commands_in(service.out.read_text())
        answers = [json.loads(in_sh(line, tmp_path, UNS_API_KEY=OPERATOR)) for line in lines]

    assert OPERATOR not in service.out.read_text()
    assert [] == list(tmp_path.glob("*credentials*"))
    assert "ACKED" == answers[2]["ack_status"]


def test_without_keys_nobody_can_send(tmp_path):
    """
    Given neither keys nor --dev, when somebody sends, then it is refused, and the start said why.
    """
    with serving(tmp_path) as (service, url):
        service.await_line("no key is set")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/api/v1/notifications", b"{}")
        problem = json.load(refused.value)

    assert (503, "write_auth_not_configured") == (problem["status"], problem["code"])


def test_two_services_share_a_file_and_a_worker(tmp_path, uns):
    """
    Given two services on one file, one of them without a worker, and a worker by itself, when one
    accepts, then a worker sends, the other shows it, and each ends well.
    """
    plain = {**KEYS, "UNS_SEND_WAIT_SECONDS": "20"}
    with (
        serving(tmp_path, "--no-worker", **plain) as (first, url),
        serving(tmp_path, "--no-worker", **KEYS) as (second, other),
        running(tmp_path, "worker") as worker,
    ):
        worker.await_line("working on the database")
        sent = uns(*SEND, UNS_URL=url, UNS_API_KEY=OPERATOR).json
        found = uns("get", sent["notification_id"], "--json", UNS_URL=other, UNS_API_KEY=OPERATOR).json
        here = uns("get", sent["notification_id"], "--json").json
        statuses = [each.stop() for each in (worker, first, second)]

    assert ("DELIVERED", "DELIVERED", "DELIVERED") == (sent["status"], found["status"], here["status"])
    assert "ask.demo" in worker.err.read_text()
    assert [0, 0, 0] == statuses


def test_a_port_that_another_service_has_is_told(tmp_path, service, uns):
    """
    Given a service, when another is to use its port, then that one ends, and the first serves on.
    """
    port = int(service.rpartition(":")[2])
    ended = uns("serve", f"--port={port}", UNS_DATABASE_URL=f"sqlite:///{tmp_path / 'uns.db'}")

    assert (Exit.FAILED, 200) == (ended.status, urllib.request.urlopen(f"{service}/health").status)
    assert f"uns: port {port} is taken: stop what listens there or use --port\n" == ended.err


def test_several_processes_serve_and_are_replaced(tmp_path, uns):
    """
    Given a service of two processes, when one is killed, then another takes its place; and told to
    stop, all of them end.
    """
    with serving(tmp_path, "--workers=2", **KEYS) as (service, url):
        before = until_there_are(2, service.process.pid)
        os.kill(min(before), signal.SIGKILL)
        after = until_there_are(2, service.process.pid, besides=min(before))
        await_health(url, service.process)
        sent = uns(*SEND, UNS_URL=url, UNS_API_KEY=OPERATOR).json
        status = service.stop()

    assert "DELIVERED" == sent["status"]
    assert 1 == len(before & after)
    assert 0 == status
    assert not any(alive(pid) for pid in before | after)


def test_a_process_that_cannot_serve_says_so_in_the_form_of_all_lines(tmp_path):
    """
    Given a service of two processes whose file was spoilt, when one is killed, then the one that takes
    its place says what is wrong, in one line of the log.
    """
    with serving(tmp_path, "--workers=2", **KEYS) as (service, _):
        before = until_there_are(2, service.process.pid)
        (tmp_path / "spoilt").write_bytes(b"something else, and more than a hundred bytes of it" * 10)
        os.replace(tmp_path / "spoilt", tmp_path / "uns.db")
        os.kill(min(before), signal.SIGKILL)
        service.await_line("is not a SQLite database")
        service.stop()
    lines = [json.loads(line) for line in service.err.read_text().splitlines()]
    told = [line for line in lines if "it cannot serve: " in line["event"]]

    assert told
    assert {("error", "uns.entrypoints.cli.crew", False)} == {
        (line["level"], line["logger"], "exception" in line) for line in told
    }


def test_the_children_of_a_service_that_is_killed_end(tmp_path):
    """
    Given a service of two processes, when the one that looks after them is killed, then they end too.
    """
    with serving(tmp_path, "--workers=2", **KEYS) as (service, _):
        children = until_there_are(2, service.process.pid)
        service.process.kill()
        service.process.wait()
        until = time.monotonic() + 20
        while any(alive(pid) for pid in children) and time.monotonic() < until:
            time.sleep(0.05)

    assert not any(alive(pid) for pid in children)


def test_the_script_and_the_targets_run_the_command_line():
    """
    What is installed as ``uns`` is the command line, and ``make run`` serves for development.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rules = (ROOT / "Makefile").read_text()

    assert "uns.entrypoints.cli.main:main" == project["project"]["scripts"]["uns"]
    assert re.search(r"^run: setup ##.*\n\t@\$\(PY\) -m uns serve --dev$", rules, re.MULTILINE)


def until_there_are(count, parent, besides=None):
    until = time.monotonic() + 60
    while len(found := {pid for pid in serving_children(parent) if pid != besides}) < count:
        assert time.monotonic() < until, found
        time.sleep(0.05)
    return found


def serving_children(parent):
    """
    The children of a process but for the one in which Python tracks what processes share.
    """
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split(None, 1) for line in listed.stdout.splitlines()]
    return {int(pid) for pid, command in lines if "spawn_main" in command}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
