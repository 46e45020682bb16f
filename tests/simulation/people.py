"""
Everybody outside the service who acts on it: producers, people who answer, operators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from simulation.process import Disconnected, Process
from simulation.scenario import PRINCIPAL, Scenario, request_about
from simulation.watch import Watch
from simulation.world import World
from uns.core.plans import callbacks, reading, recovery, response
from uns.core.rules.ack import Answer
from uns.ports.errors import Conflict, NotFound, StoreUnavailable
from uns.ports.requests import SendNotificationRequest
from uns.ports.rows import Event, Notification
from uns.ports.vocabulary import Ack

T = TypeVar("T")
Work = Callable[[Process], Awaitable[T]]

PEOPLE = ("ann", "bob", "cyd")


class Outside:
    """
    What all of them do alike: find a door that works, and try again when it breaks.
    """

    def __init__(self, world: World, watch: Watch) -> None:
        self.world = world
        self.watch = watch

    async def ask(self, work: Work[T], tries: int = 8) -> T | None:
        """
        Have some process do ``work``; None when no door answered.
        """
        for _ in range(tries):
            alive = self.world.alive()
            if alive:
                try:
                    return await self.world.chance.choice(alive).serve(work)
                except (Disconnected, StoreUnavailable):
                    self.world.occurred("a door broke")
            await asyncio.sleep(self.world.within(8.0))
        return None


class Producers(Outside):
    """
    They send each request until somebody says that it is accepted, and now and then once more.
    """

    def __init__(self, world: World, watch: Watch, scenario: Scenario) -> None:
        super().__init__(world, watch)
        self._scenario = scenario
        self._requests = 0

    async def work(self) -> None:
        for at, size in sorted(self._scenario.bursts):
            await asyncio.sleep(max(at - self.world.loop.time(), 0.0))
            topic = self.world.chance.choice(self._scenario.topics)
            for _ in range(size):
                self._requests += 1
                self.world.outsider(self._produce(request_about(topic, self._requests)))

    def ring_again(self, row: Notification) -> None:
        """
        What was the matter with ``row`` still is.
        """
        topic = row.notification_type.removeprefix("sim."), row.content["dedup_key"]
        self._requests += 1
        self.world.outsider(self._produce(request_about(topic, self._requests)))

    async def _produce(self, request: SendNotificationRequest) -> None:
        await asyncio.sleep(self.world.within(4.0))
        first = await self._send(request)
        if first is not None and self.world.happens(0.15):
            await asyncio.sleep(self.world.within(60.0))
            await self._send(request)
        if first is not None and self.world.happens(0.2):
            await self._dispatch(first)
        if first is not None and self.world.happens(0.05):
            await self._misuse(request)

    async def _send(self, request: SendNotificationRequest) -> str | None:
        at_once = self.world.happens(0.6)

        async def send(process: Process) -> tuple[Notification, bool]:
            if at_once:
                sent = await process.sender.send(request, PRINCIPAL)
                return sent.row, sent.replayed
            taken = await process.insistent.run(process.intake.accept(request, PRINCIPAL))
            return taken.accepted.row, taken.accepted.replayed

        answer = await self.ask(send)
        if answer is None:
            return None
        row, replayed = answer
        self.watch.accepted(str(request.idempotency_key), row, replayed=replayed)
        return row.id

    async def _dispatch(self, id: str) -> None:
        async def dispatch(process: Process) -> bool:
            return await process.dispatcher.dispatch(id)

        if await self.ask(dispatch):
            self.world.occurred("dispatched by hand")

    async def _misuse(self, request: SendNotificationRequest) -> None:
        # The same idempotency key with another message is never accepted.
        kind = request.notification_type.removeprefix("sim.")
        other = request_about(
            (kind, str(request.dedup_key)), 0, idempotency_key=request.idempotency_key, title="x"
        )

        async def send(process: Process) -> None:
            try:
                await process.insistent.run(process.intake.accept(other, PRINCIPAL))
            except Conflict:
                self.world.occurred("a key reused for another request")
            else:
                self.world.truth.violated("a reused idempotency key was accepted for another request")

        await self.ask(send)


class Responders(Outside):
    """
    They answer what reached them, as soon as it did: mostly through the owner, as webhooks do.
    """

    def delivered(self, id: str) -> None:
        """
        A message has reached the people.
        """
        row = self.watch.row(id)
        if row is None or not row.effective.require_ack or self.world.calm:
            return
        for person in PEOPLE[: self.world.chance.choice((0, 1, 1, 1, 2))]:
            self.world.outsider(self._respond(id, person))

    async def _respond(self, id: str, person: str) -> None:
        # At once, soon, or about when the time is up.
        await asyncio.sleep(self.world.within(self.world.chance.choice((0.3, 0.6, 10.0, 90.0))))
        await self._until_the_last_moment(id)
        to = Ack.ACKED if self.world.happens(0.7) else Ack.DISMISSED
        for _ in range(self.world.chance.choice((1, 1, 2, 3))):
            target = id if self.world.happens(0.2) else await self._owner(id)
            if target is not None:
                await self._answer(target, to, person)
            await asyncio.sleep(self.world.within(6.0))

    async def _until_the_last_moment(self, id: str) -> None:
        row = self.watch.row(id)
        if row is None or row.deadline is None or self.world.happens(0.6):
            return
        left = row.deadline - self.world.wall(self.world.store_offset)
        await asyncio.sleep(max(left + self.world.chance.uniform(-3.0, 3.0), 0.0))

    async def _owner(self, id: str) -> str | None:
        async def look(process: Process) -> str | None:
            projection = await process.insistent.read(reading.response(id))
            owner = projection.obligation_owner_id
            return None if owner is None else str(owner)

        return await self.ask(look)

    async def _answer(self, id: str, to: Ack, person: str) -> None:
        async def respond(process: Process) -> None:
            answer = Answer(to=to, actor=person, callback=True)
            plan = self.watch.answering(response.respond(id, answer, process.ids()), id, answer)
            try:
                await process.insistent.run(plan)
            except Conflict:
                self.world.occurred("an answer refused")

        await self.ask(respond)


class Operators(Outside):
    """
    They look after dead letters and callbacks, and take things back.

    Args:
        replayed: told of each row that was replayed.
    """

    def __init__(self, world: World, watch: Watch, replayed: Callable[[Notification], None]) -> None:
        super().__init__(world, watch)
        self._replayed = replayed

    async def work(self, look_seconds: float) -> None:
        while not self.world.calm:
            await asyncio.sleep(self.world.within(look_seconds))
            if self.world.calm:
                return
            if self.world.happens(0.7):
                await self._tend()
            else:
                await self._withdraw()

    async def make_good(self) -> None:
        """
        Replay every dead letter and make every callback once more.
        """
        for letter in await self._dead_letters():
            await self._replay(letter.row)

        async def look(process: Process) -> list[Event]:
            return await process.insistent.read(callbacks.exhausted(50))

        for event in await self.ask(look) or []:
            await self._rearm(event.id)

    async def _tend(self) -> None:
        gives_up = self.world.happens(0.2)
        for letter in await self._dead_letters():
            if gives_up and letter.row.dedup_successor_id is None:
                await self._resolve(letter.row.id)  # and with it the line that ends here
            # Mostly what the list says can be replayed; sometimes in spite of it.
            elif self.world.happens(0.3 if letter.blocked is not None else 0.7):
                await self._replay(letter.row)
            elif self.world.happens(0.25):
                await self._resolve(letter.row.id)

    async def _dead_letters(self) -> list[recovery.DeadLetter]:
        async def look(process: Process) -> list[recovery.DeadLetter]:
            return await process.insistent.read(recovery.dead_letters(50))

        letters = await self.ask(look) or []
        self.world.chance.shuffle(letters)
        return letters

    async def _rearm(self, id: str) -> None:
        async def rearm(process: Process) -> None:
            await process.insistent.run(callbacks.rearm(id))

        await self.ask(rearm)

    async def _replay(self, row: Notification) -> None:
        async def replay(process: Process) -> None:
            try:
                await process.insistent.run(
                    recovery.replay(row.id, actor="ops", cycle=row.cycle, ids=process.ids())
                )
            except Conflict:
                self.world.occurred("a replay refused")

        await self.ask(replay)
        if self.world.happens(0.4) and not self.world.calm:
            self._replayed(row)

    async def _resolve(self, id: str) -> None:
        async def resolve(process: Process) -> None:
            await process.insistent.run(recovery.resolve_failure(id, actor="ops", ids=process.ids()))

        await self.ask(resolve)

    async def _withdraw(self) -> None:
        rows = self.watch.rows()
        if not rows or self.world.happens(0.5):
            return
        id = self.world.chance.choice(list(rows))

        async def withdraw(process: Process) -> None:
            plan = response.withdraw(id, actor="ops", operator=True, callback=True, ids=process.ids())
            try:
                await process.insistent.run(plan)
            except (Conflict, NotFound):
                self.world.occurred("a withdrawal refused")

        await self.ask(withdraw)
