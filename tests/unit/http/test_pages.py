"""
Pages of a list, and the cursors between them.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uns.entrypoints.http.pages import START, Listing
from uns.ports.errors import Rejected

LETTERS = Listing("letters", "at")
OTHERS = Listing("others", "at")

instants = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
positions = st.tuples(instants, st.text(max_size=40).filter(lambda id: id.isprintable()))


def rows(count, at=1.5):
    return [{"id": f"n{n}", "at": at + n // 3} for n in range(count)]


def cursor_at(position, listing=LETTERS):
    """
    The cursor of a page that ends there.
    """
    at, id = position
    return listing.page([{"id": id, "at": at}, {"id": "next", "at": at}], 1).next_cursor


@pytest.mark.parametrize(
    ("count", "limit", "more"), [(0, 1, False), (1, 1, False), (2, 1, True), (7, 7, False), (8, 7, True)]
)
def test_a_page_ends_where_it_is_full(count, limit, more):
    """
    The row too many says that there are more; it is the next page's first.
    """
    page = LETTERS.page(rows(count), limit)

    assert rows(count)[:limit] == list(page.items)
    assert more is (page.next_cursor is not None)


def test_a_list_begins_without_a_cursor():
    """
    None is the start, and nothing else is.
    """
    assert START == LETTERS.after(None)


@given(positions)
def test_a_cursor_leads_where_its_page_ended(position):
    """
    To the last row's instant, to the last bit, and its id.
    """
    assert position == LETTERS.after(cursor_at(position))


@given(positions)
def test_a_cursor_goes_into_a_url_as_it_is(position):
    """
    No character of it means anything there.
    """
    assert set(cursor_at(position).rstrip("=")) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    )


@given(positions, st.data())
def test_a_cursor_that_was_tampered_with_is_refused(position, data):
    """
    Whatever is changed of it, added or cut off.
    """
    cursor = cursor_at(position)
    at = data.draw(st.integers(0, len(cursor)))
    put = data.draw(st.text(max_size=3))
    cut = data.draw(st.integers(0, 3))
    other = cursor[:at] + put + cursor[at + cut :]
    if other == cursor:
        return

    with pytest.raises(Rejected) as caught:
        LETTERS.after(other)
    assert "cursor" == caught.value.path


@given(positions)
def test_a_cursor_of_another_list_is_refused(position):
    """
    Though the list be sorted by the same things.
    """
    with pytest.raises(Rejected):
        OTHERS.after(cursor_at(position))


@given(st.text())
def test_no_text_is_a_cursor_by_chance(text):
    """
    422, never an error of ours and never the first page.
    """
    with pytest.raises(Rejected):
        LETTERS.after(text)
