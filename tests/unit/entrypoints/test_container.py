"""
The composition root: every part can be made, once, from settings alone.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from dependency_injector import providers

from uns.adapters.callback_http import HttpCallback
from uns.adapters.channels.webhook import WebhookChannel
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.pubsub.relay import RelayPubSub
from uns.core.loops.submitter import Submitter
from uns.core.loops.worker import Worker
from uns.entrypoints.container import Container
from uns.entrypoints.sdk import Runtime
from uns.entrypoints.settings import Settings
from uns.entrypoints.wiring import Ledger
from uns.ports.errors import Rejected, SchemaMismatch, StoreUnavailable, UnsError

CALLBACK = "https://hooks.example.org/uns"


@pytest.fixture
def container_of(url):
    """
    Containers on the test's database; what they opened is closed in the end.
    """
    made = []

    def container_of(**settings):
        plain = {"database_url": url} | settings
        made.append(Container(settings=providers.Object(Settings(**plain))))
        return made[-1]

    yield container_of
    for container in made:
        with suppress(UnsError):  # what could not be opened need not be closed
            container.ledger().close()


def test_every_provider_can_be_resolved(container_of):
    """
    Wrong arguments are only found when something is made: here everything is.
    """
    container = container_of(callback_url=CALLBACK, callback_secrets=("s3cr3t",))
    made = {name: provider() for name, provider in container.providers.items()}

    assert set(made) == {
        "settings",
        "create_tables",
        "clock",
        "client",
        "channels",
        "callback",
        "ledger",
        "runtime",
        "submitter",
        "worker",
    }
    assert all(part is not None for part in made.values())
    assert [Ledger, Runtime, Submitter, Worker, HttpCallback] == [
        type(made[name]) for name in ("ledger", "runtime", "submitter", "worker", "callback")
    ]


def test_every_part_is_made_once(container_of):
    """
    Given that thirty threads ask at once, then there is one of each.
    """
    container = container_of(callback_url=CALLBACK)
    for name, provider in container.providers.items():
        with ThreadPoolExecutor(30) as threads:
            made = list(threads.map(lambda _, make=provider: make(), range(30)))

        assert 1 == len({id(part) for part in made}), name


def test_the_parts_belong_together(container_of):
    """
    What the doors accept, the worker finds: one ledger.
    """
    container = container_of()
    ledger = container.ledger()

    assert ledger is container.runtime()._ledger
    assert {"LOG", "RECORDING", "WEBHOOK"} == set(ledger.dispatcher.channels)
    assert isinstance(container.channels().get("WEBHOOK"), WebhookChannel)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({}, InProcessPubSub), ({"redis_url": "redis://x", "policy_redis_channel": "acme"}, RelayPubSub)],
)
def test_signals_go_where_they_should(container_of, settings, kind):
    """
    Within the process, or over Redis; nothing is connected before anybody has to say something.
    """
    pubsub = container_of(**settings).ledger().pubsub

    assert kind is type(pubsub)
    if kind is RelayPubSub:
        assert ("Redis at x", "acme") == (pubsub._wire.name, pubsub._wire.format.reload_channel)
        assert pubsub._thread is None


def test_settings_reach_their_parts(container_of):
    """
    Budget, pace, callback, what may be reached.
    """
    container = container_of(
        max_attempts=7,
        retry_seconds=0.5,
        worker_concurrency=3,
        worker_poll_seconds=9.0,
        egress_allow="10.0.0.0/8",
    )
    ledger, worker = container.ledger(), container.worker()

    assert (7, 0.5) == (ledger.dispatcher._retry.max_attempts, ledger.dispatcher._retry.base_seconds)
    assert (3, 9.0) == (worker._concurrency, worker._poll)
    assert ["10.0.0.0/8"] == [str(network) for network in container.client().egress.networks]
    assert (None, None) == (container.callback(), ledger.courier)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"egress_allow": "not a host"}, "UNS_EGRESS_ALLOW "),
        ({"callback_url": "http://user:s3cr3t@x.org/"}, "UNS_CALLBACK_URL: "),
        ({"callback_url": "http://10.0.0.1/s3cr3t"}, "UNS_CALLBACK_URL: "),
        ({"callback_url": "s3cr3t"}, "UNS_CALLBACK_URL: "),
        ({"callback_url": "ftp://s3cr3t.example.org/"}, "UNS_CALLBACK_URL: "),
        ({"callback_url": "https:///s3cr3t"}, "UNS_CALLBACK_URL: "),
        ({"callback_url": "http://[::1/s3cr3t"}, "UNS_CALLBACK_URL: "),
        ({"callback_url": "http://x:0/s3cr3t"}, "UNS_CALLBACK_URL: "),
        ({"callback_url": "http://x:99999/s3cr3t"}, "UNS_CALLBACK_URL: "),
        pytest.param({"callback_url": "http://x/s3cr3t\ud800"}, "UNS_CALLBACK_URL: ", id="half"),
        ({"callback_url": CALLBACK, "callback_secrets": ("whsec_s3cr3t!",)}, "UNS_CALLBACK_SECRET: "),
        ({"webhook_secrets": ("whsec_s3cr3t!",)}, "UNS_WEBHOOK_SIGNING_SECRET: "),
        ({"redis_url": "redis://:s3cr3t@x/0?nonsense=1"}, "UNS_REDIS_URL is not of the form"),
        ({"redis_url": "redis://:s3cr3t@x/0?socket_timeout=s3cr3t"}, "UNS_REDIS_URL is not of the form"),
        ({"database_url": "mysql://user:s3cr3t@x/db"}, "UNS_DATABASE_URL must begin with sqlite:///"),
        ({"database_url": "sqlite:///s3cr3t%00"}, "UNS_DATABASE_URL must begin with"),
        ({"database_url": "sqlite://s3cr3t"}, "UNS_DATABASE_URL is not of the form"),
    ],
)
def test_a_setting_that_cannot_be_is_named(container_of, settings, told):
    """
    One line with the variable, before anything is opened, and no secret.
    """
    with pytest.raises(Rejected) as caught:
        container_of(**settings).runtime()
    message = str(caught.value)

    assert message.startswith(told)
    assert "s3cr3t" not in message
    assert 1 == len(message.splitlines())


def test_a_folder_that_is_not_there_is_told(container_of, tmp_path):
    """
    With what to do about it.
    """
    with pytest.raises(StoreUnavailable, match="its directory must exist"):
        container_of(database_url=f"sqlite:///{tmp_path / 'nope' / 'uns.db'}").runtime()


def test_a_visitor_makes_no_tables(container_of, tmp_path):
    """
    Given that ``create_tables`` is off, then an empty database stays so.
    """
    container = container_of(database_url=f"sqlite:///{tmp_path / 'empty.db'}")
    container.create_tables.override(providers.Object(False))
    with pytest.raises(SchemaMismatch):
        container.runtime()


def test_a_part_can_be_replaced(container_of):
    """
    For tests, and for hosts with channels of their own.
    """
    container = container_of()
    container.callback.override(providers.Object(replacement := object()))

    assert replacement is container.callback()
    assert container.ledger().courier is not None


def test_settings_must_be_settings():
    """
    A mistake of wiring is found at once.
    """
    with pytest.raises(Exception, match="Settings"):
        Container(settings=providers.Object({"port": 1})).client()
