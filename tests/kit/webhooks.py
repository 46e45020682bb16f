"""
Runtimes, and services, whose notifications go out through the real WEBHOOK channel.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from kit.receiver import LOOPBACK, Names
from kit.runtimes import Opener, a_document
from kit.web import Serving, Web
from uns import Runtime
from uns.adapters.channels.webhook import WebhookChannel
from uns.adapters.egress import Egress, GuardedClient
from uns.adapters.sources import FunctionClock, ManualClock

HOOKS = "hooks.example.org"
"""A name that leads to the loopback address that is admitted."""

SECRET = "whsec_dW5zLXRlc3Qtc2VjcmV0LTI0LWJ5dGVz"
BASE_SECONDS = 2.0

Sending = Callable[..., Runtime]
Hooking = Callable[..., AbstractAsyncContextManager[Web]]


def a_webhook(
    clock: ManualClock,
    environ: Mapping[str, str] | None = None,
    *,
    limit: float = 5.0,
    names: Mapping[str, Sequence[list[str]]] | None = None,
) -> WebhookChannel:
    """
    The channel, signing; a call ends within ``limit``, and loopback is admitted.
    """
    client = GuardedClient(Egress.parse(LOOPBACK), resolve=Names(names or {HOOKS: ([LOOPBACK],)}))
    channel = WebhookChannel(
        client, FunctionClock(clock.now), environ=environ if environ is not None else {}, secrets=[SECRET]
    )
    channel.timeout_seconds = limit
    return channel


@pytest.fixture
def hooking(serving: Serving, clock: ManualClock) -> Hooking:
    """
    Serves, a worker inside, and sends everything to a target; the rest is as for ``sending``.
    """

    @asynccontextmanager
    async def hooking(
        target: Mapping[str, Any],
        *,
        callback: Any = None,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> AsyncIterator[Web]:
        to = {"channels": {"primary": ["WEBHOOK"]}, "targets": {"WEBHOOK": dict(target)}}
        async with serving(
            a_document(**(to | dict(settings or {}))),
            work=True,
            adapters={"WEBHOOK": a_webhook(clock, **more)},
            settings={"retry_seconds": BASE_SECONDS, "max_attempts": 3, "send_wait_seconds": 20.0},
            callback=callback,
        ) as web:
            yield web

    return hooking


@pytest.fixture
def sending(open_runtime: Opener, in_force: Callable[..., Any], clock: ManualClock) -> Sending:
    """
    Opens a runtime that sends everything to a target, signed; ``limit`` is that of a call.
    """

    def sending(
        target: Mapping[str, Any],
        environ: Mapping[str, str] | None = None,
        limit: float = 5.0,
        **settings: Any,
    ) -> Runtime:
        channel = a_webhook(clock, environ, limit=limit)
        runtime = open_runtime({"WEBHOOK": channel}, retry_seconds=BASE_SECONDS)
        to = {"channels": {"primary": ["WEBHOOK"]}, "targets": {"WEBHOOK": dict(target)}}
        in_force(runtime, a_document(**(to | settings)))
        return runtime

    return sending
