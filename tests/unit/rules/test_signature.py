"""
``X-UNS-Timestamp`` and ``X-UNS-Signature``, as ``docs/webhooks.md`` has them.
"""

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uns.core.rules.signature import SIGNATURE, TIMESTAMP, fresh, sign, verify

AT = 1_700_000_000
BODY = '{"kind":"ACKED","ok":"é"}'.encode()
OLD, NEW = "uns-secret-1", "uns-secret-2"
SETS = [(OLD,), (NEW,), (OLD, NEW)]


def by_hand(secret, body=BODY, at=AT):
    return "v1=" + hmac.digest(secret.encode(), f"{at}.".encode() + body, "sha256").hex()


def signed(**changed):
    return {TIMESTAMP: str(AT), SIGNATURE: by_hand(OLD)} | changed


def test_a_known_signature():
    """
    The bytes are fixed for all time: timestamp, full stop, raw body, hexadecimal HMAC-SHA256.
    """
    body = b'{"type":"approval.resolved"}'

    assert {
        "X-UNS-Timestamp": "1700000000",
        "X-UNS-Signature": "v1=9182413da7c3a708eff5f1cd6976e2e0a28f2d235a930404d1c4db0a23a9be2e",
    } == sign(body, ("uns-secret-1",), 1_700_000_000)


def test_each_secret_signs_while_they_rotate():
    """
    Given an old and a new secret, when a body is signed, then there is a signature of each.
    """
    assert {TIMESTAMP: str(AT), SIGNATURE: f"{by_hand(OLD)},{by_hand(NEW)}"} == sign(BODY, (OLD, NEW), AT)


@pytest.mark.parametrize("secrets", [(), ("",), ("  ",)])
def test_without_a_secret_nothing_is_signed_and_nothing_verifies(secrets):
    """
    An empty secret is none: with it anybody could sign.
    """
    assert {} == sign(BODY, secrets, AT)
    assert not verify(BODY, signed(**{SIGNATURE: by_hand("")}), secrets, AT)
    assert not verify(BODY, signed(**{SIGNATURE: by_hand("  ")}), secrets, AT)


def test_a_text_is_one_secret():
    """
    Given a single secret as text, then it is that secret and not one for each of its letters.
    """
    assert sign(BODY, (OLD,), AT) == sign(BODY, OLD, AT)
    assert verify(BODY, signed(), OLD, AT)
    assert not verify(BODY, signed(**{SIGNATURE: by_hand("u")}), OLD, AT)


@pytest.mark.parametrize(("signers", "holders"), [(a, b) for a in SETS for b in SETS])
def test_one_secret_in_common_is_enough(signers, holders):
    """
    Sender and receiver may change secrets at different times, as long as they share one.
    """
    headers = sign(BODY, signers, AT)

    assert bool({*signers} & {*holders}) is verify(BODY, headers, holders, AT)


@pytest.mark.parametrize(
    ("now", "accepted"),
    [
        (AT, True),
        (AT + 0.5, True),
        (AT + 299, True),
        (AT + 300, True),
        (AT + 300.001, False),
        (AT + 301, False),
        (AT - 299, True),
        (AT - 300, True),
        (AT - 300.001, False),
        (AT - 301, False),
        (0, False),
        (float("nan"), False),
        (float("inf"), False),
        (float("-inf"), False),
        (None, False),
        ("1700000000", False),
    ],
)
def test_the_window_is_300_seconds_each_way(now, accepted):
    """
    B25: exactly 300 s early or late still counts, a moment more does not; neither does odd time.
    """
    assert accepted is verify(BODY, signed(), (OLD,), now)


ODD = [
    "",
    " ",
    "NaN",
    "inf",
    "1e9",
    "1.7e9",
    "1700000000.0",
    "+1700000000",
    "-1700000000",
    " 1700000000",
    "1700000000 ",
    "1700000000\n",
    "1_700_000_000",
    "0x6553f100",
    "١٧٠٠٠٠٠٠٠٠",  # noqa: RUF001 - Arabic digits
    "\uff11\uff17\uff10\uff10\uff10\uff10\uff10\uff10\uff10\uff10",
    "1" * 40,
    "9" * 5000,
    "\ud800",
]


@pytest.mark.parametrize("timestamp", ODD)
def test_an_odd_timestamp_is_refused_although_it_is_signed(timestamp):
    """
    B25: given a timestamp that is no plain number, correctly signed as it stands, then it is refused.
    """
    signature = hmac.digest(OLD.encode(), timestamp.encode(errors="replace") + b"." + BODY, "sha256").hex()
    headers = {TIMESTAMP: timestamp, SIGNATURE: f"v1={signature}"}

    assert not verify(BODY, headers, (OLD,), AT)
    assert not fresh(timestamp, AT)


def test_a_timestamp_of_zero_is_a_time():
    """
    What is plain and near enough counts, whatever its length.
    """
    assert verify(BODY, sign(BODY, (OLD,), 0), (OLD,), 300)
    assert verify(BODY, {TIMESTAMP: "007", SIGNATURE: by_hand(OLD, at="007")}, (OLD,), 7)


@pytest.mark.parametrize(
    "signature",
    [
        f" {by_hand(OLD)} ",
        f"{by_hand(NEW)}, {by_hand(OLD)}",
        f"{by_hand(OLD)},{by_hand(NEW)}",
        f"v0=00,,v2=x,garbage, {by_hand(OLD)},",
    ],
)
def test_others_beside_the_right_one_do_no_harm(signature):
    """
    Spaces, other versions and signatures of other secrets are passed over.
    """
    assert verify(BODY, signed(**{SIGNATURE: signature}), (OLD,), AT)


@pytest.mark.parametrize(
    "signature",
    [
        "",
        ",",
        "v1=",
        by_hand(OLD)[3:],
        by_hand(OLD).upper(),
        "v1=" + by_hand(OLD)[3:].upper(),
        by_hand(OLD).replace("v1", "v2"),
        by_hand(OLD)[:-1],
        by_hand(OLD) + "0",
        by_hand(NEW),
        by_hand(OLD, b""),
        by_hand(OLD, BODY + b" "),
        by_hand(OLD, at=AT + 1),
        by_hand(OLD).replace(",", ";") + ";",
        "v1=é",
        "v1=\ud800",
        by_hand(OLD) * 1000,
    ],
)
def test_what_is_not_the_signature_is_refused(signature):
    """
    Given a fresh timestamp, when the signature is of something or somebody else, then it is refused.
    """
    assert not verify(BODY, signed(**{SIGNATURE: signature}), (OLD,), AT)


@pytest.mark.parametrize("name", [TIMESTAMP, SIGNATURE])
def test_names_of_headers_have_no_case(name):
    """
    A header is found in whatever case it comes, and counts as absent when it comes in two.
    """
    headers = signed()
    value = headers.pop(name)

    assert verify(BODY, headers | {name.lower(): value}, (OLD,), AT)
    assert verify(BODY, headers | {name.upper(): value}, (OLD,), AT)
    assert not verify(BODY, headers, (OLD,), AT)
    assert not verify(BODY, headers | {name: value, name.lower(): value}, (OLD,), AT)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        None,
        [],
        "X-UNS-Signature",
        {TIMESTAMP: AT, SIGNATURE: by_hand(OLD)},
        {TIMESTAMP: True, SIGNATURE: by_hand(OLD)},
        {TIMESTAMP: None, SIGNATURE: by_hand(OLD)},
        {TIMESTAMP: [str(AT)], SIGNATURE: by_hand(OLD)},
        {TIMESTAMP: str(AT).encode(), SIGNATURE: by_hand(OLD).encode()},
        {TIMESTAMP: str(AT), SIGNATURE: [by_hand(OLD)]},
        {5: "x"},
    ],
)
def test_odd_headers_are_refused(headers):
    """
    B25: whatever stands where headers should, the answer is no and never an error.
    """
    assert verify(BODY, headers, (OLD,), AT) is False


@pytest.mark.parametrize("body", [BODY.decode(), None, 5, [1], object()])
def test_an_odd_body_is_refused(body):
    """
    Only bytes can have been signed.
    """
    assert verify(body, signed(), (OLD,), AT) is False


@pytest.mark.parametrize("secrets", [None, 5, (None,), (5,), ("\ud800",)])
def test_odd_secrets_verify_nothing(secrets):
    """
    A receiver that is set up wrongly accepts nothing.
    """
    assert verify(BODY, signed(), secrets, AT) is False


@given(
    st.dictionaries(
        st.sampled_from([TIMESTAMP, SIGNATURE, "x"]) | st.text(), st.text() | st.none() | st.integers()
    ),
    st.binary(),
    st.lists(st.text()) | st.text(),
    st.floats() | st.none(),
)
def test_it_never_raises(headers, body, secrets, now):
    """
    B25: no input makes it raise, and none that is made up makes it say yes.
    """
    assert verify(body, headers, secrets, now) is False


@given(
    st.binary(),
    st.lists(st.text("abc", min_size=1), min_size=1),
    st.integers(0, 10**12),
    st.floats(-300, 300),
)
def test_what_was_signed_verifies(body, secrets, at, skew):
    """
    Whatever the body and the secrets, each signature verifies with each secret, within the window.
    """
    headers = sign(body, secrets, at)

    assert all(verify(body, headers, (secret,), at + skew * 0.999) for secret in secrets)
    assert not verify(body + b"x", headers, secrets, at)
