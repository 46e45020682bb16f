from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uns.adapters.strict_yaml import DEPTH, NODES, read
from uns.ports.errors import Rejected


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("9007199254740991", 2**53 - 1),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("on", "on"),
        ("no", "no"),
        ("y", "y"),
        ("tRUE", "tRUE"),
        ("plain words", "plain words"),
        ("1.2.3", "1.2.3"),
        ("10.0.0.1", "10.0.0.1"),
        ("2fa.login", "2fa.login"),
        ("'010'", "010"),
        ('"5"', "5"),
        ('"true"', "true"),
        ('"2026-10-01"', "2026-10-01"),
        ("'#ops'", "#ops"),
        ("[a, 1, [true]]", ["a", 1, [True]]),
        ("{b: {c: 1}}", {"b": {"c": 1}}),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_a_scalar_is_what_it_plainly_is(written, value):
    """
    YAML 1.2 as it stands: no word but true, false and null means anything but itself.
    """
    read_value = read(f"k: {written}", "f.yaml").value["k"]

    assert read_value == value
    assert type(read_value) is type(value)


@pytest.mark.parametrize(
    "written",
    [
        *("010", "-01", "1_000", "5_", "+5", "0x1F", "0o17", "0b11", ".5", "5.", "+1.5"),
        *("1:30", "1:30:00", "190:20:30.15"),
        *("2026-10-01", "2026-1-1", "2026-10-01T10:00:00Z", "2026-10-01 10:00:00"),
    ],
)
def test_a_scalar_that_yaml_dialects_disagree_on_is_refused(written):
    """
    What is a number or date to one reader and text, or another number, to the next is no value here.
    """
    with pytest.raises(Rejected, match=r"^f\.yaml, line 2: k is a number or date to some readers"):
        read(f"a: 1\nk: {written}", "f.yaml")


@pytest.mark.parametrize("written", [".inf", "-.INF", "+.Inf", ".nan", ".NaN", "1e999", "-1e999"])
def test_a_number_is_finite(written):
    """
    Infinities and NaN are refused, also as a number too large to hold.
    """
    with pytest.raises(Rejected, match=r"^f\.yaml, line 1: k is not a finite number"):
        read(f"k: {written}", "f.yaml")


@pytest.mark.parametrize("written", ["9007199254740992", "-9007199254740992", "9" * 300])
def test_an_integer_is_exact(written):
    """
    An integer that readers of JSON would round is refused.
    """
    with pytest.raises(Rejected, match="k is an integer too large to be exact"):
        read(f"k: {written}", "f.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", r"^f\.yaml, line 3: a is a duplicate key: it stands on line 1 already"),
        ("a:\n  b: 1\n  b: 1\n", r"^f\.yaml, line 3: a\.b is a duplicate key: it stands on line 2 already"),
        ("a: {b: 1, 'b': 2}\n", r"^f\.yaml, line 1: a\.b is a duplicate key"),
        ("- x: 1\n- y: 1\n  y: 2\n", r"^f\.yaml, line 3: 1\.y is a duplicate key"),
        ("a: 1\n\tb: 2\n", r"^f\.yaml, line 2 is not YAML: found character '\\t'"),
        ("a:\n\tb: 2\n", r"^f\.yaml, line 2 is not YAML: found character '\\t'"),
        ("a: 1\n---\nb: 2\n", r"^f\.yaml, line 2 has a second document"),
        ("a: 1\n...\n---\n", r"^f\.yaml, line 3 has a second document"),
        ("", r"^f\.yaml is empty"),
        ("# nothing\n", r"^f\.yaml is empty"),
        ("%YAML 1.1\n---\na: on\n", r"^f\.yaml, line 2 is written for another YAML than 1\.2"),
        ("a: !!python/object/apply:os.system [id]\n", r"^f\.yaml, line 1: a has a tag"),
        ("a: !!python/name:os.system\n", r"^f\.yaml, line 1: a has a tag"),
        ("!!python/object:x.Y\na: 1\n", r"^f\.yaml, line 1 has a tag"),
        ("a: !!str 5\n", r"^f\.yaml, line 1: a has a tag"),
        ("a: !!binary aGk=\n", r"^f\.yaml, line 1: a has a tag"),
        ("a: !mine {}\n", r"^f\.yaml, line 1: a has a tag"),
        ("a: ! 5\n", r"^f\.yaml, line 1: a has a tag"),
        ("%TAG ! tag:yaml.org,2002:\n---\na: !int '5'\n", r"^f\.yaml, line 3: a has a tag"),
        ("a: !x!y 5\n", r"^f\.yaml, line 1 is not YAML: found undefined tag handle"),
        ("a: 1\n5: 2\n", r"^f\.yaml, line 2 has a key that is not plain text"),
        ("a: {true: 1}\n", r"^f\.yaml, line 1: a has a key that is not plain text"),
        ("? [a]\n: 1\n", r"^f\.yaml, line 1 has a key that is not plain text"),
        ("a: &k x\n*k : 1\n", r"^f\.yaml, line 2 has a key that is not plain text"),
        ("? !!str a\n: 1\n", r"^f\.yaml, line 1 has a key that is not plain text"),
        ("a: *nothing\n", r"^f\.yaml, line 1: a is an alias of nothing"),
        ("a: &k [*k]\n", r"^f\.yaml, line 1: a\.0 is an alias of nothing that ended before it"),
        ("&k a: 1\nb: *k\n", r"^f\.yaml, line 1 has a key that is not plain text"),
        ('a: "\\0"\n', r"^f\.yaml, line 1: a must be valid Unicode without NUL"),
        ('a: "\\uD800"\n', r"^f\.yaml, line 1: a must be valid Unicode without NUL"),
        ('"\\0": 1\n', r"^f\.yaml, line 1 must be valid Unicode without NUL"),
        ("a: \x01\n", r"^f\.yaml has a character that YAML does not allow"),
        ("a: [1\nb: 2\n", r"^f\.yaml, line 2 is not YAML"),
        ("a: b: c\n", r"^f\.yaml, line 1 is not YAML"),
        ('a: "open\n', r"^f\.yaml, line 2 is not YAML"),
    ],
)
def test_what_is_not_plain_yaml_is_refused(text, told):
    """
    Everything beyond one plain document is refused, with the line and where there is one the key.
    """
    with pytest.raises(Rejected, match=told):
        read(text, "f.yaml")


def test_a_refusal_repeats_no_value():
    """
    A value may be secret, so neither a duplicate nor a syntax error quotes the line.
    """
    for text in ["k: hunter2\nk: hunter2\n", "k: [hunter2\nx: y\n", "k: !hunter {}\n", "k: hunter2: x\n"]:
        with pytest.raises(Rejected) as refusal:
            read(text, "f.yaml")
        assert "hunter" not in str(refusal.value)


def test_an_alias_stands_for_what_it_names():
    """
    What an anchor names may be used again; merging, which YAML 1.2 does not have, is a plain key.
    """
    text = "a: &x {k: [1, &y 2]}\nb: *x\nc: *y\n<<: *x\n"

    assert read(text, "f.yaml").value == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}, "c": 2, "<<": {"k": [1, 2]}}


def test_a_bomb_of_aliases_is_refused_before_it_goes_off():
    """
    Values count as often as aliases repeat them, so nine lines of nine aliases are nine too many.
    """
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9)]

    with pytest.raises(Rejected, match=rf"is more than {NODES} values into the file"):
        read("\n".join(lines), "f.yaml")


def test_a_file_has_a_bounded_number_of_values():
    """
    As many values as allowed pass; one more does not.
    """
    fits = NODES - 1  # the list itself counts

    assert len(read("- a\n" * fits, "f.yaml").value) == fits
    with pytest.raises(Rejected, match=f"line {fits + 1}: {fits} is more than {NODES} values"):
        read("- a\n" * (fits + 1), "f.yaml")


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("{a: ", "}"), ("- ", "")])
def test_depth_is_bounded(opened, closed):
    """
    As deep as allowed passes; one level deeper does not, nor does a file of nothing but openings.
    """
    read(opened * (DEPTH - 1) + "x" + closed * (DEPTH - 1), "f.yaml")

    for text in (opened * DEPTH + "x" + closed * DEPTH, opened * 100_000):
        with pytest.raises(Rejected, match=f"is nested more than {DEPTH} levels deep"):
            read(text, "f.yaml")


def test_lines_are_those_of_the_keys():
    """
    Every value is found by its dotted path at the line of its key or dash.
    """
    text = "# head\na: 1\nb:\n  c:\n    - x\n    - y: 1\n      z: |\n        long\n"

    assert read(text, "f.yaml").origin.lines == {
        "": 2,
        "a": 2,
        "b": 3,
        "b.c": 4,
        "b.c.0": 5,
        "b.c.1": 6,
        "b.c.1.y": 6,
        "b.c.1.z": 7,
    }


@given(st.text(alphabet="ab:-[]{}&*!|>'\"%#\n\t 01.e,?~\\", max_size=40))
def test_any_text_is_read_or_refused(text):
    """
    Whatever stands in a file, reading it ends in plain values or in a refusal.
    """
    with suppress(Rejected):
        assert plain(read(text, "f.yaml").value)


def plain(value):
    match value:
        case dict():
            return all(isinstance(key, str) and plain(item) for key, item in value.items())
        case list():
            return all(map(plain, value))
        case _:
            return type(value) in {str, int, float, bool, type(None)}
