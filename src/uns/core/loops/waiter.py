"""
Waiting for a human: until the owner's response is terminal, or can never come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from uns.core.plans import reading
from uns.core.plans.reading import Standing
from uns.ports.commits import Commits
from uns.ports.decision import Signal, SignalKind
from uns.ports.errors import Closed, StoreUnavailable
from uns.ports.pubsub import PubSub
from uns.ports.replies import Projection

POLL_SECONDS = 1.0
_TELLING = frozenset({SignalKind.ANSWERED, SignalKind.SETTLED})


async def wait_for_answer(id: str, commits: Commits, pubsub: PubSub, seconds: float | None) -> Projection:
    """
    The response view of ``id`` once it is final, or as it stands after ``seconds``.

    Signals only shorten the wait: another process's answer is found by looking once a second. Once it
    was read, a store that does not answer is asked again, and the time's end tells what was read last.

    Raises:
        NotFound: no such notification.
        StoreUnavailable: it could not be read at first, or the runtime was closed.
    """
    loop = asyncio.get_running_loop()
    until = None if seconds is None else loop.time() + seconds
    told = asyncio.Event()

    def listen(signals: Sequence[Signal]) -> None:
        if any(signal.kind in _TELLING for signal in signals) and not loop.is_closed():
            loop.call_soon_threadsafe(told.set)

    unsubscribe = pubsub.subscribe(listen)
    standing: Standing | None = None
    try:
        while True:
            told.clear()
            standing = await _looked(id, commits, standing)
            left = POLL_SECONDS if until is None else min(until - loop.time(), POLL_SECONDS)
            if standing.final or left <= 0:
                return standing.projection
            try:
                await asyncio.wait_for(told.wait(), left)
            except TimeoutError:
                continue
    finally:
        unsubscribe()


async def _looked(id: str, commits: Commits, last: Standing | None) -> Standing:
    try:
        return await commits.read(reading.standing(id))
    except Closed:
        raise
    except StoreUnavailable:
        if last is None:
            raise
        return last
