"""
B48: whatever a request holds, SQLite and PostgreSQL say the same of it.
"""

import pytest

from kit.builders import AGENT
from kit.poisons import FIELDS, VALUES, with_value
from kit.stores import postgres_ledger
from kit.web import NOTIFICATIONS, PRODUCER, RESPONDER

ASYNC = {"Prefer": "respond-async"}
ASTRAL = "\U0001f514"


@pytest.fixture
async def both(serving):
    """
    The service on a file, and on PostgreSQL.
    """
    with postgres_ledger() as url:
        async with serving() as file, serving(settings={"database_url": url}) as postgres:
            yield file, postgres


def verdict(answer):
    """
    What does not tell one database from another.
    """
    told = answer.json
    return answer.status, told.get("code"), told.get("errors"), told.get("status")


async def same(both, path, body, key=PRODUCER):
    """
    The one verdict of both.
    """
    first, second = [verdict(await web.post(path, body, key=key, headers=ASYNC)) for web in both]
    assert first == second, body[:200]
    return first[0]


@pytest.mark.parametrize("field", FIELDS)
async def test_of_a_value_of_a_field(both, field):
    """
    B48: each poison in the place of each field.
    """
    found = {await same(both, NOTIFICATIONS, with_value(field, value)) for value in VALUES}

    assert found <= {202, 422}


@pytest.mark.parametrize("place", ["metadata", "autonomy_context"])
async def test_of_a_value_inside_of_one(both, place):
    """
    B48: each poison one level down.
    """
    for value in VALUES:
        inner = b'{"x": %s}' % value
        if place == "autonomy_context":
            inner = b'{"autonomy_mode": "LIVE", "agent_id": "%s", "plan_id": %s}' % (AGENT.encode(), value)
        await same(both, NOTIFICATIONS, with_value(place, inner))


LONGEST = {
    "title": 200,
    "message": 65_536,
    "source": 255,
    "notification_type": 255,
    "idempotency_key": 255,
    "dedup_key": 255,
    "correlation_id": 255,
}


@pytest.mark.parametrize(("field", "length"), LONGEST.items(), ids=LONGEST)
async def test_of_the_longest_text_and_one_that_is_longer(both, field, length):
    """
    B48: what is as long as it may be goes into its column, in letters that are two units to some.
    """
    letter = "a" if field == "notification_type" else ASTRAL

    assert [202, 422] == [
        await same(both, NOTIFICATIONS, with_value(field, f'"{letter * n}"'.encode()))
        for n in (length, length + 1)
    ]


@pytest.mark.parametrize("id", ["nobody", "%00", "a%00b", "%ED%A0%80", "%FF", "x" * 5000])
async def test_of_an_id_that_nothing_has(both, id):
    """
    B48: in a path as well.
    """
    views = [
        [verdict(await web.get(f"{NOTIFICATIONS}/{id}{tail}")) for web in both] for tail in ("", "/delivery")
    ]
    posts = await same(both, f"{NOTIFICATIONS}/{id}/ack", b"{}", key=RESPONDER)

    assert [first for first, _ in views] == [second for _, second in views]
    assert posts < 500
