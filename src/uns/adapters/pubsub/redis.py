"""
Signals over Redis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from uns.adapters.pubsub.envelope import POLICY_CHANNEL, Format, Message
from uns.adapters.pubsub.relay import RelayPubSub
from uns.adapters.pubsub.wire import Pace, place, to_the_end
from uns.ports.checks import fault

WAKE_CHANNEL = "uns:signals"

_PING = "uns"


def redis_pubsub(url: str, policy_channel: str = POLICY_CHANNEL, pace: Pace = Pace()) -> RelayPubSub:  # noqa: B008
    """
    Connects when first used.

    Args:
        url: ``redis://`` or ``rediss://``, with redis-py's options as its query.

    Raises:
        Rejected: the URL cannot be one; its text is not repeated.
    """
    return RelayPubSub(RedisWire(url, policy_channel, pace), pace)


class RedisWire:
    """
    One connection to publish on, and one that is subscribed.
    """

    def __init__(self, url: str, policy_channel: str, pace: Pace) -> None:
        self.name = place("Redis", url)
        self.format = Format(wake_channel=WAKE_CHANNEL, reload_channel=policy_channel)
        self._url = url
        self._pace = pace
        if not url.startswith(("redis://", "rediss://")):
            raise fault("redis_url", "must begin with redis:// or rediss://")
        try:
            self._pool().make_connection()  # type: ignore[no-untyped-call] # knows the options, and does not connect
        except (TypeError, ValueError):
            raise fault("redis_url", "is not of the form redis://user:password@host:port/number") from None

    async def connect(self) -> RedisLink:
        link = RedisLink(self._pool(), self._pace)
        try:
            await link.subscribe(self.format.wake_channel, self.format.reload_channel)
        except BaseException:
            await to_the_end(link.close())
            raise
        return link

    def _pool(self) -> ConnectionPool:
        # A connection that mended itself would not say what it missed: the relay makes a new one.
        given = {"socket_timeout": self._pace.reply, "socket_connect_timeout": self._pace.connect}
        return ConnectionPool.from_url(
            self._url, protocol=2, retry=Retry(NoBackoff(), 0), socket_keepalive=True, **given
        )


class RedisLink:
    """
    See ``Link``.
    """

    def __init__(self, pool: ConnectionPool, pace: Pace) -> None:
        self._redis: Redis = Redis(connection_pool=pool)
        self._pubsub = self._redis.pubsub()
        self._pace = pace

    async def subscribe(self, *channels: str) -> None:
        """
        Once it returns, nothing that is published is missed.
        """
        await self._pubsub.subscribe(*channels)
        for _ in channels:
            await self._next(self._pace.reply)

    async def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self._redis.publish(message.channel, message.payload)

    async def hear(self) -> Sequence[Message]:
        heard = await self._next(self._pace.quiet)
        if heard is None:
            await self._pubsub.ping(_PING)
            heard = await self._next(self._pace.reply)
            if heard is None:
                raise TimeoutError("no answer to a ping")
        if heard["type"] != "message":
            return ()
        return [Message(heard["channel"].decode(), heard["data"])]

    async def close(self) -> None:
        with suppress(Exception):
            await self._pubsub.aclose()  # type: ignore[no-untyped-call]
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()
        await asyncio.sleep(0)  # for the transports to go

    async def _next(self, seconds: float) -> dict[str, Any] | None:
        message: dict[str, Any] | None = await self._pubsub.get_message(timeout=seconds)
        return message
