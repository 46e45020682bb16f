"""
One form of log line: whoever writes it, of whatever, and without a secret in it.
"""

import asyncio
import gc
import io
import json
import logging
import re
import socket
import sys
import threading
import warnings
from datetime import datetime

import httpx2
import pytest

from kit.logs import logs_as_they_were
from kit.receiver import LOOPBACK, answers, receiving
from kit.runtimes import a_document, policy_folder
from kit.service import served, serving
from kit.waiting import until
from kit.web import NOTIFICATIONS, a_body
from uns.entrypoints import logs

NEEDED = {"event", "level", "logger", "timestamp"}
KNOWN = NEEDED | {"request_id", "exception"}

SECRETS = {
    "UNS_API_KEY": "k3y-operator,k3y-next",
    "UNS_OBSERVER_API_KEY": "k3y-observer",
    "UNS_CALLBACK_SECRET": "c4llback-secret",
    "UNS_WEBHOOK_SIGNING_SECRET": "s1gning-secret",
    "UNS_TARGET_SECRET": "t4rget-secret",
    "UNS_REDIS_URL": "redis://me:r3dis-password@127.0.0.1:1/0",
}
STRANGERS = "k3y-of-another-service"
PATHS = {"direct": "/t0ken-direct?sig=q1", "by_name": "/t0ken-by-name", "callback": "/t0ken-callback?sig=q2"}
HIDDEN = re.compile(r"k3y|r3dis|c4llback|s1gning|t4rget|t0ken|sig=|q1|q2|whsec|v1=|v1,", re.IGNORECASE)


def the_form(line):
    """
    A line, which has the form that all lines have.
    """
    fields = json.loads(line)
    assert NEEDED <= set(fields) <= KNOWN, line
    assert all(isinstance(value, str) for value in fields.values()), line
    assert datetime.fromisoformat(fields["timestamp"]).utcoffset().total_seconds() == 0
    assert fields["level"] in {"info", "warning", "error", "critical"}
    return fields


def written(monkeypatch, write):
    """
    What ``write`` makes this process write to standard error, in lines of the form.
    """
    stream, root = io.StringIO(), logging.getLogger()
    monkeypatch.setattr(sys, "stderr", stream)
    with warnings.catch_warnings(), logs_as_they_were():
        warnings.simplefilter("always")
        logs.set_up_logs()
        root.handlers = root.handlers[:1]  # without those of pytest, which raise what cannot be formed
        write()
    return [the_form(line) for line in stream.getvalue().splitlines()]


def by_a_logger():
    logging.getLogger("some.library").error("x %s", "y")


def by_a_logger_of_its_own():
    logger = logging.getLogger("uvicorn.error")
    logger.warning("two\nlines")


def by_a_warning():
    warnings.warn("old", DeprecationWarning, stacklevel=1)


def fails():
    raise ZeroDivisionError("x")


def by_an_exception():
    try:
        fails()
    except ZeroDivisionError as error:
        sys.excepthook(type(error), error, error.__traceback__)


def by_a_thread():
    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()


def by_a_thread_that_leaves():
    by_a_logger()
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()


def by_what_cannot_be_raised():
    class Ends:
        def __del__(self):
            fails()

    Ends()
    gc.collect()


def by_a_task_that_nobody_awaits():
    async def failing():
        fails()

    async def main():
        task = asyncio.ensure_future(failing())
        await asyncio.wait({task})

    asyncio.run(main())
    gc.collect()


def by_a_text_that_is_none():
    logging.getLogger("x").info("half a character: \ud83d")


def by_a_line_that_cannot_be_formed():
    logging.getLogger("x").warning("%d", "t4rget-secret")


def by_a_value_that_cannot_be_shown():
    class Odd:
        def __str__(self):
            raise ValueError("t4rget-secret")

    logging.getLogger("x").warning("%s", Odd())


WAYS = [
    (by_a_logger, "some.library", "error", "x y", None),
    (by_a_logger_of_its_own, "uvicorn.error", "warning", "two\nlines", None),
    (by_a_warning, "py.warnings", "warning", "DeprecationWarning: old", None),
    (by_an_exception, "uns.entrypoints.logs", "critical", "the process ends", "ZeroDivisionError: x"),
    (by_a_thread, "uns.entrypoints.logs", "error", "a thread ends", "ZeroDivisionError: x"),
    (by_a_thread_that_leaves, "some.library", "error", "x y", None),
    (by_what_cannot_be_raised, "uns.entrypoints.logs", "error", "passed over", "ZeroDivisionError: x"),
    (by_a_task_that_nobody_awaits, "asyncio", "error", "never retrieved", "ZeroDivisionError: x"),
    (by_a_text_that_is_none, "x", "info", "half a character: ", None),
    (by_a_line_that_cannot_be_formed, "x", "error", "cannot be formed: TypeError", None),
    (by_a_value_that_cannot_be_shown, "x", "error", "cannot be formed: ValueError", None),
]


@pytest.fixture
def of_its_own():
    """
    A logger that a server set up for itself before it loaded the application.
    """
    logger = logging.getLogger("uvicorn.error")
    with logs_as_they_were():
        logger.addHandler(logging.StreamHandler(io.StringIO()))
        logger.propagate = False
        yield logger


@pytest.mark.parametrize(("write", "logger", "level", "told", "exception"), WAYS)
@pytest.mark.usefixtures("of_its_own")
def test_whoever_writes_it_it_is_one_line(monkeypatch, write, logger, level, told, exception):
    """
    Given a line of ours, of a library's, of a server's that had logs of its own, a warning, or an
    exception that nobody caught, then it is one JSON object on one line, with the same fields.
    """
    (line,) = written(monkeypatch, write)

    assert (logger, level) == (line["logger"], line["level"])
    assert told in line["event"]
    assert ("exception" in line) is (exception is not None)
    assert (exception or "") in line.get("exception", "")
    assert not HIDDEN.search(json.dumps(line))


def test_a_line_that_cannot_be_formed_says_where_it_was_written(monkeypatch):
    """
    So that somebody can mend it.
    """
    (line,) = written(monkeypatch, by_a_line_that_cannot_be_formed)

    assert f"a line of {__file__}:" in line["event"]


def test_a_terminal_is_shown_no_values_of_variables(monkeypatch):
    """
    Given a terminal, when an exception is logged, then its stack is shown, and of the variables on it
    nothing: keys and secrets may be among them.
    """
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)

    def fails_with(key):
        fails()

    with logs_as_they_were():
        logs.set_up_logs()
        try:
            fails_with("".join(["k3y", "-operator"]))
        except ZeroDivisionError:
            logging.getLogger("x").exception("it failed")

    assert "it failed" in stream.getvalue()
    assert "ZeroDivisionError: x" in stream.getvalue()
    assert "k3y-operator" not in stream.getvalue()


def settings_of(folder, receiver):
    """
    A service whose every secret can be told from everything else.
    """
    targets = {
        "direct": {"url": receiver.url(PATHS["direct"]), "secret_env": "UNS_TARGET_SECRET"},
        "by_name": {"url_env": "UNS_TARGET_URL"},
    }
    documents = [
        a_document(
            name,
            notification_type=f"{name}.*",
            channels={"primary": ["WEBHOOK"], "fallback": ["LOG"]},
            targets={"WEBHOOK": target},
            require_ack=True,
        )
        for name, target in targets.items()
    ]
    return SECRETS | {
        "UNS_DATABASE_URL": f"sqlite:///{folder / 'uns.db'}",
        "UNS_POLICY_DIR": str(policy_folder(folder / "policies", *documents)),
        "UNS_EGRESS_ALLOW": LOOPBACK,
        "UNS_TARGET_URL": receiver.url(PATHS["by_name"]),
        "UNS_CALLBACK_URL": receiver.url(PATHS["callback"]),
        "UNS_WORKER_POLL_SECONDS": "0.05",
        "PYTHONWARNINGS": "always",
    }


async def echoes(writer):
    """
    A receiver that fails, and repeats what it was sent.
    """
    said = " ".join([*SECRETS.values(), *PATHS.values()]).encode()
    await answers(500, said)(writer)


async def used(client, receiver):
    """
    What users do right and wrong.
    """
    for headers in ({}, {"Authorization": f"Bearer {STRANGERS}"}, {"X-UNS-API-Key": STRANGERS}):
        assert 401 == (await client.get("/ready", headers=headers)).status_code
    key = {"Authorization": "Bearer k3y-operator"}
    for kind in ("direct", "by_name"):
        body = a_body(notification_type=f"{kind}.x", metadata={"note": "t0ken-of-the-producer"})
        sent = (await client.post(NOTIFICATIONS, json=body, headers=key)).json()
        assert "DELIVERED" == sent["status"]
        acked = await client.post(f"{NOTIFICATIONS}/{sent['notification_id']}/ack", headers=key)
        assert 200 == acked.status_code
    await until(lambda: 2 <= sum("callback" in request.target for request in receiver.requests))
    assert 422 == (await client.post(NOTIFICATIONS, content=b"{", headers=key)).status_code
    assert 404 == (await client.get(f"/nope{PATHS['direct']}", headers=key)).status_code


def broken_off(port):
    """
    A request that ends in the middle of its body, and something that is no request.
    """
    head = f"POST {NOTIFICATIONS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k3y-operator\r\n"
    with socket.create_connection((LOOPBACK, port)) as half:
        half.sendall(f"{head}X-Request-ID: trace-half\r\nContent-Length: 99\r\n\r\n{{".encode())
    with socket.create_connection((LOOPBACK, port)) as none:
        none.sendall(b"GET /t0ken-direct\r\n\r\n\r\n")
        none.recv(1000)


@pytest.mark.parametrize("door", ["uns serve", "uvicorn uns.app:app"])
async def test_every_line_of_a_service_has_the_form_and_none_a_secret(tmp_path, door):
    """
    Given a service whose keys, secrets and targets are known, used rightly and wrongly, by callers
    with wrong keys and receivers that repeat what they were sent, when it has ended, then each of its
    lines has the form, those written during a request have its id, and none has a secret.
    """
    log = tmp_path / "log"
    async with receiving(echoes) as receiver:
        settings = settings_of(tmp_path, receiver)
        run = serving(settings, log=log) if door == "uns serve" else served("uns.app:app", settings, log=log)
        with run as port:
            async with httpx2.AsyncClient(base_url=f"http://{LOOPBACK}:{port}", timeout=30) as client:
                await used(client, receiver)
            await asyncio.to_thread(broken_off, port)
            await until(lambda: "trace-half" in log.read_text())
    text = log.read_text()
    lines = [the_form(line) for line in text.splitlines()]
    during = [line for line in lines if "a request was not read to its end" in line["event"]]

    assert {
        "uns.adapters.pubsub.relay",
        "uns.entrypoints.http.errors",
        "uns.notifications",
        "uvicorn.error",
    } <= {line["logger"] for line in lines}
    assert ["trace-half"] == [line["request_id"] for line in during]
    assert [] == HIDDEN.findall(text)
