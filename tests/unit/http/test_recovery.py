"""
Rows as stored, dead letters, replay, resolving, callbacks.
"""

import asyncio

import pytest

from kit.builders import NOW
from kit.channels import ScriptedChannel
from kit.runtimes import a_document
from kit.web import NOBODYS, NOTIFICATIONS, OBSERVER, RESPONDER, RUNTIME
from uns import ChannelResult

DEAD = f"{RUNTIME}/dead-letters"
CALLBACKS = f"{RUNTIME}/callbacks"
REFUSED = ChannelResult(False, error="gone", retryable=False)
ONE_BY_ONE = a_document(dedup_window_seconds=300)


@pytest.fixture
def channel():
    """
    Refuses everything, for good.
    """
    return ScriptedChannel(REFUSED)


async def dead(web, **fields):
    """
    The id of a dead letter.
    """
    id = await web.sent(**fields)
    await web.runtime.run_once()
    assert web.runtime.get(id)["dead_letter"]
    return id


async def pages(web, path, limit, between=None):
    """
    Every page of a list; ``between`` happens after each.
    """
    found, cursor = [], ""
    while True:
        answer = await web.get(path, query=f"limit={limit}{cursor}", key=OBSERVER)
        assert 200 == answer.status, answer
        found.append(answer.json["items"])
        if answer.json["next_cursor"] is None:
            return found
        cursor = f"&cursor={answer.json['next_cursor']}"
        if between is not None:
            await between()


async def test_a_row_is_shown_as_stored(web):
    """
    Flat: the row's columns, the projection, its events; times as Unix seconds.
    """
    id = await dead(web, metadata={"host": "db1"})
    answer = await web.get(f"{RUNTIME}/notifications/{id}", key=OBSERVER)
    row = answer.json

    assert 200 == answer.status
    assert (id, "FAILED", NOW, 1, True) == (
        row["id"],
        row["status"],
        row["accepted_at"],
        row["attempts"],
        row["dead_letter"],
    )
    assert ("db1", id, "RESOLVED") == (
        row["notification"]["metadata"]["host"],
        row["obligation_owner_id"],
        row["obligation_resolution_status"],
    )
    assert [
        "ACCEPTED",
        "ATTEMPT_STARTED",
        "CHANNEL_ATTEMPT_STARTED",
        "CHANNEL_ATTEMPT_RESULT",
        "DELIVERY_RESULT",
    ] == [event["kind"] for event in row["events"]]
    assert {NOW} == {event["at"] for event in row["events"]}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", RUNTIME + "/notifications/{id}"),
        ("POST", RUNTIME + "/notifications/{id}/replay"),
        ("DELETE", "/api/v1/dlq/{id}"),
        ("POST", CALLBACKS + "/{id}/rearm"),
    ],
)
async def test_an_id_that_nobody_has_is_404(web, method, path):
    """
    Well formed or not.
    """
    for id in (NOBODYS, "x", "é", "a" * 5000):
        answer = await web.request(method, path.format(id=id))

        assert (404, "not_found") == (answer.status, answer.code)


async def test_dead_letters_are_listed_with_what_blocks_them(serving, channel):
    """
    Given a dead letter whose key was accepted anew, then the list says what stands in its way, and a
    replay is a 409 with the same words.
    """
    async with serving(ONE_BY_ONE) as web:
        first = await dead(web)
        successor = await web.sent()
        (listed,) = (await web.get(DEAD, key=OBSERVER)).json["items"]
        answer = await web.post(f"{RUNTIME}/notifications/{first}/replay")

    assert (first, successor, "SUCCESSOR_PENDING") == (
        listed["id"],
        listed["replay_blocked_by"],
        listed["replay_block_reason"],
    )
    assert (409, "conflict", successor) == (answer.status, answer.code, answer.json["replay_blocked_by"])


async def test_a_dead_letter_is_replayed(web, channel):
    """
    200 with the row in its new cycle, the attempts of the old one kept; and it is sent again.
    """
    id = await dead(web)
    answer = await web.post(f"{RUNTIME}/notifications/{id}/replay")
    channel._results = [ChannelResult(True)]
    await web.runtime.run_once()
    row = web.runtime.get(id)

    assert (200, id, "PENDING", 2, 0) == (
        answer.status,
        answer.json["id"],
        answer.json["status"],
        answer.json["cycle"],
        answer.json["cycle_attempts"],
    )
    assert ("DELIVERED", 2, False) == (row["status"], row["attempts"], row["dead_letter"])
    assert "local-operator" == next(
        event["payload"]["actor"] for event in web.runtime.events(id) if event["kind"] == "REPLAY_REQUESTED"
    )


async def test_only_a_dead_letter_is_replayed(web):
    """
    409 for what waits, and again once it was replayed.
    """
    id = await web.sent()
    assert 409 == (await web.post(f"{RUNTIME}/notifications/{id}/replay")).status
    await web.runtime.run_once()
    assert 200 == (await web.post(f"{RUNTIME}/notifications/{id}/replay", b"{}")).status

    answer = await web.post(f"{RUNTIME}/notifications/{id}/replay")

    assert (409, "conflict") == (answer.status, answer.code)


async def test_a_failure_is_resolved(web, channel):
    """
    200 once: the row stays FAILED and leaves the list, nothing is sent; then it is no dead letter.
    """
    id = await dead(web)
    answer = await web.request("DELETE", f"/api/v1/dlq/{id}")
    again = await web.request("DELETE", f"/api/v1/dlq/{id}")
    await web.runtime.run_once()

    assert (200, {"notification_id": id, "resolved": True}) == (answer.status, answer.json)
    assert (404, "not_found") == (again.status, again.code)
    assert ("FAILED", [], 1) == (
        web.runtime.get(id)["status"],
        (await web.get(DEAD)).json["items"],
        len(channel.calls),
    )


@pytest.mark.parametrize("path", ["/notifications/{id}/replay", "/callbacks/{id}/rearm"])
async def test_a_wrong_body_is_422(web, path):
    """
    ``{}`` or nothing; and nothing is done.
    """
    id = await dead(web)
    for body in (b"[]", b"null", b"{", {"force": True}):
        answer = await web.post(RUNTIME + path.format(id=id), body)

        assert (422, "validation_error") == (answer.status, answer.code)
    assert web.runtime.get(id)["dead_letter"]


@pytest.mark.parametrize("limit", [1, 7, 49, 50, 51, 200])
async def test_rows_of_one_instant_are_each_on_one_page(web, limit):
    """
    B51: given fifty dead letters of one instant, when they are paged while more come, then each is
    there exactly once, in the same order whatever the size of a page.
    """
    ids = [await web.sent(title=f"alert {n}") for n in range(50)]
    await web.runtime.run_once()
    late = []

    async def between():
        if len(late) < 10:
            late.append(await dead(web, title=f"late {len(late)}"))

    found = await pages(web, DEAD, limit, between)
    listed = [row["id"] for page in found for row in page]

    assert sorted(ids) == listed[:50]
    assert len(set(listed)) == len(listed)
    assert {len(page) for page in found[:-1]} <= {limit}


@pytest.mark.parametrize("path", [DEAD, CALLBACKS])
async def test_an_empty_list(web, path):
    """
    No items, and no cursor.
    """
    answer = await web.get(path, key=OBSERVER)

    assert (200, {"items": [], "next_cursor": None}) == (answer.status, answer.json)


@pytest.mark.parametrize("path", [DEAD, CALLBACKS])
@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=201",
        "limit=1000000000",
        "limit=1e3",
        "limit=",
        "limit=x",
        "limit=%ff",
        "limit=" + "9" * 5000,
    ],
)
async def test_a_limit_is_1_to_200(web, path, query):
    """
    422 that names it; 1 and 200 themselves are taken.
    """
    answer = await web.get(path, query=query)

    assert (422, "validation_error") == (answer.status, answer.code)
    assert ["limit"] == [error["path"] for error in answer.json["errors"]]
    for edge in (1, 200):
        assert 200 == (await web.get(path, query=f"limit={edge}")).status


@pytest.mark.parametrize("path", [DEAD, CALLBACKS])
@pytest.mark.parametrize(
    "cursor",
    ["", "x", "AAAA", "====", "%ff", "%00", "bnVsbA==", "W10=", "a" * 10_000, "é", "WzAuMCwiIl0="],
)
async def test_a_cursor_that_no_page_gave_is_refused(web, path, cursor):
    """
    422, and never the first page again.
    """
    answer = await web.get(path, query=f"cursor={cursor}")

    assert (422, "validation_error") == (answer.status, answer.code)
    assert ["cursor"] == [error["path"] for error in answer.json["errors"]]


async def test_a_cursor_is_of_one_list_and_whole(web):
    """
    Given the cursor of a page, when any of its characters is changed, or it is used for another
    list, then it is refused.
    """
    for n in range(2):
        await dead(web, title=f"alert {n}")
    cursor = (await web.get(DEAD, query="limit=1")).json["next_cursor"]
    changed = [cursor[:n] + ("A" if cursor[n] != "A" else "B") + cursor[n + 1 :] for n in range(len(cursor))]
    for other in (*changed, cursor[:-1], cursor + "A", cursor.rstrip("="), cursor.swapcase()):
        answer = await web.get(DEAD, query=f"limit=1&cursor={other}")

        assert 422 == answer.status, other
    assert 422 == (await web.get(CALLBACKS, query=f"cursor={cursor}")).status
    assert 200 == (await web.get(DEAD, query=f"cursor={cursor}")).status


@pytest.fixture
async def refused(serving, clock):
    """
    A service with three callbacks that were each refused three times.
    """
    calls = []

    async def refuses(event):
        calls.append(event)
        raise ConnectionError("nobody there")

    asking = a_document(require_ack=True)
    async with serving(asking, adapters={"PAGER": ScriptedChannel()}, callback=refuses) as web:
        for n in range(3):
            id = await web.sent(title=f"alert {n}")
            await web.runtime.run_once()
            await web.post(f"{NOTIFICATIONS}/{id}/ack", key=RESPONDER)
            clock.advance(1)
        for _ in range(3):
            await web.runtime.deliver_callbacks()
            clock.advance(60)
        web.calls = calls
        yield web


async def test_exhausted_callbacks_are_listed_and_armed_again(refused):
    """
    Oldest first, with their error, a page at a time; one that is armed again is called again and
    leaves the list.
    """
    found = await pages(refused, CALLBACKS, 2)
    events = [event for page in found for event in page]
    answer = await refused.post(f"{CALLBACKS}/{events[0]['id']}/rearm")
    await refused.runtime.deliver_callbacks()
    left = (await refused.get(CALLBACKS, query="state=exhausted")).json["items"]

    assert [2, 1] == [len(page) for page in found]
    assert sorted(event["at"] for event in events) == [event["at"] for event in events]
    assert {(3, "ConnectionError: nobody there")} == {
        (event["callback_attempts"], event["callback_error"]) for event in events
    }
    assert (200, {"event_id": events[0]["id"], "rearmed": True}) == (answer.status, answer.json)
    assert 10 == len(refused.calls)
    assert [event["id"] for event in events[1:]] == [event["id"] for event in left]


async def test_only_an_exhausted_callback_is_armed_again(refused):
    """
    The same request again is the same answer; once it is called again there is nothing to arm.
    """
    (event, *_) = (await refused.get(CALLBACKS)).json["items"]
    first = await refused.post(f"{CALLBACKS}/{event['id']}/rearm", b"{}")
    again = await refused.post(f"{CALLBACKS}/{event['id']}/rearm")
    await refused.runtime.deliver_callbacks()
    late = await refused.post(f"{CALLBACKS}/{event['id']}/rearm")

    assert [(200, True), (200, True), (200, False)] == [
        (answer.status, answer.json["rearmed"]) for answer in (first, again, late)
    ]


@pytest.mark.parametrize("state", ["", "pending", "EXHAUSTED", "%00"])
async def test_no_other_state_is_listed(web, state):
    """
    422 that names the parameter.
    """
    answer = await web.get(CALLBACKS, query=f"state={state}")

    assert (422, "state") == (answer.status, answer.json["errors"][0]["path"])


async def test_replays_at_once_begin_one_cycle(web):
    """
    Given two operators at once, then one replays and the other hears of it.
    """
    id = await dead(web)
    answers = await asyncio.gather(*(web.post(f"{RUNTIME}/notifications/{id}/replay") for _ in range(2)))

    assert [200, 409] == sorted(answer.status for answer in answers)
    assert 2 == web.runtime.get(id)["cycle"]
