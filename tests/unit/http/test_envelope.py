"""
``X-Request-ID``: taken or made, in every answer, and on every log line.
"""

import asyncio
import io
import json
import logging
from uuid import UUID

import pytest
import structlog

from kit.asgi import Asgi
from kit.logs import logs_as_they_were
from kit.web import NOTIFICATIONS, OPERATOR, a_body
from uns.entrypoints import logs
from uns.entrypoints.http.envelope import Envelope
from uns.entrypoints.http.sending import MAX_BODY

EVERYWHERE = [
    ("GET", "/health", b"", None, 200),
    ("HEAD", "/health", b"", None, 200),
    ("POST", NOTIFICATIONS, a_body(), OPERATOR, 202),
    ("GET", "/ready", b"", None, 401),
    ("POST", NOTIFICATIONS, b"", "observer-key", 403),
    ("GET", "/nope", b"", None, 404),
    ("GET", f"{NOTIFICATIONS}/x", b"", OPERATOR, 404),
    ("PUT", NOTIFICATIONS, b"", OPERATOR, 405),
    ("POST", NOTIFICATIONS, b"x" * (MAX_BODY + 1), OPERATOR, 413),
    ("POST", NOTIFICATIONS, b"{", OPERATOR, 422),
]


@pytest.fixture
def written():
    """
    The log as the service writes it: lines of JSON.
    """
    with logs_as_they_were():
        logs.set_up_logs()
        stream = logging.getLogger().handlers[0].stream = io.StringIO()
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(("method", "path", "body", "key", "status"), EVERYWHERE)
async def test_an_id_is_taken_and_answered(web, method, path, body, key, status):
    """
    Whatever the answer is, an error that no route has made included.
    """
    headers = {"X-Request-ID": "trace-1", "Prefer": "respond-async"}
    answer = await web.request(method, path, body, key=key, headers=headers)

    assert (status, "trace-1") == (answer.status, answer.headers["x-request-id"])


@pytest.mark.parametrize(("method", "path", "body", "key", "status"), EVERYWHERE)
async def test_an_id_is_made_where_there_is_none(web, method, path, body, key, status):
    """
    A fresh one for each request.
    """
    made = {
        (await web.request(method, path, body, key=key, headers={"Prefer": "respond-async"})).headers[
            "x-request-id"
        ]
        for _ in range(2)
    }

    assert 2 == len({UUID(id) for id in made})


@pytest.mark.parametrize("id", ["a", "A-z_0.9:/+=-"[:12].replace("_", "-"), "x" * 128, "1/2=3+4:5"])
async def test_an_id_that_is_plain_is_kept(web, id):
    """
    Letters, digits and a little punctuation, up to 128.
    """
    assert id == (await web.get("/health", headers={"X-Request-ID": id})).headers["x-request-id"]


@pytest.mark.parametrize(
    "id",
    [
        "",
        " ",
        "a b",
        "a\nb",
        "a\r\nSet-Cookie: x",
        "a\x00",
        "é",
        "\x1b[31m",
        '"',
        "{}",
        "a,b",
        "x" * 129,
        "<x>",
        "%0a",
    ],
)
async def test_an_id_that_could_forge_a_line_is_replaced(web, id):
    """
    Nothing of it comes back.
    """
    answer = await web.get("/health", headers={"X-Request-ID": id})

    assert UUID(answer.headers["x-request-id"])


async def test_the_id_is_on_lines_written_in_a_thread(serving, monkeypatch, written):
    """
    Given a handler that runs in a thread, when it logs, by either library, then its lines have the id.
    """
    async with serving() as web:
        look = type(web.runtime).look

        def telling(self, id):
            logging.getLogger("uns.test").warning("by the standard library")
            return look(self, id)

        monkeypatch.setattr(type(web.runtime), "look", telling)
        await web.get(f"{NOTIFICATIONS}/{await web.sent()}", headers={"X-Request-ID": "trace-9"})
        lines = [line for line in written() if line["logger"] == "uns.test"]

    assert [("by the standard library", "trace-9", "warning")] == [
        (line["event"], line["request_id"], line["level"]) for line in lines
    ]


async def test_the_id_is_on_the_line_of_an_unhandled_error(serving, monkeypatch, written):
    """
    So that whoever is told the id can find the stack.
    """
    async with serving() as web:

        def fails(*_):
            raise ZeroDivisionError("s3cr3t")

        monkeypatch.setattr(type(web.runtime), "look", fails)
        answer = await web.get(f"{NOTIFICATIONS}/x", headers={"X-Request-ID": "trace-7"})
        (line,) = [line for line in written() if line["level"] == "error"]

    assert (500, "trace-7", "trace-7") == (answer.status, answer.headers["x-request-id"], line["request_id"])
    assert "ZeroDivisionError: s3cr3t" in line["exception"]
    assert "Traceback" in line["exception"]


async def test_ids_of_requests_at_once_are_not_mixed():
    """
    Given requests side by side, then each line has the id of its own, and none is left over.
    """
    seen = {}

    async def app(scope, receive, send):
        await asyncio.sleep(0)
        seen[scope["path"]] = structlog.contextvars.get_contextvars()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    client = Asgi(Envelope(app))
    ids = [f"id-{n}" for n in range(20)]
    await asyncio.gather(*(client.get(f"/{id}", headers={"X-Request-ID": id}) for id in ids))

    assert {f"/{id}": {"request_id": id} for id in ids} == seen
    assert {} == structlog.contextvars.get_contextvars()


async def test_a_head_is_a_get_for_the_application_and_none_for_the_server():
    """
    The scope that the server keeps is left alone: by it, it knows that there is no body to send.
    """
    methods, scopes = [], []

    async def app(scope, receive, send):
        methods.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"body"})

    async def served(scope, receive, send):
        scopes.append(scope)
        await Envelope(app)(scope, receive, send)

    answer = await Asgi(served).request("HEAD", "/")

    assert (["GET"], "HEAD") == (methods, scopes[0]["method"])
    assert (b"", "4") == (answer.body, answer.headers["content-length"])
