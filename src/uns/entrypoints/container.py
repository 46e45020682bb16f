"""
The composition root: from settings to everything that runs, made once, for every door alike.
"""

from __future__ import annotations

from dependency_injector import containers, providers

from uns.adapters.callback_http import HttpCallback
from uns.adapters.channels.log import LogChannel
from uns.adapters.channels.recording import RecordingChannel
from uns.adapters.channels.registry import SimpleAdapterRegistry
from uns.adapters.channels.webhook import WebhookChannel
from uns.adapters.egress import Egress, GuardedClient
from uns.adapters.sources import SystemClock
from uns.core.loops.submitter import Submitter
from uns.core.loops.worker import Pace, Worker
from uns.core.rules.signature import sign
from uns.entrypoints.broadcast import Broadcast
from uns.entrypoints.sdk import Runtime
from uns.entrypoints.settings import Settings, Switch
from uns.entrypoints.wiring import Ledger, Options, open_ledger
from uns.ports.callback import Callback
from uns.ports.channel import ChannelRegistry
from uns.ports.errors import Rejected
from uns.ports.sources import Clock

_SETTINGS = {
    "database_url": "UNS_DATABASE_URL",
    "redis_url": "UNS_REDIS_URL",
    "listen_url": "UNS_DATABASE_LISTEN_URL",
}
"""What the operator calls what the code complains about."""


def _client(settings: Settings) -> GuardedClient:
    return GuardedClient(Egress.parse(settings.egress_allow))


def _channels(settings: Settings, client: GuardedClient, clock: Clock) -> SimpleAdapterRegistry:
    webhook = WebhookChannel(client, clock, environ=settings.targets, secrets=settings.webhook_secrets)
    return SimpleAdapterRegistry({"LOG": LogChannel(), "RECORDING": RecordingChannel(), "WEBHOOK": webhook})


def _callback(settings: Settings, client: GuardedClient, clock: Clock) -> Callback | None:
    if settings.callback_url is None:
        return None
    return HttpCallback(client, clock, settings.callback_url, secrets=settings.callback_secrets, sign=sign)


def _ledger(
    settings: Settings,
    channels: ChannelRegistry,
    clock: Clock,
    callback: Callback | None,
    create_tables: bool,
) -> Ledger:
    options = Options(
        create_tables=create_tables,
        max_attempts=settings.max_attempts,
        retry_seconds=settings.retry_seconds,
        clock=clock.now,
        callback=callback,
        pg_prepare=settings.pg_prepare is Switch.ON,
        broadcast=Broadcast(
            redis_url=settings.redis_url,
            policy_channel=settings.policy_redis_channel,
            listen_url=settings.database_listen_url,
        ),
    )
    try:
        return open_ledger(settings.database_url, channels, options)
    except Rejected as fault:
        raise Rejected(str(fault).replace(fault.path, _SETTINGS.get(fault.path, fault.path), 1)) from fault


def _submitter(ledger: Ledger) -> Submitter:
    return Submitter(ledger.intake, ledger.insistent, ledger.pubsub)


def _worker(settings: Settings, ledger: Ledger) -> Worker:
    pace = Pace(settings.worker_concurrency, settings.worker_poll_seconds)
    return Worker(ledger.dispatcher, ledger.sweeper, ledger.courier, ledger.pubsub, pace)


class Container(containers.DeclarativeContainer):
    """
    ``ThreadSafeSingleton`` throughout: doors ask from several threads.

    ``create_tables`` is False for those who only visit a database that others keep.
    """

    settings: providers.Dependency[Settings] = providers.Dependency(instance_of=Settings)
    create_tables: providers.Provider[bool] = providers.Object(True)
    clock = providers.ThreadSafeSingleton(SystemClock)
    client = providers.ThreadSafeSingleton(_client, settings)
    channels = providers.ThreadSafeSingleton(_channels, settings, client, clock)
    callback = providers.ThreadSafeSingleton(_callback, settings, client, clock)
    ledger = providers.ThreadSafeSingleton(_ledger, settings, channels, clock, callback, create_tables)
    runtime = providers.ThreadSafeSingleton(Runtime.over, ledger, channels)
    submitter = providers.ThreadSafeSingleton(_submitter, ledger)
    worker = providers.ThreadSafeSingleton(_worker, settings, ledger)
