import pytest
from msgspec import Struct

from uns.ports.errors import Rejected
from uns.ports.strict import convert


class Leaf(Struct, frozen=True, forbid_unknown_fields=True):
    count: int
    on: bool = False


class Tree(Struct, frozen=True, forbid_unknown_fields=True):
    leaves: tuple[Leaf, ...]
    name: str | None = None


def test_a_value_of_the_right_types_is_converted():
    """
    Plain values become the struct, lists becoming tuples.
    """
    assert convert({"leaves": [{"count": 1}, {"count": 2, "on": True}]}, Tree) == Tree(
        (Leaf(1), Leaf(2, True))
    )


@pytest.mark.parametrize(
    ("value", "path", "told"),
    [
        ({}, "leaves", "leaves is missing"),
        ({"leaves": [{}]}, "leaves.0.count", "leaves.0.count is missing"),
        ({"leaves": [], "nam": 1}, "nam", "nam is not a key that is known here"),
        ({"leaves": [{"count": 1, "of": 2}]}, "leaves.0.of", "leaves.0.of is not a key that is known here"),
        ({"leaves": [{"count": "1"}]}, "leaves.0.count", "leaves.0.count is wrong: expected int, got str"),
        ({"leaves": [{"count": 1.0}]}, "leaves.0.count", "leaves.0.count is wrong: expected int, got float"),
        ({"leaves": [{"count": 1, "on": 1}]}, "leaves.0.on", "leaves.0.on is wrong: expected bool, got int"),
        ({"leaves": [], "name": False}, "name", "name is wrong: expected str | null, got bool"),
        ({"leaves": [], 5: 1}, "", "expected str"),
        ([], "", "expected object, got array"),
    ],
)
def test_the_first_fault_is_told_at_its_path(value, path, told):
    """
    A missing or unknown key is named itself; a wrong value by the path to it.
    """
    with pytest.raises(Rejected) as refusal:
        convert(value, Tree)

    assert refusal.value.path == path
    assert str(refusal.value).startswith(told)


def test_a_path_may_have_a_beginning():
    """
    For a part of a whole, paths begin where the part stands.
    """
    with pytest.raises(Rejected, match=r"^tree\.a\.leaves is missing") as refusal:
        convert({}, Tree, "tree.a")
    assert refusal.value.path == "tree.a.leaves"

    with pytest.raises(Rejected, match=r"^tree is wrong: expected object, got int") as refusal:
        convert(5, Tree, "tree")
    assert refusal.value.path == "tree"


def test_an_unknown_key_is_safe_to_print():
    """
    A key may be anything; a message shows it cut short and without control characters.
    """
    with pytest.raises(Rejected) as refusal:
        convert({"leaves": [], "a\x1b\n" + "x" * 500: 1}, Tree)

    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 200
