from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.builders import NOW
from uns.adapters.egress import Answer, Failed, Refused, classify, retry_after
from uns.core.rules.outcome import Call, Tally
from uns.core.rules.retry import Retry
from uns.ports.channel import ChannelResult
from uns.ports.policy import ChannelPlan

HOST = "hooks.example.org"


def an_answer(status=200, body=b"", retry_after=None, hidden=()):
    headers = () if retry_after is None else (("Retry-After", retry_after),)
    return Answer(shown=HOST, status=status, headers=headers, body=body, hidden=hidden)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
def test_every_2xx_is_success(status):
    """
    A status that says yes is enough; the body is not asked.
    """
    assert ChannelResult(True, metadata={"http_status": status}) == classify(an_answer(status, b"no!"), NOW)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 511, 599])
def test_what_may_pass_is_tried_again(status):
    """
    B26: time-outs, pacing and the server's own faults are worth another attempt.
    """
    result = classify(an_answer(status), NOW)

    assert (False, True) == (result.success, result.retryable)


@pytest.mark.parametrize(
    "status", [101, 199, 300, 304, 400, 401, 403, 404, 405, 409, 410, 413, 422, 426, 428, 499, 600, 999]
)
def test_what_will_not_pass_is_refused_for_good(status):
    """
    B26: the other 4xx, redirects and whatever is no status of HTTP are permanent.
    """
    result = classify(an_answer(status), NOW)

    assert (False, False) == (result.success, result.retryable)


@pytest.mark.parametrize(
    ("error", "retryable"), [(Failed(f"{HOST} cannot be reached"), True), (Refused("no"), False)]
)
def test_having_no_answer_is_judged_as_well(error, retryable):
    """
    What the network did is worth another attempt, what was never sent is not; both say why.
    """
    assert ChannelResult(False, error=str(error), retryable=retryable) == classify(error, NOW)


WAITS = [
    (None, None),
    ("2", 2.0),
    ("0", 0.0),
    ("1.5", 1.5),
    (" 7 ", 7.0),
    ("9999999999", 9999999999.0),
    ("9" * 400, None),
    ("-1", None),
    ("-0", None),
    ("+5", None),
    ("1e3", None),
    ("0x10", None),
    ("1_000", None),
    ("1.", None),
    (".5", None),
    ("5 s", None),
    ("2, 5", None),
    ("NaN", None),
    ("inf", None),
    ("١٢٣", None),
    ("soon", None),
    ("", None),
    ("Fri, 15 Jan 2027 08:00:03 GMT", 3.0),
    ("Fri, 15 Jan 2027 08:00:00 GMT", 0.0),
    ("Fri, 15 Jan 2027 07:59:59 GMT", None),
    ("Friday, 15-Jan-27 08:00:03 GMT", 3.0),
    ("Fri Jan 15 08:00:03 2027", 3.0),
    ("Fri, 15 Jan 2027 09:00:03 +0100", 3.0),
    ("Fri, 31 Feb 2027 08:00:03 GMT", None),
    ("Fri, 15 Jan 99999 08:00:03 GMT", None),
    ("x" * 5000, None),
]


@pytest.mark.parametrize(("value", "seconds"), WAITS)
def test_a_retry_after_is_read_strictly(value, seconds):
    """
    B26: seconds, fractions included, or a date of HTTP, measured by the given instant; everything
    else, the past included, is none. What is absurd is capped by whoever waits.
    """
    assert seconds == retry_after(value, NOW)


@given(st.floats(0, 10**8))
def test_a_date_ahead_is_that_far_ahead(ahead):
    """
    Whatever the instant, the wait until a date is the difference, to the second of the date.
    """
    at = float(int(NOW + ahead))

    assert at - NOW == retry_after(formatdate(at, usegmt=True), NOW)


@given(st.text())
def test_no_text_breaks_it(text):
    """
    A provider may write what it likes.
    """
    wait = retry_after(text, NOW)

    assert wait is None or 0 <= wait < float("inf")


@pytest.mark.parametrize(
    ("status", "value", "seconds"),
    [
        (429, "2", 2.0),
        (429, "1.5", 1.5),
        (429, None, 0.0),
        (429, "-1", 0.0),
        (429, "soon", 0.0),
        (429, "9999999999", 9999999999.0),
        (503, "2", 2.0),
        (503, None, None),
        (503, "-1", None),
        (503, "soon", None),
        (500, "2", None),
        (408, "2", None),
        (400, "2", None),
        (302, "2", None),
    ],
)
def test_who_is_paced(status, value, seconds):
    """
    B26: a 429 always says to go slower, a 503 when it says for how long.
    """
    assert seconds == classify(an_answer(status, retry_after=value), NOW).retry_after


@pytest.mark.parametrize("value", ["0", "-1", "soon", "", None])
@pytest.mark.parametrize("attempt", [1, 2, 5])
def test_an_unusable_retry_after_means_the_ordinary_backoff(value, attempt):
    """
    B26: given a 429 that does not say for how long, then its wait is what any failure waits, never
    less.
    """
    result = classify(an_answer(429, retry_after=value), NOW)
    tally = Tally(ChannelPlan(primary=("WEBHOOK",)), frozenset(), (Call("WEBHOOK", result, NOW),))
    retry = Retry(base_seconds=2)

    assert retry.delay(attempt) == retry.delay(attempt, retry_after=tally.retry_after)
    assert tally.paced


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (400, b"", "answered 400 Bad Request"),
        (410, b"gone for good", "answered 410 Gone: gone for good"),
        (400, b'{"error": "no such field"}', 'answered 400 Bad Request: {"error": "no such field"}'),
        (
            500,
            b" line one\r\n\tline two\x00\x1b[31m ",
            "answered 500 Internal Server Error: line one line two [31m",
        ),
        (400, "naïve \u202e日本\u200b".encode(), "answered 400 Bad Request: naïve 日本"),
        (400, b"\xff\xfe", "answered 400 Bad Request: \ufffd\ufffd"),
        (400, b"x" * 200, "answered 400 Bad Request: " + "x" * 200),
        (400, b"x" * 201, "answered 400 Bad Request: " + "x" * 199 + "…"),
        (400, b"x" * 65_536, "answered 400 Bad Request: " + "x" * 199 + "…"),
        (799, b"odd", "answered 799: odd"),
        (302, b'<a href="http://10.0.0.1/">here</a>', "answered 302 Found: redirects are not followed"),
        (399, b"", "answered 399: redirects are not followed"),
    ],
)
def test_the_reason_is_short_and_printable(status, body, told):
    """
    B26: what the body says is kept, as one line of at most 200 printable characters; where a
    redirect would lead is not.
    """
    assert f"{HOST} {told}" == classify(an_answer(status, body), NOW).error


def test_the_reason_does_not_repeat_secrets():
    """
    Given a receiver that repeats path and query, when its answer is told, then they are blotted out,
    also where a cut would leave half of one.
    """
    hidden = ("/services/T1/s3cr3t", "s3cr3t")
    body = b"Cannot POST /services/T1/s3cr3t (" + b"s3cr3t" * 100 + b")"
    error = classify(an_answer(404, body, hidden=hidden), NOW).error

    assert error.startswith(f"{HOST} answered 404 Not Found: Cannot POST ... (...")
    assert "s3" not in error


def test_headers_are_found_in_any_case_and_joined():
    """
    Names of headers have no case; two of one name count as one list.
    """
    answer = Answer(shown=HOST, status=429, headers=(("retry-AFTER", "2"), ("X", "y"), ("Retry-After", "5")))

    assert "2, 5" == answer.header("Retry-After")
    assert answer.header("Location") is None


def test_an_answer_shows_nothing_of_its_secrets():
    """
    What lands in a log by accident is the status and the host.
    """
    assert f"<Answer 404 of {HOST}>" == repr(an_answer(404, b"s3cr3t", hidden=("s3cr3t",)))
