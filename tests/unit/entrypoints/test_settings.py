"""
The environment, read once: each variable at and past its limits, and no secret in a message.
"""

import pytest
from msgspec import structs

from uns.core.rules.access import digest
from uns.entrypoints.settings import Settings, Switch, read_settings
from uns.ports.errors import Rejected
from uns.ports.identity import Role

FIELDS = {
    "UNS_DATABASE_URL": "database_url",
    "UNS_PG_PREPARE": "pg_prepare",
    "UNS_HOST": "host",
    "UNS_PORT": "port",
    "UNS_POLICY_DIR": "policy_dir",
    "UNS_WORKER_CONCURRENCY": "worker_concurrency",
    "UNS_WORKER_POLL_SECONDS": "worker_poll_seconds",
    "UNS_MAX_ATTEMPTS": "max_attempts",
    "UNS_RETRY_SECONDS": "retry_seconds",
    "UNS_SEND_WAIT_SECONDS": "send_wait_seconds",
    "UNS_CALLBACK_URL": "callback_url",
    "UNS_CALLBACK_SECRET": "callback_secrets",
    "UNS_WEBHOOK_SIGNING_SECRET": "webhook_secrets",
    "UNS_EGRESS_ALLOW": "egress_allow",
    "UNS_API_PRINCIPAL": "principal",
    "UNS_URL": "service_url",
    "UNS_REDIS_URL": "redis_url",
    "UNS_POLICY_REDIS_CHANNEL": "policy_redis_channel",
    "UNS_DATABASE_LISTEN_URL": "database_listen_url",
}
"""Every variable with a field of its own, and the field."""

KEYS = {
    Role.OPERATOR: ("UNS_API_KEY", "UNS_API_PRINCIPAL"),
    Role.PRODUCER: ("UNS_PRODUCER_API_KEY", "UNS_PRODUCER_API_PRINCIPAL"),
    Role.RESPONDER: ("UNS_RESPONDER_API_KEY", "UNS_RESPONDER_API_PRINCIPAL"),
    Role.OBSERVER: ("UNS_OBSERVER_API_KEY", "UNS_OBSERVER_API_PRINCIPAL"),
}
PRINCIPALS = [principal for _, principal in KEYS.values()]


def read(name, value):
    return getattr(read_settings({name: value}), FIELDS[name])


def refused(name, value):
    """
    The message; it is one line that names the variable.
    """
    with pytest.raises(Rejected) as caught:
        read_settings({name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} ")
    assert 1 == len(message.splitlines())
    assert name == caught.value.path
    return message


def test_nothing_need_be_set():
    """
    The defaults of the documents: a file here, 10 attempts from 2 s, 5 s of waiting, no credential.
    """
    settings = read_settings({})

    assert Settings() == settings
    assert ("sqlite:///uns.db", "127.0.0.1", 8000) == (settings.database_url, settings.host, settings.port)
    assert (10, 2.0, 5.0) == (settings.max_attempts, settings.retry_seconds, settings.send_wait_seconds)
    assert ((), None, None, {}) == (
        settings.credentials,
        settings.policy_dir,
        settings.callback_url,
        settings.targets,
    )


@pytest.mark.parametrize("blank", ["", " ", "\t", "\n"])
def test_blank_is_not_set(blank):
    """
    For every variable there is.
    """
    names = {*FIELDS, *(name for pair in KEYS.values() for name in pair), "UNS_TARGET_X"}

    assert Settings() == read_settings(dict.fromkeys(names, blank))


@pytest.mark.parametrize(
    ("name", "least", "most", "below", "above"),
    [
        ("UNS_PORT", "1", "65535", "0", "65536"),
        ("UNS_WORKER_CONCURRENCY", "1", "10000", "0", "10001"),
        ("UNS_MAX_ATTEMPTS", "1", "1000", "0", "1001"),
        ("UNS_WORKER_POLL_SECONDS", "0.01", "3600", "0.009", "3600.001"),
        ("UNS_RETRY_SECONDS", "0", "300", "-0.001", "300.001"),
        ("UNS_SEND_WAIT_SECONDS", "0", "60", "-1", "60.001"),
    ],
)
def test_a_number_has_limits(name, least, most, below, above):
    """
    Both are taken; what is past them is told with them.
    """
    assert (float(least), float(most)) == (read(name, least), read(name, most))
    for past in (below, above):
        assert f"from {least} to {most}" in refused(name, past)


@pytest.mark.parametrize("name", ["UNS_PORT", "UNS_WORKER_CONCURRENCY", "UNS_MAX_ATTEMPTS"])
@pytest.mark.parametrize(
    "value", ["x", "1.0", "1e1", "+5", "-5", "0x10", "1_0", "٣", "5 5", "9" * 5000, "NaN"]
)
def test_a_count_is_a_whole_number(name, value):
    """
    In digits, and nothing that Python would read besides.
    """
    assert "must be a whole number" in refused(name, value)


@pytest.mark.parametrize("name", ["UNS_WORKER_POLL_SECONDS", "UNS_RETRY_SECONDS", "UNS_SEND_WAIT_SECONDS"])
@pytest.mark.parametrize("value", ["x", "NaN", "inf", "-1", "1_0", "٣", "1e0", "5s", "1,5", "9" * 5000, "."])
def test_seconds_are_a_number(name, value):
    """
    A decimal one; fractions are welcome.
    """
    assert "must be a number of seconds" in refused(name, value)
    assert 1.5 == read(name, "1.5")
    assert 0.25 == read(name, ".25")


@pytest.mark.parametrize("value", ["On", "true", "1", "no", "o"])
def test_a_switch_is_on_or_off(value):
    """
    In these words.
    """
    assert "UNS_PG_PREPARE must be on or off" == refused("UNS_PG_PREPARE", value)
    assert [Switch.ON, Switch.OFF] == [read("UNS_PG_PREPARE", each) for each in ("on", "off")]


def test_space_around_a_value_does_not_count():
    """
    As in a file that somebody wrote by hand.
    """
    assert (9000, "x.org") == (read("UNS_PORT", " 9000 "), read("UNS_HOST", "x.org\n"))


@pytest.mark.parametrize(
    "value",
    [
        "s3cr3t",
        "ftp://s3cr3t.example.org/",
        "file:///s3cr3t",
        "http://",
        "https:///s3cr3t",
        "http://[s3cr3t/",
        "http://user:s3cr3t@x\u2100/",
        "http://x:s3cr3t/",
        "http://x:99999/s3cr3t",
        "http://x:0/s3cr3t",
    ],
)
def test_a_url_is_http_with_a_host(value):
    """
    What is none is not repeated: it may hold a secret.
    """
    assert "UNS_URL must be an http or https URL" == refused("UNS_URL", value)


@pytest.mark.parametrize("value", ["http://x", "https://hooks.example.org:8443/a?b=c", "HTTP://X/"])
def test_a_url_is_taken_as_it_is(value):
    """
    Whether somebody answers there is seen when it is called.
    """
    assert value == read("UNS_URL", value)


@pytest.mark.parametrize("value", ["s3cr3t", "http://x:0/s3cr3t", "https://hooks.example.org/a?b=c"])
def test_where_callbacks_go_is_checked_by_who_calls(value):
    """
    In one place, that knows what may be called: what is written is taken as it is.
    """
    assert value == read("UNS_CALLBACK_URL", value)


EVERY_NAME = sorted({*FIELDS, *(name for pair in KEYS.values() for name in pair), "UNS_TARGET_X"})


@pytest.mark.parametrize("name", EVERY_NAME)
def test_what_is_no_text_is_refused(name):
    """
    Given bytes that are not UTF-8, which reach Python as half characters, then the variable is named,
    whichever it is: they could be neither signed with, nor called, nor told.
    """
    with pytest.raises(Rejected) as caught:
        read_settings({"UNS_URL": "http://x", name: "http://x/\udcff"})

    assert (f"{name} must be UTF-8", name) == (str(caught.value), caught.value.path)


SERVERS = {
    "UNS_REDIS_URL": "a redis:// or rediss:// URL",
    "UNS_DATABASE_LISTEN_URL": "a postgresql:// URL",
}


@pytest.mark.parametrize(("name", "told"), SERVERS.items())
@pytest.mark.parametrize(
    "value",
    [
        "s3cr3t",
        "http://s3cr3t@x",
        "redis:s3cr3t",
        "://s3cr3t@x",
        "//:s3cr3t@/0",
        "//[s3cr3t/",
        "//x:s3cr3t/",
        "//x:0/",
    ],
)
def test_a_server_is_a_url_with_a_host(name, told, value):
    """
    Of its own kind; what is none is not repeated, since it may hold a password.
    """
    scheme = told.split()[1].partition(":")[0]
    value = f"{scheme}:{value}" if value.startswith("//") else value

    assert f"{name} must be {told}" == refused(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UNS_REDIS_URL", "redis://localhost"),
        ("UNS_REDIS_URL", "rediss://user:s3cr3t@redis.example.org:6380/1?ssl_cert_reqs=required"),
        ("UNS_DATABASE_LISTEN_URL", "postgresql://user:s3cr3t@db:5432/uns"),
        ("UNS_DATABASE_LISTEN_URL", "postgresql+psycopg://db/uns?sslmode=require"),
    ],
)
def test_the_url_of_a_server_is_taken_as_it_is(name, value):
    """
    With its password and its options.
    """
    assert value == read(name, value)


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "x" * 256])
def test_a_channel_is_one_line(value):
    """
    By default it is the one that is documented.
    """
    assert "uns:policies:reload" == Settings().policy_redis_channel
    assert "acme:reload" == read("UNS_POLICY_REDIS_CHANNEL", "acme:reload")
    assert "must be one line of at most 255 characters" in refused("UNS_POLICY_REDIS_CHANNEL", value)


@pytest.mark.parametrize("name", ["UNS_CALLBACK_SECRET", "UNS_WEBHOOK_SIGNING_SECRET"])
def test_a_secret_has_two_values_while_it_rotates(name):
    """
    One or two, with a comma between; three are a mistake, and are not repeated.
    """
    assert ("a",) == read(name, "a")
    assert ("a", "b") == read(name, " a , b ")
    assert ("a",) == read(name, ",a,")
    assert "s3cr3t" not in refused(name, "s3cr3t1,s3cr3t2,s3cr3t3")
    refused(name, ",")


@pytest.mark.parametrize("role", Role)
def test_a_credential_is_a_key_and_a_principal(role):
    """
    By the names of the reference; the principal has a default, the key none.
    """
    key, principal = KEYS[role]
    (default,) = read_settings({key: "k"}).credentials
    (named,) = read_settings({key: "k", principal: "ann"}).credentials

    assert (role, f"local-{role.lower()}", (digest("k"),)) == (
        default.role,
        default.principal,
        default.digests,
    )
    assert "ann" == named.principal
    assert () == read_settings({principal: "ann"}).credentials


def test_all_classes_at_once():
    """
    Each with its own.
    """
    found = read_settings({key: f"k{n}" for n, (key, _) in enumerate(KEYS.values())}).credentials

    assert {role: (digest(f"k{n}"),) for n, role in enumerate(KEYS)} == {c.role: c.digests for c in found}


@pytest.mark.parametrize("role", Role)
def test_a_key_rotates(role):
    """
    Two values at most, neither of which is told.
    """
    key, _ = KEYS[role]
    (credential,) = read_settings({key: "old,new"}).credentials

    assert (digest("old"), digest("new")) == credential.digests
    assert "s3cr3t" not in refused(key, "s3cr3t1,s3cr3t2,s3cr3t3")


@pytest.mark.parametrize("value", ["s3cr3té", "s3cr3t\x7f", "s3cr3t\x01", "s3\u2028cr3t", "ok,s3cr3t\n1"])
def test_a_key_is_what_a_header_can_carry(value):
    """
    Another one could never be presented.
    """
    message = refused("UNS_API_KEY", value)

    assert "printable ASCII" in message
    assert "cr3t" not in message


@pytest.mark.parametrize("name", PRINCIPALS)
@pytest.mark.parametrize(
    "value",
    ["uns", "uns-bot", "unsworth", "slack:T1:U1", "pagerduty:x", "link:EMAIL:x", "key:ann", "producer:x"],
)
def test_a_principal_that_looks_like_the_services_own_is_refused(name, value):
    """
    Nobody can be configured to speak for the service, or for a door that identifies people.
    """
    assert "must not begin with any of uns, slack:, pagerduty:, link:, key:, producer:" in refused(
        name, value
    )


@pytest.mark.parametrize("name", PRINCIPALS)
@pytest.mark.parametrize("value", ["a\nb", "a\0b", "x" * 256, "a\u2028b"])
def test_a_principal_is_one_line(name, value):
    """
    It is written into logs and rows.
    """
    assert "must be one line of at most 255 characters" in refused(name, value)


@pytest.mark.parametrize("value", ["ann", "Ann O'Neill", "sunset", "my-uns", "slack", "x" * 255, "日本"])
def test_any_other_name_is_a_principal(value):
    """
    Also for whoever acts on this machine.
    """
    assert value == read("UNS_API_PRINCIPAL", value)


def test_targets_are_those_that_policies_may_name():
    """
    ``UNS_TARGET_*``, and nothing else of the environment.
    """
    environ = {
        "UNS_TARGET_A": "x",
        "UNS_TARGET_B": " y ",
        "UNS_TARGETS": "z",
        "PATH": "/bin",
        "UNS_TARGET_C": " ",
    }

    assert {"UNS_TARGET_A": "x", "UNS_TARGET_B": "y"} == read_settings(environ).targets


def test_what_is_not_ours_is_left_alone():
    """
    Names that nobody knows change nothing.
    """
    assert Settings() == read_settings({"UNS_UNKNOWN": "x", "DATABASE_URL": "mysql://x", "LANG": "C"})


def test_a_key_for_a_service_elsewhere_is_only_for_it():
    """
    Given UNS_URL, then the operator's key is what commands show there; without one nobody keeps it.
    """
    elsewhere = read_settings({"UNS_URL": "https://x.org", "UNS_API_KEY": "old,new"})

    assert ("https://x.org", "old") == (elsewhere.service_url, elsewhere.service_key)
    assert read_settings({"UNS_API_KEY": "k"}).service_key is None


def test_the_first_fault_stops_the_start():
    """
    One line, though there be several.
    """
    with pytest.raises(Rejected, match=r"^UNS_PORT must be a whole number from 1 to 65535$"):
        read_settings({"UNS_PORT": "x", "UNS_MAX_ATTEMPTS": "y"})


def test_every_field_has_its_variable():
    """
    A setting that nobody can set is none.
    """
    others = {"credentials", "targets", "service_key"}

    assert set(FIELDS.values()) | others == {field.name for field in structs.fields(Settings)}
