"""
What is printed for people.
"""

import pytest

from uns.entrypoints.cli.output import print_card, print_json, print_table, say, when


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        (["A", "B"], "A, B"),
        ([1, 2], "[1,2]"),
        ({"a": [1]}, '{"a":[1]}'),
        ("[red]x[/red]", "[red]x[/red]"),
        ("a\nb", "a b"),
        ("\x1b[31mred\x1b[0m", "[31mred [0m"),
        ("\x9b2J", "2J"),
        ("\u202eevil", "evil"),
    ],
)
def test_a_value_is_shown_as_text_that_steers_nothing(capsys, value, shown):
    """
    Markup is text, and control characters of strangers are gone, in cards and in tables.
    """
    print_card({"some_field": value})
    card = capsys.readouterr().out
    print_table(["heading"], [[value]])
    table = capsys.readouterr().out

    assert ["some field", shown] == [part.strip() for part in card.split("  ", 1)]
    assert shown == table.splitlines()[-1].strip()


@pytest.mark.parametrize("nothing", [None, [], {}])
def test_a_field_without_a_value_has_no_line(capsys, nothing):
    """
    A card shows what there is.
    """
    print_card({"gone": nothing, "here": 0})

    assert "here  0\n" == capsys.readouterr().out


def test_json_is_one_line_and_nothing_else(capsys):
    """
    Whatever is in it, a value is one line.
    """
    print_json({"a": "line\nline"})

    assert '{"a":"line\\nline"}\n' == capsys.readouterr().out


def test_a_message_is_one_line_on_standard_error(capsys):
    """
    Messages do not mix with output.
    """
    say("one\ntwo")

    assert ("", "uns: one two\n") == tuple(capsys.readouterr())


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, ""), (0.0, "1970-01-01 00:00:00Z"), (1_800_000_000.9, "2027-01-15 08:00:00Z")],
)
def test_instants_are_shown_in_utc(seconds, shown):
    """
    People read dates.
    """
    assert shown == when(seconds)
