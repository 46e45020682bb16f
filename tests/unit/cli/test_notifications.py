"""
``uns send``, ``get``, ``ack``, ``dismiss``, ``withdraw``, over both faces.
"""

import io
import json
import sys
import threading
import time

import pytest

from kit.builders import AGENT
from uns.entrypoints.cli.exits import Exit
from uns.entrypoints.cli.main import main

REQUEST = {
    "notification_type": "ask.file",
    "intent": "SAFETY",
    "title": "from a file",
    "message": "m",
    "source": "disk",
    "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": AGENT},
}

UNKNOWN = "01a22e98-b9f7-722a-b989-12fe2d8e3a45"

pytestmark = pytest.mark.usefixtures("over")


def sent(uns, kind="ask.demo", *options, title="May I?"):
    return uns("send", "--type", kind, "--title", title, "--message", "m", *options, "--json")


def some(found, *names):
    return tuple(found[name] for name in names)


def test_what_is_sent_is_delivered_and_can_be_looked_at(uns):
    """
    When a notification is sent by options, then its first attempt is over, and it is on record as sent.
    """
    reply = sent(uns, title="Disk 91 %")
    found = uns("get", reply.json["notification_id"], "--json")

    assert (Exit.DONE, "DELIVERED", "PENDING") == (
        reply.status,
        reply.json["status"],
        reply.json["ack_status"],
    )
    assert (Exit.DONE, "Disk 91 %", "cli", "OPERATIONAL") == (
        found.status,
        found.json["title"],
        found.json["source"],
        found.json["intent"],
    )


def test_every_option_is_a_field_of_the_request(uns):
    """
    When each option is given, then each stands in the request as it was accepted.
    """
    options = ["--intent=SAFETY", "--source=disk", f"--agent-id={AGENT}", "--mode=LIVE", "--irreversible"]
    options += ["--idempotency-key=k-options", "--dedup-key=d", "--correlation-id=c"]
    options += ["--delivery-mode=GUARANTEED", "--no-require-ack", "--priority=NORMAL"]
    options += ["--metadata", "ticket=INC-1", "--metadata", "note=a=b"]
    reply = sent(uns, "system.alert", *options)
    (accepted, *_) = uns("get", reply.json["notification_id"], "--events", "--json").json["events"]
    again = sent(uns, "system.alert", *options)

    assert ("ACCEPTED", Exit.DONE) == (accepted["kind"], reply.status)
    assert again.json["idempotent_replay"] is True
    assert again.json["notification_id"] == reply.json["notification_id"]


@pytest.mark.parametrize(
    "changed", ["--metadata=ticket=INC-2", "--irreversible", "--dedup-key=e", "--mode=SHADOW"]
)
def test_an_option_that_differs_makes_another_request(uns, changed):
    """
    Given an idempotency key that is in use, when one option more is given, then the ledger refuses.
    """
    key = f"--idempotency-key=k{changed}"
    sent(uns, "system.alert", key)
    other = sent(uns, "system.alert", key, changed)

    assert Exit.REFUSED == other.status
    assert "key" in other.err


def test_a_file_holds_the_whole_request(uns, tmp_path):
    """
    A request in a file is sent as it is.
    """
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    reply = uns("send", "--file", "request.json", "--json")
    found = uns("get", reply.json["notification_id"], "--json").json

    assert ("ask.file", "SAFETY", "disk") == some(found, "notification_type", "intent", "source")


def test_a_request_is_read_from_standard_input(uns, monkeypatch):
    """
    The file ``-`` is standard input.
    """
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(REQUEST).encode())))

    assert Exit.DONE == uns("send", "--file", "-", "--json").status


def test_waiting_ends_when_somebody_answers(uns):
    """
    Given a question that is waited for, when somebody acknowledges it, then the command tells of it.
    """
    asked = sent(uns, "ask.demo", "--idempotency-key=waits-1").json["notification_id"]
    told = []

    def answer() -> None:
        time.sleep(0.3)
        told.append(main(["ack", asked]))

    answering = threading.Thread(target=answer)
    answering.start()
    ended = sent(uns, "ask.demo", "--idempotency-key=waits-1", "--wait=20")
    answering.join()

    assert [Exit.DONE] == told
    assert Exit.DONE == ended.status
    assert "ACKED" in ended.out


def test_waiting_ends_when_the_time_is_up(uns):
    """
    Given a question that nobody answers, when the time is up, then the command failed and says so.
    """
    ended = sent(uns, "ask.demo", "--wait=0.1")

    assert (Exit.FAILED, "PENDING") == (ended.status, ended.json["effective_ack_status"])
    assert "nothing came of it in time" in ended.err


def test_what_asks_for_no_answer_is_waited_for_until_it_is_delivered(uns):
    """
    A delivery that needs no answer is the end of the wait.
    """
    began = time.monotonic()
    ended = sent(uns, "system.alert", "--wait=30", title="no answer needed")

    assert (Exit.DONE, "DELIVERED") == (ended.status, ended.json["status"])
    assert 20 > time.monotonic() - began


def test_a_notification_that_fails_is_told_of_by_the_status(uns):
    """
    When what was sent fails for good, then it is accepted, and the command failed.
    """
    ended = sent(uns, "broken.pipe", title="fails")

    assert (Exit.FAILED, "FAILED") == (ended.status, ended.json["status"])
    assert "was accepted, and failed" in ended.err


@pytest.mark.parametrize(("command", "becomes"), [("ack", "ACKED"), ("dismiss", "DISMISSED")])
def test_an_answer_is_given_with_what_it_carries(uns, command, becomes):
    """
    When a question is answered, then the answer, who gave it and what it carries are on record.
    """
    asked = sent(uns).json["notification_id"]
    ended = uns(command, asked, "--metadata", "ticket=INC-1", "--json")

    assert Exit.DONE == ended.status
    assert (becomes, "local-operator") == some(ended.json, "ack_status", "acked_by")
    assert {"ticket": "INC-1"} == ended.json["metadata"]


def test_a_question_is_withdrawn(uns):
    """
    When a delivered question is withdrawn, then nobody need answer it.
    """
    asked = sent(uns).json["notification_id"]
    ended = uns("withdraw", asked, "--json")

    assert (Exit.DONE, "DISMISSED") == (ended.status, ended.json["ack_status"])


def test_a_card_shows_what_there_is_to_know(uns):
    """
    Without --json each field has its line, and what says nothing has none.
    """
    asked = sent(uns, title="[bold]May\u00a0I?[/bold]").json["notification_id"]
    shown = uns("get", asked).out
    lines = dict(line.split("  ", 1) for line in shown.splitlines())

    assert asked == lines["notification id"].strip()
    assert "DELIVERED" == lines["status"].strip()
    assert "[bold]May" in lines["title"]
    assert "dedup owner id" not in shown


def test_a_timeline_is_a_table(uns):
    """
    With --events each event has its row, in order.
    """
    shown = uns("get", sent(uns).json["notification_id"], "--events").out
    kinds = [
        "ACCEPTED",
        "ATTEMPT_STARTED",
        "CHANNEL_ATTEMPT_STARTED",
        "CHANNEL_ATTEMPT_RESULT",
        "DELIVERY_RESULT",
    ]
    places = [shown.index(f" {kind} ") for kind in kinds]

    assert sorted(places) == places


@pytest.mark.parametrize("id", ["no-uuid", UNKNOWN, "a/b", "../x", "%2e", "?x"])
def test_an_id_that_nothing_has_is_refused(uns, id):
    """
    When an id is unknown, or none, then the ledger says that there is no such notification.
    """
    ended = uns("get", id)

    assert (Exit.REFUSED, "", "uns: Notification not found.\n") == (ended.status, ended.out, ended.err)


@pytest.mark.parametrize("command", ["ack", "dismiss", "withdraw", "replay"])
def test_nothing_is_done_to_what_is_not_there(uns, command):
    """
    Each command about one notification says when there is none.
    """
    ended = uns(command, UNKNOWN)

    assert (Exit.REFUSED, "", "uns: Notification not found.\n") == (ended.status, ended.out, ended.err)


def test_an_answer_that_comes_second_is_refused(uns):
    """
    When a question is dismissed that was acknowledged, then the first answer stands.
    """
    asked = sent(uns).json["notification_id"]
    uns("ack", asked)

    assert Exit.REFUSED == uns("dismiss", asked).status
    assert "ACKED" in uns("get", asked, "--json").out


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--intent", "WISH"), "intent"),
        (("--agent-id", "me"), "autonomy_context.agent_id"),
        (("--metadata", "slack_channel=x"), "slack_channel"),
    ],
)
def test_a_value_that_no_request_may_have_is_refused_by_the_ledger(uns, option, told):
    """
    What the request may hold is judged in one place, which names the field.
    """
    ended = sent(uns, "system.alert", *option)

    assert (Exit.REFUSED, "") == (ended.status, ended.out)
    assert told in ended.err
