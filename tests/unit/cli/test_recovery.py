"""
``uns replay``, ``uns dlq``, ``uns callbacks``, over both faces.
"""

import uuid

import pytest

from uns.entrypoints.cli.exits import Exit


@pytest.fixture
def source(over):
    """
    A source of this test's own: the service keeps what other tests left.
    """
    return uuid.uuid4().hex


@pytest.fixture
def dead(uns, source):
    """
    Makes dead letters of a type.
    """

    def dead(kind="broken.pipe"):
        made = uns("send", f"--type={kind}", f"--title={kind}", "--message=m", f"--source={source}", "--json")
        return made.json["notification_id"]

    return dead


def listed(uns, source, *options):
    return [
        letter["id"] for letter in uns("dlq", "list", f"--where=source={source}", *options, "--json").json
    ]


def results(ids, result):
    return [{"notification_id": id, "result": result} for id in ids]


def test_dead_letters_are_listed_oldest_first(uns, source, dead):
    """
    Given dead letters, when they are listed, then they come in the order they were accepted in.
    """
    made = [dead(), dead(), dead()]

    assert made == listed(uns, source)


def test_the_list_is_a_table(uns, source, dead):
    """
    Without --json each dead letter has a row with what it is and why it failed.
    """
    made = dead()
    (row,) = [
        line for line in uns("dlq", "list", f"--where=source={source}").out.splitlines() if made in line
    ]

    assert "broken.pipe" in row
    assert source in row
    assert "WEBHOOK: localhost leads" in row


def test_nothing_to_list_is_said(uns, source):
    """
    An empty list is an empty table, and a sentence for people.
    """
    ended = uns("dlq", "list", f"--where=source={source}")

    assert (Exit.DONE, "", "uns: no dead letters\n") == (ended.status, ended.out, ended.err)


def test_one_dead_letter_is_replayed_at_once(uns, dead):
    """
    When an id is given, then its new cycle begins without a question.
    """
    made = dead()
    ended = uns("replay", made, "--json")
    events = uns("get", made, "--events", "--json").json["events"]

    assert (Exit.DONE, made) == (ended.status, ended.json["notification_id"])
    assert "REPLAY_REQUESTED" in [event["kind"] for event in events]


def test_several_are_replayed_only_when_told_yes(uns, source, dead):
    """
    Given dead letters that are chosen, when --yes is missing, then it is only told what would be done.
    """
    made = [dead(), dead()]
    chosen = ("replay", f"--where=source={source}", "--where", "type=broken.*")
    dry = uns(*chosen, "--json")
    events = uns("get", made[0], "--events", "--json").json["events"]
    done = uns(*chosen, "--yes", "--json")

    assert (Exit.DONE, Exit.DONE) == (dry.status, done.status)
    assert {
        "applied": False,
        "items": [{"notification_id": id, "result": "would be replayed"} for id in made],
    } == dry.json
    assert "--yes" in dry.err
    assert "REPLAY_REQUESTED" not in [event["kind"] for event in events]
    assert {
        "applied": True,
        "items": [{"notification_id": id, "result": "was replayed"} for id in made],
    } == done.json


def test_the_dry_run_is_a_table(uns, source, dead):
    """
    Without --json what would be done stands at the end of each row.
    """
    made = dead()
    dry = uns("dlq", "resolve", f"--where=source={source}")
    (row,) = [line for line in dry.out.splitlines() if made in line]

    assert row.endswith("would be resolved")
    assert dry.err.endswith("nothing was resolved: repeat the command with --yes\n")


def test_only_what_is_chosen_is_touched(uns, source, dead):
    """
    Given dead letters of two types, when one type is resolved, then the other stays.
    """
    pipe, disk = dead("broken.pipe"), dead("broken.disk")
    ended = uns("dlq", "resolve", f"--where=source={source}", "--where=type=broken.pipe", "--yes", "--json")

    assert results([pipe], "was resolved") == ended.json["items"]
    assert [disk] == listed(uns, source)


def test_what_is_young_is_left_alone(uns, source, dead):
    """
    Given a fresh dead letter, when those older than an hour are asked for, then it is none of them.
    """
    made = dead()

    assert [] == listed(uns, source, "--older-than=1h")
    assert [made] == listed(uns, source, "--older-than=0s")


def test_one_dead_letter_is_resolved_at_once(uns, source, dead):
    """
    When an id is given, then it is cleared, and is on record as resolved.
    """
    made = dead()
    ended = uns("dlq", "resolve", made, "--json")

    assert (Exit.DONE, False) == (ended.status, ended.json["dead_letter"])
    assert [] == listed(uns, source)


def test_what_is_no_dead_letter_cannot_be_resolved(uns, dead):
    """
    When a dead letter is resolved twice, then the second time it is refused.
    """
    made = dead()
    uns("dlq", "resolve", made)
    ended = uns("dlq", "resolve", made)

    assert (Exit.REFUSED, "uns: Dead letter not found\n") == (ended.status, ended.err)


@pytest.mark.parametrize("id", ["x", "01a22e98-b9f7-722a-b989-12fe2d8e3a45", "../../ready"])
def test_an_id_that_nothing_has_is_told_alike_by_both_faces(uns, over, id):
    """
    Whether it is an id or not.
    """
    ended = [uns(*command, id) for command in (("replay",), ("dlq", "resolve"))]

    assert [Exit.REFUSED] * 2 == [each.status for each in ended]
    assert ["uns: Notification not found.\n", "uns: Dead letter not found\n"] == [each.err for each in ended]


@pytest.mark.parametrize("command", [("replay",), ("dlq", "resolve")])
@pytest.mark.parametrize("choice", [(), ("some-id", "--where=type=x"), ("some-id", "--older-than=1h")])
def test_either_one_is_named_or_several_are_chosen(uns, over, command, choice):
    """
    Neither and both are wrong use.
    """
    ended = uns(*command, *choice)

    assert Exit.USAGE == ended.status
    assert "name one ID, or choose several" in ended.err


def test_there_are_no_exhausted_callbacks(uns, over):
    """
    An empty list is an empty list.
    """
    assert [] == uns("callbacks", "list", "--json").json
    assert "uns: no exhausted callbacks\n" == uns("callbacks", "list").err
