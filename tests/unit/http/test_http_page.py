"""
``docs/http.md`` says of each route what it needs, and of each error what it is.
"""

import json
import re

import pytest

from kit.pages import names, prose, read, rows
from uns.core.rules.access import CAPABILITIES
from uns.entrypoints.http import access, notifications, policies
from uns.entrypoints.http.access import NEEDS
from uns.entrypoints.http.bodies import MAX_DEPTH, ReloadBody
from uns.entrypoints.http.pages import DEFAULT_LIMIT, MAX_LIMIT
from uns.entrypoints.http.sending import MAX_BODY
from uns.ports.errors import UnsError
from uns.ports.replies import AckResponse, SendNotificationResponse
from uns.ports.requests import SendNotificationRequest
from uns.ports.vocabulary import Status

PAGE = read("docs/http.md")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FRAMEWORKS = {
    "bad_request": 400,
    "method_not_allowed": 405,
    "request_entity_too_large": 413,
    "internal_error": 500,
}


def errors_of(*modules):
    """
    Code and status of every error that a door may answer with.
    """
    for module in modules:
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, UnsError) and found.code != "error":
                yield found.code, found.status


def test_the_routes_are_those_of_the_table():
    """
    Method, path and need, each once.
    """
    listed = [cells for cells in rows(PAGE, "## Who may call what") if len(cells) == 4]
    documented = {(method, names(path)[0]): need for method, path, need, _ in listed}

    assert len(listed) == len(documented)
    assert {route: str(need or "nothing") for route, need in NEEDS.items()} == documented


def test_the_classes_are_those_of_the_matrix():
    """
    What a key of each class may do.
    """
    listed = [cells for cells in rows(PAGE, "## Who may call what") if len(cells) == 2]

    assert {role.lower(): set(map(str, may)) for role, may in CAPABILITIES.items()} == {
        role: set(may.split(", ")) for role, may in listed
    }


def test_every_error_is_in_the_table():
    """
    Status and code of each, the framework's included.
    """
    import uns.ports.errors as ports

    known = dict(errors_of(ports, access, notifications, policies)) | FRAMEWORKS | {"policy_gap": 409}
    listed = {names(code)[0]: int(status) for status, code, _ in rows(PAGE, "## Errors")}

    assert known == listed


def test_every_state_of_delivery_is_explained():
    """
    What ``status`` can be.
    """
    assert {str(status) for status in Status} == {names(state)[0] for state, _ in rows(PAGE, "## Sending")}


@pytest.mark.parametrize(("number", "struct"), [(0, SendNotificationResponse), (1, AckResponse)])
def test_an_example_of_an_answer_has_its_fields(number, struct):
    """
    In their order.
    """
    examples = [json.loads(text) for kind, text in BLOCKS if kind == "json"]

    assert list(struct.__struct_fields__) == list(examples[number])


def test_the_example_of_a_request_is_one():
    """
    What ``curl`` sends there is taken.
    """
    (body,) = re.findall(r"-d '(.*?)'", PAGE, re.DOTALL)

    assert "ask.restart" == SendNotificationRequest(**json.loads(body)).notification_type


async def test_the_example_of_a_problem_is_one(web):
    """
    The answer to a title that is too long.
    """
    (example,) = [json.loads(text) for kind, text in BLOCKS if "about:blank" in text]
    request = SendNotificationRequest.__struct_fields__
    body = {"notification_type": "a", "intent": "SAFETY", "title": "x" * 201, "message": "m", "source": "s"}
    body["autonomy_context"] = {"autonomy_mode": "LIVE", "agent_id": "2c5f9b4c-6b3e-4d1a-9c12-4a8f0c8e7b11"}
    answer = await web.post("/api/v1/notifications", body)

    assert set(body) <= set(request)
    assert example == answer.json


def test_the_limits_are_those_of_the_code():
    """
    How large, how deep, how many.
    """
    page = prose(PAGE)

    assert f"up to {MAX_BODY >> 20} MiB and is nested up to {MAX_DEPTH} deep" in page
    assert f"`limit` is 1 to {MAX_LIMIT}, {DEFAULT_LIMIT} unless given" in page


def test_a_reload_has_these_fields():
    """
    And no others.
    """
    assert list(ReloadBody.__struct_fields__) == [names(cells[0])[0] for cells in rows(PAGE, "## Policies")]
