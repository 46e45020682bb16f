"""
Runtimes whose notifications go out through the real WEBHOOK channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kit.receiver import LOOPBACK, Names
from kit.runtimes import Opener, a_document
from uns import Runtime
from uns.adapters.channels.webhook import WebhookChannel
from uns.adapters.egress import Egress, GuardedClient
from uns.adapters.sources import FunctionClock, ManualClock

HOOKS = "hooks.example.org"
"""A name that leads to the loopback address that is admitted."""

SECRET = "whsec_dW5zLXRlc3Qtc2VjcmV0LTI0LWJ5dGVz"
BASE_SECONDS = 2.0

Sending = Callable[..., Runtime]


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
        names = Names({HOOKS: ([LOOPBACK],)})
        client = GuardedClient(Egress.parse(LOOPBACK), resolve=names)
        channel = WebhookChannel(
            client, FunctionClock(clock.now), environ=environ if environ is not None else {}, secrets=[SECRET]
        )
        channel.timeout_seconds = limit
        runtime = open_runtime({"WEBHOOK": channel}, retry_seconds=BASE_SECONDS)
        to = {"channels": {"primary": ["WEBHOOK"]}, "targets": {"WEBHOOK": dict(target)}}
        in_force(runtime, a_document(**(to | settings)))
        return runtime

    return sending
