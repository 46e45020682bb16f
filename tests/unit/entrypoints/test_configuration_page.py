"""
``docs/configuration.md`` has every variable, with its default and its limits.
"""

import re

import pytest
from msgspec.structs import fields

from kit.pages import names, prose, read, rows
from uns.entrypoints.settings import KEYS, Settings, read_settings
from uns.ports.errors import Rejected

PAGE = read("docs/configuration.md")
NUMBERS = {names(cells[0])[0]: cells[1:4] for cells in rows(PAGE, "## Numbers")}
TEXTS = {names(cells[0])[0]: names(cells[1]) for cells in rows(PAGE, "## Texts")}
FIELD = {"UNS_URL": "service_url"}


def field_of(variable):
    return FIELD.get(variable, variable.removeprefix("UNS_").lower())


def test_every_variable_is_on_the_page():
    """
    In one of its tables, and nothing else is.
    """
    known = set(re.findall(r'"(UNS_[A-Z_]+)"', read("src/uns/entrypoints/settings.py")))
    headings = ("## Numbers", "## Texts", "## Secrets", "## Keys")
    listed = [name for heading in headings for cells in rows(PAGE, heading) for name in names(cells[0])]
    listed += [names(cells[1])[0] for cells in rows(PAGE, "## Keys")]

    assert sorted(known) == sorted(listed)


@pytest.mark.parametrize("variable", NUMBERS)
def test_a_number_has_the_default_and_the_limits_of_the_page(variable):
    """
    Both limits are taken, and what lies past them is told with them.
    """
    default, least, most = NUMBERS[variable]
    field = field_of(variable)

    assert float(default) == getattr(Settings(), field)
    assert [float(least), float(most)] == [
        float(getattr(read_settings({variable: limit}), field)) for limit in (least, most)
    ]
    with pytest.raises(Rejected, match=f"^{variable} must be .* from {least} to {most}$"):
        read_settings({variable: str(float(most) + 1)})


@pytest.mark.parametrize("variable", TEXTS)
def test_a_text_has_the_default_of_the_page(variable):
    """
    Or none.
    """
    default = getattr(Settings(), field_of(variable)) or None

    assert default == (TEXTS[variable][0] if TEXTS[variable] else None)


def test_a_key_has_the_principal_of_the_page():
    """
    By its variable, and by default.
    """
    listed = {
        (names(key)[0], names(variable)[0]): names(who)[0] for key, variable, who in rows(PAGE, "## Keys")
    }

    assert {pair: f"local-{role.lower()}" for role, pair in KEYS.items()} == listed


def test_the_example_of_a_refusal_is_what_is_said():
    """
    Word for word.
    """
    (example,) = re.findall(r"```text\nuns: (.*?)\n```", PAGE)
    variable = example.partition(" ")[0]
    with pytest.raises(Rejected) as caught:
        read_settings({variable: "soon"})

    assert example == str(caught.value)


def test_reserved_principals_are_named():
    """
    Each of them, as the refusal does.
    """
    with pytest.raises(Rejected) as caught:
        read_settings({"UNS_API_PRINCIPAL": "uns"})
    told = re.findall(r"[a-z]+:|uns(?=,)", str(caught.value).partition("any of ")[2])

    assert told
    assert all(f"`{prefix}`" in prose(PAGE) for prefix in told)


def test_every_field_of_the_settings_comes_from_a_variable():
    """
    What the page does not set is made of what it does.
    """
    made = {"credentials", "callback_secrets", "webhook_secrets", "targets", "principal", "service_key"}

    assert {field.name for field in fields(Settings)} == made | {field_of(v) for v in (*NUMBERS, *TEXTS)}
