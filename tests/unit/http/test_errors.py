"""
Every error is a problem of RFC 9457, and none tells what is nobody's business.
"""

import json

import pytest
from litestar import Litestar, get
from litestar.exceptions import HTTPException, ImproperlyConfiguredException

from kit.asgi import Asgi
from kit.web import NOBODYS, NOTIFICATIONS, RUNTIME
from uns.entrypoints.http import errors
from uns.ports.errors import (
    Busy,
    Closed,
    Conflict,
    Forbidden,
    NoPolicy,
    NotFound,
    Rejected,
    SchemaMismatch,
    StoreRefused,
    StoreUnavailable,
    UnsError,
)

SECRET = "s3cr3t"

ERRORS = [
    (NotFound(), 404, "not_found"),
    (Conflict("no"), 409, "conflict"),
    (Conflict("no", code="policy_gap"), 409, "policy_gap"),
    (Rejected("no", path="a.b"), 422, "validation_error"),
    (NoPolicy("no", path="notification_type"), 422, "no_policy"),
    (Forbidden(), 403, "forbidden"),
    (StoreRefused(), 500, "store_refused"),
    (SchemaMismatch(), 503, "schema_mismatch"),
    (StoreUnavailable(), 503, "store_unavailable"),
    (Busy(), 503, "busy"),
    (Closed(), 503, "closed"),
]


@pytest.fixture
def answered():
    """
    The answer to a request whose handler raises.
    """

    async def answered(error):
        @get("/")
        async def raises() -> None:
            raise error

        handlers = {
            UnsError: errors.on_uns_error,
            HTTPException: errors.on_http_error,
            Exception: errors.on_any_error,
        }
        app = Litestar([raises], exception_handlers=handlers, logging_config=None, openapi_config=None)
        return await Asgi(app).get("/")

    return answered


@pytest.mark.parametrize(("error", "status", "code"), ERRORS)
async def test_an_error_is_a_problem(answered, error, status, code):
    """
    Type, title, status, detail and code, and what the error has besides.
    """
    answer = await answered(error)
    body = answer.json

    assert (status, "application/problem+json", code) == (
        answer.status,
        answer.headers["content-type"],
        body["code"],
    )
    assert ("about:blank", status, str(error)) == (body["type"], body["status"], body["detail"])
    assert body["title"]
    assert ("errors" in body) is (status == 422)


async def test_422_lists_the_faults(answered):
    """
    Path and message of each.
    """
    answer = await answered(Rejected("a.b must be text", path="a.b"))

    assert [{"path": "a.b", "message": "a.b must be text"}] == answer.json["errors"]


@pytest.mark.parametrize(
    ("more", "members"),
    [
        ({}, set()),
        ({"obligation_owner_id": "o"}, {"obligation_owner_id"}),
        ({"replay_blocked_by": "b", "reason": "RESOLVED"}, {"replay_blocked_by"}),
    ],
)
async def test_409_names_whom_it_is_about(answered, more, members):
    """
    ``obligation_owner_id`` or ``replay_blocked_by`` where it applies, and not otherwise.
    """
    body = (await answered(Conflict("no", **more))).json

    assert members == set(body) - {"type", "title", "status", "detail", "code"}
    assert all(more[name] == body[name] for name in members)


@pytest.mark.parametrize(("error", "status", "code"), ERRORS)
async def test_only_waiting_helps_when_it_is_said(answered, error, status, code):
    """
    ``Retry-After`` where the store did not answer, and nowhere else.
    """
    answer = await answered(error)

    assert ("1" if isinstance(error, StoreUnavailable) else None) == answer.headers.get("retry-after")


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError(SECRET),
        KeyError(SECRET),
        RuntimeError(SECRET),
        ImproperlyConfiguredException(SECRET),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, SECRET),
    ],
)
async def test_what_nobody_foresaw_is_500_and_in_the_log(answered, caplog, error):
    """
    The log has the stack, the answer nothing of it.
    """
    answer = await answered(error)
    (record,) = caplog.records

    assert (500, "internal_error") == (answer.status, answer.code)
    assert "the service failed to answer; its log says why" == answer.json["detail"]
    assert SECRET.encode() not in answer.body
    assert ("ERROR", type(error)) == (record.levelname, record.exc_info[0])


@pytest.mark.parametrize("error", [StoreRefused("refused"), SchemaMismatch("older")])
async def test_what_is_ours_to_mend_is_in_the_log(answered, caplog, error):
    """
    An operator hears of it without being called.
    """
    await answered(error)

    assert ["ERROR"] == [record.levelname for record in caplog.records]


@pytest.mark.parametrize("error", [NotFound(), Conflict("no"), Rejected("no"), Busy()])
async def test_what_is_the_callers_is_not(answered, caplog, error):
    """
    Nor is a store that is busy: whoever called hears of it.
    """
    await answered(error)

    assert [] == caplog.records


async def test_a_row_that_cannot_be_shown_is_500_too(serving, monkeypatch, caplog):
    """
    Given an answer that is no JSON, then the problem is one.
    """
    async with serving() as web:
        monkeypatch.setattr(type(web.runtime), "look", lambda *_: {"x": "\ud800"})
        answer = await web.get(f"{NOTIFICATIONS}/{NOBODYS}")

    assert (500, "internal_error") == (answer.status, answer.code)
    assert ["ERROR"] == [record.levelname for record in caplog.records]


@pytest.mark.parametrize("host", ["", "a b", "x" * 300, "a\nb", "[::1", "\xff"])
async def test_an_odd_host_is_an_answer_too(web, host):
    """
    Whatever the framework thinks of it, it is told as a problem.
    """
    answer = await web.get("/health", headers={"Host": host})

    assert answer.status == 200 or (answer.status, answer.code) == (400, "bad_request")


@pytest.mark.parametrize(
    "query",
    [
        "limit",
        "limit=1&limit=2",
        "&&&",
        "=",
        "%",
        "%zz",
        "limit=%",
        "a" * 20_000,
        "x=\x7f",
        "limit=1;cursor=x",
    ],
)
async def test_an_odd_query_is_no_error_of_ours(web, query):
    """
    200 or 422, and JSON.
    """
    answer = await web.get(f"{RUNTIME}/dead-letters", query=query)

    assert answer.status in {200, 422}
    assert answer.json


def test_members_that_are_none_are_left_out():
    """
    A problem has what it says, and no more.
    """
    body = json.loads(errors.problem(404, "not_found", "gone", a=None, b=1).content)

    assert {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "gone",
        "code": "not_found",
        "b": 1,
    } == body
