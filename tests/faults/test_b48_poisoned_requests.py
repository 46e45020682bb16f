"""
B48, but for bodies: whatever a path, a query, a header or a connection brings, the answer is none of a
fault of ours, it is JSON, and nothing is spoilt by it.
"""

import asyncio
import json
import socket
from itertools import product
from urllib.parse import quote

import pytest

from kit.receiver import LOOPBACK
from kit.service import serving as serve
from kit.web import NOTIFICATIONS, OPERATOR, RUNTIME, a_body
from uns.entrypoints.http.access import NEEDS

# Of what a path, a query or a header may be made.
TEXTS = [
    "\x00",
    "\x7f",
    "\x80",
    "\ufffd",
    "\ud7ff\ue000",
    "é",
    "NaN",
    "Infinity",
    "1e999",
    "-0",
    "+1",
    "1_0",
    "٣",
    "9" * 400,
    "9" * 5000,
    "%00",
    "%ff",
    "%ed%a0%80",
    "%",
    "%zz",
    "null",
    "[]",
    "{}",
    '"',
    "' OR 1=1 --",
    "x" * 8000,
]
IDS = ["..", "{0190a6b0-0000-7000-8000-000000000000}", "urn:uuid:0190a6b0-0000-7000-8000-000000000000",
       "0190A6B0-0000-7000-8000-000000000000", "0190a6b0000070008000000000000000", "0" * 36]  # fmt: skip

WITHOUT_BODY = sorted(route for route in NEEDS if route[0] != "POST")
WITH_ID = sorted(route for route in NEEDS if "{" in route[1])

HEAD = f"POST {NOTIFICATIONS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {OPERATOR}\r\n".encode()


def posted(body, head=HEAD):
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(body):
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


GOOD = posted(json.dumps(a_body()).encode())
NOT_UTF_8 = posted(b'"\xff"'), chunked(b'{"title": "\xed\xa0\x80"}')
RAW = [
    *NOT_UTF_8,
    posted(b"NaN"),
    posted(b'{"title": "\\ud83d"}'),
    posted(b"{}", HEAD + b"X-Request-ID: \xff\xfe\r\n"),
    posted(b"{}", HEAD + b"X-Odd: a\x00b\r\n"),
    posted(b"{}", HEAD + b"\xff: a\r\n"),
    posted(b"{}", HEAD + b"Content-Length: 2\r\n"),
    posted(b"{}", HEAD + b"Content-Length: 7\r\n"),
    posted(b"{}", HEAD + b"Transfer-Encoding: chunked\r\n"),
    HEAD + b"Content-Length: NaN\r\n\r\n{}",
    HEAD + b"Content-Length: -1\r\n\r\n{}",
    HEAD + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n{}",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nNaN\r\n{}\r\n0\r\n\r\n",
    b"GET /api/v1/notifications/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /%ff%00?limit=\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /health?%ed%a0%80 HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"GET //\x7f HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n",
    b"\x00\x00\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
]
"""
What arrives at a port: bodies that are none, and requests that are spoilt before their body.
"""


def strict(answer):
    """
    Status of an answer that is JSON as it is defined, and a problem if it is no success.
    """
    assert answer.status < 500, answer
    assert answer.json is not None
    assert answer.status == (answer.status if answer.status < 400 else answer.json["status"])
    return answer.status


@pytest.mark.parametrize("body", [b"NaN", b"[" * 100_000, b"\xff", b"x" * 3_000_000], ids=range(4))
async def test_a_body_where_none_is_taken_changes_nothing(web, body):
    """
    B48: given a route that takes no body, then what comes as one is not looked at.
    """
    id = await web.sent()
    for method, template in WITHOUT_BODY:
        path = template.format(notification_id=id)
        bare, answer = await web.request(method, path), await web.request(method, path, body)

        assert bare.status == answer.status, path
        assert answer.json is not None


@pytest.mark.parametrize("path", [f"{RUNTIME}/dead-letters", f"{RUNTIME}/callbacks"])
async def test_no_query_is_an_error_of_ours(web, path):
    """
    B48: whatever a parameter holds, it is 200 or 422, and 200 where nobody asks for it.
    """
    for name, value in product(("limit", "cursor", "state", "unknown", ""), TEXTS):
        status = strict(await web.get(path, query=f"{name}={quote(value, safe='%')}"))

        assert status in ({200, 422} if name in {"limit", "cursor", "state"} else {200}), (name, value)


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("x-request-id", {202}),
        ("prefer", {202}),
        ("content-type", {202}),
        ("accept", {202}),
        ("accept-encoding", {202}),
        ("cookie", {202}),
        ("host", {202, 400}),
        ("content-length", {202, 413}),
        ("authorization", {401}),
        ("x-uns-api-key", {202}),
    ],
)
async def test_no_header_is_an_error_of_ours(serving, name, statuses):
    """
    B48: what a header holds changes nothing but what it is for, and what was accepted can be shown.
    """
    async with serving(settings={"send_wait_seconds": 0.0}) as web:
        for value in TEXTS:
            answer = await web.post(NOTIFICATIONS, a_body(), headers={name: value.encode().decode("latin-1")})

            assert strict(answer) in statuses, value
            assert answer.headers["x-request-id"].isprintable()
            if answer.status == 202:
                assert 200 == strict(await web.get(f"{NOTIFICATIONS}/{answer.json['notification_id']}"))


async def test_no_id_is_an_error_of_ours(web):
    """
    B48: an id that is none, or nobody's, is a 404 at every route that takes one.
    """
    for (method, template), value in product(WITH_ID, (*TEXTS, *IDS)):
        path = template.format(notification_id=value, event_id=value)

        assert 404 == strict(await web.request(method, path)), (method, path)


async def test_what_is_hardly_http_gets_an_answer_too(tmp_path):
    """
    B48: given bytes on a real connection that are no request, or an odd one, then the answer is none
    of a fault of ours, the log has no stack, and the service goes on.
    """
    environ = {"UNS_DATABASE_URL": f"sqlite:///{tmp_path / 'uns.db'}", "UNS_API_KEY": OPERATOR}
    with serve(environ, log=tmp_path / "log") as port:
        found = {raw: await asyncio.to_thread(status_of, port, raw) for raw in RAW}
        good = await asyncio.to_thread(status_of, port, GOOD)

    assert {} == {raw: status for raw, status in found.items() if not 200 <= status < 500}
    assert [422, 422, 202] == [*(found[raw] for raw in NOT_UTF_8), good]
    assert "Traceback" not in (tmp_path / "log").read_text()


def status_of(port, raw):
    """
    The status of the answer to these bytes.
    """
    with socket.create_connection((LOOPBACK, port), timeout=20) as connection:
        connection.sendall(raw)
        return int(connection.makefile("rb").readline().split(b" ")[1])
