import time
from base64 import b64encode

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from uns.adapters.standard_webhooks import Signer, secrets_in
from uns.ports.errors import Rejected

SECRET = "whsec_dW5zLXRlc3Qtc2VjcmV0LTI0LWJ5dGVz"
OTHER = "whsec_" + b64encode(b"another-secret-of-24-byt").decode()
BODY = '{"title":"é 🔔"}'.encode()


def test_the_published_vector():
    """
    Id, time and body of the vector give the signature that other implementations give.
    """
    headers = Signer([SECRET], "S").headers("msg_uns_1", 1674087231.9, b'{"type":"approval.resolved"}')

    assert {
        "webhook-id": "msg_uns_1",
        "webhook-timestamp": "1674087231",
        "webhook-signature": "v1,eLsxqgdnMMVQyH6Oy5469lffRgCIA5k9ZATi6OxCxRE=",
    } == headers


@pytest.mark.parametrize("fraction", [0.0, 0.4999, 0.9999999])
@pytest.mark.parametrize("held", [SECRET, OTHER])
def test_either_secret_verifies_while_they_rotate(fraction, held):
    """
    Given an old and a new secret, when something is signed at any moment of a second, then the
    library accepts it with either of them.
    """
    now = int(time.time()) + fraction
    headers = Signer([SECRET, OTHER], "S").headers("id-1", now, BODY)

    Webhook(held).verify(BODY, headers, json_parse=False)
    assert 2 == len(headers["webhook-signature"].split(" "))


def test_another_secret_does_not():
    """
    A receiver with another secret refuses.
    """
    headers = Signer([SECRET], "S").headers("id-1", time.time(), BODY)

    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(BODY, headers)


@pytest.mark.parametrize(
    ("secret", "as_text", "as_base64"),
    [
        ("a secret, with spaces", True, False),
        ("callback-secret-1", True, False),
        ("пароль", True, False),
        ("dW5zLXRlc3Qtc2VjcmV0LTI0LWJ5dGVz", True, True),
        ("c2VjcmV0MQ==", True, True),
        ("c2VjcmV0MQ", True, True),
        ("abcde", True, False),
    ],
)
def test_a_secret_without_the_prefix_verifies_however_it_is_read(secret, as_text, as_base64):
    """
    Given a secret that is not marked, when something is signed, then it verifies for those who take
    it as it stands, and for those who take it as base64 where it is.
    """
    headers = Signer([secret], "S").headers("id-1", time.time(), BODY)

    Webhook(secret.encode()).verify(BODY, headers, json_parse=False)
    if as_base64:
        Webhook(secret).verify(BODY, headers, json_parse=False)
    assert as_text + as_base64 == len(headers["webhook-signature"].split(" "))


def test_without_a_secret_there_is_no_signature():
    """
    Id and time are always there; what nobody can check is not.
    """
    assert {"webhook-id": "id-1", "webhook-timestamp": "5"} == Signer([], "S").headers("id-1", 5.5, BODY)


@pytest.mark.parametrize(
    "secret", ["whsec_", "whsec_not base64", "whsec_a", "whsec_abc=d", "whsec_====", "whsec_é"]
)
def test_a_spoilt_secret_is_refused_by_the_name_of_its_setting(secret):
    """
    Given something other than base64 behind the prefix, when it is to be used, then the complaint
    names the setting and not the secret.
    """
    with pytest.raises(Rejected, match=r"^UNS_X: what follows whsec_ must be base64$") as refused:
        Signer([SECRET, secret], "UNS_X")

    assert "UNS_X" == refused.value.path


@pytest.mark.parametrize(
    ("value", "secrets"),
    [("a", ("a",)), (" a , b ", ("a", "b")), ("a,", ("a",)), (",", ()), ("", ()), ("a b", ("a b",))],
)
def test_a_setting_holds_one_secret_or_several(value, secrets):
    """
    Commas separate secrets; blanks around them are none of theirs.
    """
    assert secrets == secrets_in(value)
