"""
What the pages say is true: snippets run as printed, tables equal the code, links lead somewhere.
"""

import ast
import asyncio
import inspect
import json
import re

import pytest

import uns
from kit.builders import NOW, a_policy
from kit.ledger import Ledger, refused
from kit.pages import DOCS, ROOT, anchors, links, names, pages, prose, read, rows, snippets
from uns import Client, Runtime, SignalClient
from uns.core.plans import dispatch
from uns.ports.channel import ChannelMessage, ChannelResult
from uns.ports.errors import UnsError
from uns.ports.replies import AckResponse, Projection, SendNotificationResponse, SimulationResponse
from uns.ports.requests import SendNotificationRequest
from uns.ports.vocabulary import Ack, EventKind

EVENTS = {
    names(cells[0])[0]: names(cells[2]) for cells in rows(read("docs/events.md"), "## The catalog") if cells
}
RECORDS = sorted((DOCS / "adr").glob("*.md"))
LINKED = sorted(
    (str(page.relative_to(ROOT)), target)
    for page in pages()
    for target in set(links(page.read_text("utf-8")))
    if "://" not in target
)


@pytest.fixture(scope="module")
def lives():
    """
    The payload fields of every kind of event, by what a ledger wrote.
    """
    found: dict[str, set[str]] = {}
    for ledger in (_coalescing(), _asking(), _losing_a_lease(), _recovering()):
        for id in ledger.rows():
            for event in ledger.events(id):
                assert found.setdefault(event.kind, set(event.details)) == set(event.details)
    return found


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """
    Snippets make files.
    """
    monkeypatch.chdir(tmp_path)


def test_the_example_of_the_readme_runs_as_printed(capsys):
    """
    Given a new folder, when the README's example is run as a program, then it prints what is printed.
    """
    (example,) = snippets(read("README.md"))
    exec(compile(example.code, "README.md", "exec"), {"__name__": "__main__"})

    assert example.prints == capsys.readouterr().out


def test_the_python_page_is_one_session(capsys):
    """
    Given a new folder, when the blocks of the page are run in turn, then each prints what follows it.
    """
    page = snippets(read("docs/python.md"))

    async def session() -> None:
        known = {"__name__": "__main__"}
        for block in page:
            name = f"docs/python.md, line {block.line}"
            code = compile(block.code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if inspect.iscoroutine(pending := eval(code, known)):
                await pending
            assert (name, block.prints or "") == (name, capsys.readouterr().out)

    asyncio.run(session())

    assert len(page) > 10


def test_the_body_that_the_readme_sends_is_a_request():
    """
    The curl command of the README carries a body that the service takes.
    """
    (body,) = re.findall(r"-d '(.*?)'", read("README.md"), re.DOTALL)

    assert "ask.demo" == SendNotificationRequest(**json.loads(body)).notification_type


@pytest.mark.parametrize(
    ("face", "told_as"), [(Runtime, "runtime"), (Client, "client"), (SignalClient, "SignalClient")]
)
def test_every_public_method_is_on_the_python_page(face, told_as):
    """
    Whoever looks for a method of a face finds it, outside of the examples too.
    """
    page = prose(read("docs/python.md")).replace("Runtime.over(", "runtime.over(")
    methods = {name for name in vars(face) if not name.startswith("_")}

    assert set() == {name for name in methods if f"{told_as}.{name}(" not in page}


@pytest.mark.parametrize(
    ("heading", "struct"),
    [
        ("### The request", SendNotificationRequest),
        ("### What comes back", SendNotificationResponse),
        ("### What a channel is given", ChannelMessage),
        ("### What a channel answers", ChannelResult),
        ("### The response view", Projection),
    ],
)
def test_a_table_has_every_field_of_its_struct(heading, struct):
    """
    A table of fields and the struct it is about have the same names.
    """
    documented = [name for cells in rows(read("docs/python.md"), heading) for name in names(cells[0])]

    assert sorted(struct.__struct_fields__) == sorted(documented)


@pytest.mark.parametrize("struct", [AckResponse, SimulationResponse])
def test_the_fields_of_a_reply_are_named(struct):
    """
    What the page tells of a reply in a sentence is all of it.
    """
    known = set(names(prose(read("docs/python.md"))))

    assert set() == set(struct.__struct_fields__) - known


def test_every_public_name_is_on_the_python_page():
    """
    What ``uns`` exports is explained.
    """
    page = read("docs/python.md")

    assert [] == [name for name in uns.__all__ if name not in page]


def test_every_error_is_listed_with_its_code_and_status():
    """
    The table of errors is the tree of errors.
    """
    listed = {
        names(cells[0])[0]: (names(cells[1])[0], int(cells[2]))
        for cells in rows(read("docs/python.md"), "## Errors")
    }

    assert {error.__name__: (error.code, error.status) for error in _below(UnsError)} == listed


def test_the_catalog_has_every_kind_of_event():
    """
    The catalog of events is the vocabulary, in its order.
    """
    assert list(EventKind) == list(EVENTS)


@pytest.mark.parametrize("kind", EventKind)
def test_the_catalog_has_the_payload_of_every_kind(kind, lives):
    """
    Given a ledger in which everything happened, each event's payload has the fields of the catalog.
    """
    assert sorted(EVENTS[kind]) == sorted(lives[kind])


@pytest.mark.parametrize(("page", "target"), LINKED)
def test_a_link_leads_somewhere(page, target):
    """
    A link within the project names a page that is there, and a heading that is on it.
    """
    path, _, anchor = target.partition("#")
    there = (ROOT / page).parent / path if path else ROOT / page

    assert there.exists()
    assert not anchor or anchor in anchors(there.read_text("utf-8"))


def test_the_index_has_every_page():
    """
    No page under ``docs`` is left out of the index.
    """
    linked = {(DOCS / target).resolve() for target in links(read("docs/README.md"))}

    assert set() == set(DOCS.rglob("*.md")) - linked - {DOCS / "README.md"}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_decision_is_recorded_in_the_one_form(path):
    """
    A record is numbered as its file is, has a status, and tells context, decision, consequences.
    """
    record = path.read_text("utf-8")
    headings = re.findall(r"^## (.*)$", record, re.MULTILINE)

    assert f"# {int(path.name[:4])}. " == re.match(r"# \d+\. ", record).group()
    assert ["Context", "Decision", "Consequences"] == headings
    assert "\nStatus: " in record


def test_decisions_are_numbered_one_by_one():
    """
    No number is left out and none given twice.
    """
    assert list(range(1, len(RECORDS) + 1)) == [int(path.name[:4]) for path in RECORDS]


def _coalescing() -> Ledger:
    ledger = Ledger()
    for title, result in (("a", True), ("b", refused())):
        leader, *_ = [ledger.accept(title=title) for _ in range(3)]
        ledger.attempt(leader.id, SLACK=result)
    leader, *_ = [ledger.accept(title="c") for _ in range(2)]
    ledger.withdraw(leader.id)
    return ledger


def _asking() -> Ledger:
    ledger = Ledger(a_policy(require_ack=True, ack_timeout_minutes=15))
    acked, dismissed, _ = [ledger.deliver(ledger.accept(title=title).id) for title in "abc"]
    ledger.respond(acked.id)
    ledger.respond(dismissed.id, to=Ack.DISMISSED)
    ledger.expire(at=NOW + 900)
    return ledger


def _losing_a_lease() -> Ledger:
    ledger = Ledger()
    row = ledger.accept()
    (returned,) = ledger.claim_due(1)
    ledger.run(dispatch.give_back(returned, ledger.ids()))
    late = ledger.claim(row.id)
    ledger.clock.advance(60)
    ledger.conclude(late, SLACK=True)
    ledger.conclude(ledger.claim(row.id))
    return ledger


def _recovering() -> Ledger:
    ledger = Ledger()
    row = ledger.fail(ledger.accept().id)
    ledger.replay(row.id)
    ledger.fail(row.id)
    ledger.resolve_failure(row.id)
    return ledger


def _below(error: type[UnsError]) -> list[type[UnsError]]:
    ours = [child for child in error.__subclasses__() if child.__module__ == error.__module__]
    return [error, *(below for child in ours for below in _below(child))]
