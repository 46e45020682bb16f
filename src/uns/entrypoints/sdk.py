"""
``Runtime``: the ledger in Python, sync and async faces over the same plans.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from uns.adapters.policy_files import PolicyFolder, packaged_policies
from uns.core.loops.insist import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from uns.core.loops.waiter import wait_for_answer
from uns.core.loops.worker import Worker
from uns.core.plans import callbacks, intake, policies, reading, recovery, response
from uns.core.rules.ack import Answer
from uns.core.rules.lineage import onward
from uns.entrypoints import views
from uns.entrypoints.wiring import Ledger, Options, open_ledger
from uns.ports.callback import Callback
from uns.ports.channel import ChannelRegistry
from uns.ports.checks import json_object, name
from uns.ports.errors import Busy, Closed, NotFound, StoreUnavailable
from uns.ports.policy import PolicyReload
from uns.ports.replies import AckResponse, Projection, SendNotificationResponse, SimulationResponse
from uns.ports.requests import SendNotificationRequest
from uns.ports.rows import Notification
from uns.ports.store import Plan
from uns.ports.vocabulary import Ack

T = TypeVar("T")

Id = UUID | str
PAGE = 200
RUN_ONCE = 100

_name = name(255)


class Runtime:
    """
    A durable ledger of obligations, and the dispatcher of them.

    Its sync methods work from any thread, its async ones on any event loop. Close it when done, or
    use it as a context manager.

    Args:
        database_url: ``sqlite:///path``, or ``sqlite://`` for one that lives in memory.
        adapters: channel adapters by name, over the built-in LOG and RECORDING.
        create_tables: create or migrate the schema, and load the packaged policies if there are none.
        max_attempts: attempts per delivery cycle where the policy names no number.
        retry_seconds: the first backoff; it doubles up to 300 s.
        clock: Unix seconds; used for every decision.
        callback: called with each terminal response (ACKED, DISMISSED, TIMED_OUT).

    Raises:
        ValueError: ``max_attempts`` below 1, or an unknown kind of database.
        UnsError: the database does not open or has no schema.
    """

    def __init__(  # noqa: PLR0913 - the documented signature
        self,
        database_url: str,
        *,
        adapters: ChannelRegistry | None = None,
        create_tables: bool = False,
        max_attempts: int = 3,
        retry_seconds: float = 1,
        clock: Callable[[], float] = time.time,
        callback: Callback | None = None,
    ) -> None:
        options = Options(
            create_tables=create_tables,
            max_attempts=max_attempts,
            retry_seconds=retry_seconds,
            clock=clock,
            callback=callback,
        )
        self._bind(open_ledger(database_url, adapters, options), adapters)

    def _bind(self, ledger: Ledger, adapters: ChannelRegistry | None) -> None:
        self._ledger = ledger
        self._adapters = adapters

    @classmethod
    def over(cls, ledger: Ledger, adapters: ChannelRegistry | None = None) -> Runtime:
        """
        A runtime over parts that are assembled already.
        """
        runtime = cls.__new__(cls)
        runtime._bind(ledger, adapters)
        return runtime

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """
        Serve what waits and release the database. Idempotent.
        """
        self._ledger.close()

    # Intake

    def accept(self, request: SendNotificationRequest, *, principal: str) -> SendNotificationResponse:
        """
        Accept a request durably and leave its dispatch to a worker.

        Raises:
            ValueError: no principal, no policy, a forbidden override or protected metadata.
            Conflict: the idempotency key was used for another request.
        """
        taken = self._call(self._ledger.intake.accept(request, principal)).accepted
        return self._sent(taken.row, replayed=taken.replayed)

    async def send(self, request: SendNotificationRequest, *, principal: str) -> SendNotificationResponse:
        """
        Accept a request and attempt its delivery once.

        Returns after that attempt has settled; a follower, a duplicate or an idempotent replay
        returns at once. What failed is tried again by a worker.
        """
        done = await self._ledger.sender.send(request, principal)
        if onward(done.row) is None:
            return views.sent(done.row, views.own_projection(done.row), replayed=done.replayed)
        projection = await self._ledger.insistent.read(reading.response(done.row.id))
        return views.sent(done.row, projection, replayed=done.replayed)

    def simulate(self, request: SendNotificationRequest, *, principal: str) -> SimulationResponse:
        """
        What a request would resolve to. No side effects.
        """
        acceptance = self._ledger.intake.ready(request, principal)
        resolved = self._ledger.store.read(intake.simulate(request, self._ledger.resolver))
        return views.simulated(acceptance, resolved)

    # Dispatch

    async def dispatch(self, notification_id: Id) -> bool:
        """
        Attempt one notification now.

        False when it is unknown, not claimable, or its lease was lost; True once an outcome was
        committed, whatever it is.
        """
        id = _id(notification_id)
        return id is not None and await self._ledger.dispatcher.dispatch(id)

    async def run_once(self) -> int:
        """
        Attempt up to a hundred due notifications, and time out every overdue response.

        Callbacks are not awaited (see ``deliver_callbacks``). Returns how many were attempted.
        """
        dispatcher = self._ledger.dispatcher
        leased_at = asyncio.get_running_loop().time()
        claims = await dispatcher.claim_due(RUN_ONCE)
        carried = (dispatcher.carry(claim, leased_at) for claim in claims)
        done = await asyncio.gather(*carried, return_exceptions=True)
        while await self._ledger.sweeper.sweep() == response.SWEEP_LIMIT:
            pass
        for outcome in done:
            if isinstance(outcome, BaseException):  # told last: one row must not keep the rest waiting
                raise outcome
        return len(claims)

    async def worker(self, stop: asyncio.Event | None = None) -> None:
        """
        Dispatch, time out and call back until cancelled, or until ``stop`` is set.
        """
        await self.new_worker().run(stop if stop is not None else asyncio.Event())

    def new_worker(self) -> Worker:
        """
        The three loops, not yet running; ``beats`` and ``healthy`` tell how they fare.
        """
        ledger = self._ledger
        return Worker(ledger.dispatcher, ledger.sweeper, ledger.courier, ledger.pubsub)

    # Responses

    def acknowledge(
        self,
        notification_id: Id,
        *,
        actor: str,
        dismiss: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> AckResponse:
        """
        Answer an obligation as ``actor``.

        Raises:
            ValueError: no actor, or metadata that is not JSON.
            KeyError: no such notification.
            Conflict: the deadline has passed, no answer is awaited, or somebody else gave one.
        """
        answer = Answer(
            to=Ack.DISMISSED if dismiss else Ack.ACKED,
            actor=str(_name(actor, "actor")),
            metadata=_metadata(metadata),
            callback=self._ledger.courier is not None,
        )
        plan = response.respond(_known(notification_id), answer, self._ledger.sources.ids())
        return views.answered(self._call(plan))

    def withdraw(self, notification_id: Id, *, actor: str) -> SendNotificationResponse:
        """
        Take an obligation back: nothing more of it is sent, and nobody need answer.

        Raises:
            ValueError: no actor.
            KeyError: no such notification.
            Conflict: it is owned by another notification, or has ended.
        """
        plan = response.withdraw(
            _known(notification_id),
            actor=str(_name(actor, "actor")),
            operator=True,  # the host is trusted; doors with credentials decide for themselves
            callback=self._ledger.courier is not None,
            ids=self._ledger.sources.ids(),
        )
        row = self._call(plan)
        return self._sent(row, replayed=False)

    def expire(self, *, now: float | None = None) -> None:
        """
        Time out up to a hundred responses with ``deadline <= now`` (Unix seconds, else the clock's).
        """
        callback = self._ledger.courier is not None
        self._call(response.expire(at=now, callback=callback, ids=self._ledger.sources.ids()))

    async def wait(
        self,
        notification_id: Id,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the documented name; ends with an answer, not an error
    ) -> Projection:
        """
        The response view once the canonical owner's response is terminal, or at the timeout as it is.

        Also returns at once when no answer can come any more. ``timeout`` is in seconds.
        """
        ledger = self._ledger
        return await wait_for_answer(_known(notification_id), ledger.insistent, ledger.pubsub, timeout)

    # Recovery

    def replay(self, notification_id: Id, *, actor: str) -> None:
        """
        Begin a new delivery cycle of a dead letter.

        Raises:
            ValueError: no actor.
            KeyError: no such notification.
            Conflict: it is no dead letter, or its obligation lives on elsewhere.
        """
        id, name = _known(notification_id), str(_name(actor, "actor"))
        cycle = self._ledger.store.read(recovery.dead_letter_cycle(id))
        self._call(recovery.replay(id, actor=name, cycle=cycle, ids=self._ledger.sources.ids()))

    def resolve_failure(self, notification_id: Id, *, actor: str) -> bool:
        """
        Clear a dead letter after remediation outside. False when it is unknown or none.

        Raises:
            ValueError: no actor.
        """
        name = str(_name(actor, "actor"))
        id = _id(notification_id)
        if id is None:
            return False
        return self._call(recovery.resolve_failure(id, actor=name, ids=self._ledger.sources.ids()))

    def dead_letters(self) -> list[dict[str, Any]]:
        """
        Every dead letter, oldest first, with what blocks its replay.
        """
        letters: list[dict[str, Any]] = []
        after = (0.0, "")
        while page := self._ledger.store.read(recovery.dead_letters(PAGE, after)):
            letters += map(views.dead_letter_dict, page)
            after = (page[-1].row.accepted_at, page[-1].row.id)
        return letters

    # Callbacks

    async def deliver_callbacks(self) -> None:
        """
        Deliver up to a hundred due callbacks, each within ten seconds.
        """
        if self._ledger.courier is not None:
            await self._ledger.courier.deliver(RUN_ONCE)

    def exhausted_callbacks(self) -> list[dict[str, Any]]:
        """
        Callbacks that failed three times and wait for an operator.
        """
        return [views.event_dict(e) for e in self._ledger.store.read(callbacks.exhausted(PAGE))]

    def rearm_callback(self, event_id: Id) -> bool:
        """
        Give an exhausted callback three fresh attempts. False when it is not exhausted.

        Raises:
            KeyError: no such event.
        """
        return self._call(callbacks.rearm(_known(event_id)))

    # Reading

    def get(self, notification_id: Id) -> dict[str, Any]:
        """
        The stored row by column names, with the response projection.

        Raises:
            KeyError: no such notification.
        """
        return views.view_dict(self._ledger.store.read(reading.view(_known(notification_id))))

    def status(self, notification_id: Id) -> SendNotificationResponse:
        """
        The stored state in the form that ``send`` replies with.

        Raises:
            KeyError: no such notification.
        """
        found = self._ledger.store.read(reading.view(_known(notification_id)))
        return views.sent(found.row, found.projection, replayed=False)

    def events(self, notification_id: Id) -> list[dict[str, Any]]:
        """
        The timeline in the order it was written.

        Raises:
            KeyError: no such notification.
        """
        found = self._ledger.store.read(reading.timeline(_known(notification_id)))
        return [views.event_dict(event) for event in found]

    def response(self, notification_id: Id) -> Projection:
        """
        The response projection alone.

        Raises:
            KeyError: no such notification.
        """
        return self._ledger.store.read(reading.response(_known(notification_id)))

    # Policies

    def reload_policies(
        self,
        policy_dir: str | os.PathLike[str],
        *,
        actor: str = "local-operator",
        allow_gaps: bool = False,
    ) -> PolicyReload:
        """
        Put the policies of a folder in force as the whole set, or change nothing.

        Raises:
            KeyError: there is no such folder.
            ValueError: a file is wrong; the message names file, line and key.
            Conflict: a promotion by file, or a type in use would lose its policy.
        """
        registered: Sequence[str] = tuple(self._adapters.names()) if self._adapters is not None else ()
        plan = policies.activate(
            PolicyFolder(Path(policy_dir)).load(),
            packaged=packaged_policies(),
            actor=actor,
            known_channels=registered,
            allow_gaps=allow_gaps,
        )
        return self._call(plan)

    def _sent(self, row: Notification, *, replayed: bool) -> SendNotificationResponse:
        if onward(row) is None:
            return views.sent(row, views.own_projection(row), replayed=replayed)
        return views.sent(row, self._ledger.store.read(reading.response(row.id)), replayed=replayed)

    def _call(self, plan: Plan[T]) -> T:
        # ``Insistent`` for callers without an event loop: same ids until the store answers.
        until, pause = time.monotonic() + self._ledger.insistent.patience_seconds, FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._ledger.commits.call(plan)
            except (Busy, Closed):
                raise
            except StoreUnavailable:
                if time.monotonic() + pause >= until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _id(value: Id) -> str | None:
    try:
        return str(value if isinstance(value, UUID) else UUID(value))
    except (ValueError, AttributeError, TypeError):
        return None


def _known(value: Id) -> str:
    id = _id(value)
    if id is None:
        raise NotFound
    return id


def _metadata(value: dict[str, Any] | None) -> str | None:
    if value is None:
        return None
    return msgspec.json.encode(json_object(value, "metadata")).decode()
