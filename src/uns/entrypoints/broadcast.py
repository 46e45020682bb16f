"""
Which way signals take to other processes.
"""

from __future__ import annotations

from msgspec import Struct

from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.pubsub.envelope import POLICY_CHANNEL
from uns.adapters.sql.postgres import is_postgres
from uns.ports.checks import fault
from uns.ports.pubsub import PubSub


class Broadcast(Struct, frozen=True, kw_only=True):
    """
    What an operator says of it. Both URLs may hold passwords.

    ``listen_url`` leads straight to a PostgreSQL that the database URL reaches through a pooler.
    """

    redis_url: str | None = None
    policy_channel: str = POLICY_CHANNEL
    listen_url: str | None = None


def choose_pubsub(database_url: str, broadcast: Broadcast) -> PubSub:
    """
    Redis where there is one, else PostgreSQL where that is the database, else this process alone.

    Connects when first used, and is to be closed.

    Raises:
        Rejected: ``redis_url``, ``listen_url`` or ``database_url`` is none, or its extra is missing.
    """
    if broadcast.redis_url is not None:
        return _redis(broadcast.redis_url, broadcast.policy_channel)
    if is_postgres(database_url):
        if broadcast.listen_url is not None:
            return _postgres(broadcast.listen_url, "listen_url")
        return _postgres(database_url, "database_url")
    return InProcessPubSub()


def _redis(url: str, policy_channel: str) -> PubSub:
    try:
        from uns.adapters.pubsub.redis import redis_pubsub
    except ImportError:
        raise fault("redis_url", "needs the extra `redis`: pip install 'uns[redis]'") from None
    return redis_pubsub(url, policy_channel)


def _postgres(url: str, path: str) -> PubSub:
    try:
        from uns.adapters.pubsub.postgres import postgres_pubsub
    except ImportError:
        raise fault(path, "needs the extra `postgres`: pip install 'uns[postgres]'") from None
    return postgres_pubsub(url, path=path)
