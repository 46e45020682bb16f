"""
Blocks of ids: nobody else draws one of them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from uns.adapters.sources import new_id
from uns.ports.sources import Ids

DRAWS = 20_000
LAST = 2**24 - 1


def test_blocks_do_not_overlap() -> None:
    """
    However many threads draw, and however fast, no two blocks share an id.
    """
    with ThreadPoolExecutor(4) as threads:
        bases = [
            id for drawn in threads.map(lambda _: [new_id() for _ in range(DRAWS)], range(4)) for id in drawn
        ]

    assert 4 * DRAWS == len({Ids(base).nth(0) for base in bases})


def test_a_block_has_two_to_the_24_ids() -> None:
    """
    The first, the second and the last index give ids of the block's own form, all different.
    """
    block = Ids("01890000-0000-7000-8000-00000abcdef0")
    ids = [block.nth(0), block.nth(1), block.nth(LAST)]

    assert ["01890000-0000-7000-8000-00000a000000", "01890000-0000-7000-8000-00000a000001"] == ids[:2]
    assert "01890000-0000-7000-8000-00000affffff" == ids[2]
    assert ids == [str(UUID(id)) for id in ids]


def test_parts_of_a_block_are_its_own_and_apart() -> None:
    """
    A part begins 256 ids after the one before it.
    """
    block = Ids("01890000-0000-7000-8000-00000abcdef0")

    assert block.nth(3 * 256 + 5) == block.part(3).nth(5)
