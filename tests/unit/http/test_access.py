"""
Role by route, as ``NEEDS`` has it: what each credential opens, and what it does not.
"""

import pytest

from kit.web import KEYS, NOBODYS, OBSERVER, OPERATOR, PRODUCER, RESPONDER, credentials
from uns.entrypoints.http.access import NEEDS
from uns.ports.identity import Capability, Role

READ, SEND, RESPOND, ADMIN = Capability

OPENS = {
    Role.OPERATOR: {READ, SEND, RESPOND, ADMIN},
    Role.RESPONDER: {READ, RESPOND},
    Role.PRODUCER: {READ, SEND},
    Role.OBSERVER: {READ},
}
"""The matrix of the reference: class by capability."""

WRITES = {"POST", "DELETE"}
ROUTES = sorted(NEEDS, key=str)
LOCKED = [route for route in ROUTES if NEEDS[route] is not None]
PUBLIC = [route for route in ROUTES if NEEDS[route] is None]
CREDENTIALS = {"none": None, "wrong": "no-such-key"} | {role.lower(): key for role, key in KEYS.items()}


def methods(route):
    """
    How a route can be asked: HEAD wherever GET is answered.
    """
    method, _ = route
    return ("GET", "HEAD") if method == "GET" else (method,)


def path_of(route):
    return route[1].format(notification_id=NOBODYS, event_id=NOBODYS)


def expected(need, credential):
    """
    The refusal by the table of the reference; None where the route is open.
    """
    if need is None:
        return None
    if credential in {"none", "wrong"}:
        return 401, "unauthorized"
    opens = OPENS[Role(credential.upper())]
    return None if need in opens else (403, "insufficient_scope")


async def refusal(web, route, method, **credential):
    """
    Status and code, if it was the gate that refused; None if the request passed it.
    """
    answer = await web.request(method, path_of(route), **credential)
    body = answer if method != "HEAD" else await web.request("GET", path_of(route), **credential)
    refused = body.code in {"unauthorized", "insufficient_scope", "write_auth_not_configured"}
    assert answer.status == body.status
    return (answer.status, body.code) if refused else None


async def test_every_route_has_an_entry_and_every_entry_a_route(web):
    """
    A route that nobody thought of is refused, and a test says so.
    """
    routes = {(method, route.path_format) for route in web.app.routes for method in route.methods}

    assert {route for route in routes if route[0] != "OPTIONS"} == set(NEEDS)


@pytest.mark.parametrize("credential", CREDENTIALS)
async def test_role_by_route(web, credential):
    """
    Every credential at every route, GET and HEAD alike: open, 401 or 403, as the matrix has it.
    """
    key = CREDENTIALS[credential]
    found = {
        (method, path): await refusal(web, (verb, path), method, key=key)
        for verb, path in ROUTES
        for method in methods((verb, path))
    }
    wanted = {
        (method, path): expected(NEEDS[(verb, path)], credential)
        for verb, path in ROUTES
        for method in methods((verb, path))
    }

    assert wanted == found


@pytest.mark.parametrize("role", Role)
async def test_the_reference_says_what_a_class_can(web, role):
    """
    The capabilities of a class, route by route in words: a producer sends and reads, a responder
    answers and reads, an observer reads, an operator does all.
    """
    opened = {NEEDS[route] for route in LOCKED if await refusal(web, route, route[0], key=KEYS[role]) is None}

    assert OPENS[role] == opened


@pytest.mark.parametrize(
    ("first", "second"), [(a, b) for a in Role for b in Role if list(Role).index(a) < list(Role).index(b)]
)
async def test_two_classes_with_one_key_combine(serving, first, second):
    """
    Given two classes with one value, then it opens what either opens, and nothing else.
    """
    same = credentials(**{first.lower(): "same", second.lower(): "same"})
    async with serving(settings={"credentials": same}) as web:
        opened = {NEEDS[route] for route in LOCKED if await refusal(web, route, route[0], key="same") is None}

    assert OPENS[first] | OPENS[second] == opened


@pytest.mark.parametrize("key", ["old", "new"])
async def test_a_key_that_rotates_has_two_values(serving, key):
    """
    Both open, as the same caller, and what is made of them does not.
    """
    async with serving(settings={"credentials": credentials(operator="old,new")}) as web:
        assert {None} == {await refusal(web, route, route[0], key=key) for route in LOCKED}
        assert {(401, "unauthorized")} == {
            await refusal(web, ("GET", "/ready"), "GET", key=key) for key in ("old,new", "", "ol", "OLD")
        }


@pytest.mark.parametrize(
    ("headers", "open_"),
    [
        ({"Authorization": f"Bearer {OBSERVER}"}, True),
        ({"Authorization": f"bearer  {OBSERVER} "}, True),
        ({"X-UNS-API-Key": OBSERVER}, True),
        ({"x-uns-api-key": f" {OBSERVER} "}, True),
        ({"Authorization": "Basic dXNlcjpwYXNz", "X-UNS-API-Key": OBSERVER}, True),
        ({"Authorization": "Bearer ", "X-UNS-API-Key": OBSERVER}, True),
        ({"Authorization": "Bearer wrong", "X-UNS-API-Key": OBSERVER}, False),
        ({"Authorization": OBSERVER}, False),
        ({"Authorization": f"Token {OBSERVER}"}, False),
        ({"X-UNS-API-Key": f"Bearer {OBSERVER}"}, False),
        ({"X-UNS-API-Key": ""}, False),
        ({"Authorization": "Bearer é\xff"}, False),
    ],
)
async def test_a_key_comes_as_bearer_or_in_a_header_of_its_own(web, headers, open_):
    """
    ``Authorization: Bearer``, or ``X-UNS-API-Key`` where there is no such token.
    """
    answer = await web.get("/ready", key=None, headers=headers)

    assert open_ is (answer.status != 401)


@pytest.mark.parametrize("key", [None, "any"])
async def test_without_any_credential_nothing_is_written(serving, key):
    """
    Given that no credential is configured, then writes are 503 and say what to do, reads 401, and
    what is public stays open.
    """
    async with serving(settings={"credentials": ()}) as web:
        found = {route: await refusal(web, route, route[0], key=key) for route in ROUTES}

    assert found == {
        route: None
        if route in PUBLIC
        else (503, "write_auth_not_configured")
        if route[0] in WRITES
        else (401, "unauthorized")
        for route in ROUTES
    }


async def test_the_answer_without_credentials_says_what_to_do(serving):
    """
    Whoever meets it can help themselves.
    """
    async with serving(settings={"credentials": ()}) as web:
        answer = await web.post("/api/v1/notifications")

    assert "UNS_API_KEY" in answer.json["detail"]
    assert "retry-after" not in answer.headers  # waiting does not help


@pytest.mark.parametrize("route", PUBLIC, ids=str)
async def test_what_is_public_asks_for_no_key(web, route):
    """
    Liveness, and nothing else.
    """
    assert {"/health", "/healthz"} == {path for _, path in PUBLIC}
    assert {200} == {(await web.request(m, path_of(route), key=None)).status for m in methods(route)}


@pytest.mark.parametrize("key", [None, "wrong"])
async def test_401_names_the_scheme_and_not_the_key(web, key):
    """
    A client can tell how to identify itself.
    """
    answer = await web.get("/ready", key=key)

    assert (401, "Bearer") == (answer.status, answer.headers["www-authenticate"])
    assert "Missing or invalid API key: send one as `Authorization: Bearer <key>`." == answer.json["detail"]


async def test_403_says_what_is_lacking(web):
    """
    The capability, so that the operator knows which key to give.
    """
    answer = await web.post("/api/v1/policies/reload", key=PRODUCER)

    assert "admin" in answer.json["detail"]
    assert "www-authenticate" not in answer.headers


async def test_a_body_is_not_read_for_a_stranger(web):
    """
    A wrong key is refused whatever the body is, so that nobody learns from it, nor makes us work.
    """
    for key, status in ((None, 401), (RESPONDER, 403)):
        answer = await web.post("/api/v1/notifications", b"{" * 3_000_000, key=key)

        assert status == answer.status


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"])
async def test_another_method_is_no_way_in(web, method):
    """
    405, and which methods there are.
    """
    answer = await web.request(method, "/api/v1/notifications", key=OPERATOR)

    assert (405, "method_not_allowed") == (answer.status, answer.code)
    assert "POST" in answer.headers["allow"]


async def test_head_of_what_is_only_posted(web):
    """
    HEAD is GET: there is none.
    """
    assert 405 == (await web.request("HEAD", "/api/v1/notifications")).status


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1/nope", "/ui/deliveries", "/metrics", "/schema"])
async def test_what_is_not_there_is_404_for_all(web, path):
    """
    With and without a key alike.
    """
    for key in (None, OPERATOR):
        answer = await web.get(path, key=key)

        assert (404, "not_found") == (answer.status, answer.code)
