"""
Logs: one line of JSON for each record, whoever writes it and whatever is in it.
"""

import io
import json
import logging
from datetime import datetime
from pathlib import Path

import pytest
import structlog

from uns.entrypoints.logs import set_up_logs


@pytest.fixture
def written():
    """
    The lines that were written since the logs were set up.
    """
    root = logging.getLogger()
    before = root.handlers[:], root.level
    set_up_logs()
    stream = root.handlers[0].stream = io.StringIO()
    yield lambda: [json.loads(line) for line in stream.getvalue().split("\n")[:-1]]
    root.handlers, root.level = before


LOG = logging.getLogger("uns.test")


def test_a_line_says_who_when_and_how_serious(written):
    """
    Logger, level, event, and the time in UTC.
    """
    LOG.warning("%s is filling up", "disk")
    (line,) = written()

    assert ("uns.test", "warning", "disk is filling up") == (line["logger"], line["level"], line["event"])
    assert datetime.fromisoformat(line["timestamp"]).utcoffset().total_seconds() == 0
    assert {"logger", "level", "event", "timestamp"} == set(line)


def test_what_is_bound_to_a_context_is_on_its_lines(written):
    """
    And on no other.
    """
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        LOG.info("inside")
    LOG.info("outside")

    assert ["r-1", None] == [line.get("request_id") for line in written()]


def test_a_stack_is_part_of_its_line(written):
    """
    Not lines of its own, which nobody could find the beginning of.
    """
    try:
        {}["k"]
    except KeyError:
        LOG.exception("failed")
    (line,) = written()

    assert "failed" == line["event"]
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("KeyError: 'k'")


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines",
        "\r\n{}",
        '"}\n{"event": "forged"',
        "\x1b[31m",
        "\ud800",
        "é\u2028x",
        "\x00",
        10**30,
        Path("/x"),
    ],
)
def test_nothing_that_is_logged_forges_a_line(written, text):
    """
    Or is lost, though it be no Unicode.
    """
    LOG.info("%s", text)
    (line,) = written()

    assert str(text) == line["event"]


def test_chatter_is_left_out(written):
    """
    What is told for debugging, and a line for each request.
    """
    LOG.debug("detail")
    logging.getLogger("uvicorn.access").info("GET /health")
    LOG.info("event")

    assert ["event"] == [line["event"] for line in written()]


def test_setting_up_twice_writes_once(written):
    """
    Given a process that serves what sets up its logs too, then nothing is told twice.
    """
    set_up_logs()

    assert 1 == len(logging.getLogger().handlers)


def test_on_a_terminal_it_is_for_people(monkeypatch, written):
    """
    Plain text there.
    """
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    set_up_logs()
    LOG.info("hello")

    assert "hello" in terminal.getvalue()
    assert not terminal.getvalue().startswith("{")
