"""
The observer of a run: sees every commit and every call, remembers, and checks as it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from simulation import steps, structure
from simulation.commits import name_of
from simulation.counting import occurrences
from simulation.reruns import same_again
from simulation.step import Memory, Step
from simulation.truth import Call, Told
from simulation.world import LEASE, World
from uns.adapters.memory.queries import CopiesBy
from uns.core.rules.ack import Answer
from uns.core.rules.callbacks import CALLBACK_ATTEMPTS
from uns.core.rules.lease import Claim
from uns.core.rules.lineage import onward
from uns.ports.channel import ChannelMessage
from uns.ports.errors import Conflict, StoreUnavailable, UnsError
from uns.ports.queries import CopiesOfLine
from uns.ports.rows import DedupWindow, Event, Notification
from uns.ports.store import Plan, Tx
from uns.ports.vocabulary import Status

if TYPE_CHECKING:
    from simulation.process import Process


class Watch:
    """
    Hears of everything; a broken promise ends the run.
    """

    def __init__(self, world: World) -> None:
        self.memory = Memory()
        self._world = world
        self._truth = world.truth
        self._claimed: dict[str, str] = {}
        self._called: set[tuple[str, str]] = set()
        self._once: dict[Callable[..., Any], Any] = {}
        self._heard: dict[tuple[str, int], bool] = {}

    # The ledger, read from outside

    def rows(self) -> Mapping[str, Notification]:
        return self._table(Notification)

    def row(self, id: str) -> Notification | None:
        return self.rows().get(id)

    def events(self) -> Mapping[str, Event]:
        return self._table(Event)

    def _table(self, kind: type) -> Mapping[str, Any]:
        return self._world.store.tables.get(kind, {})

    # Commits

    def before(self) -> None:
        """
        A transaction is about to run.
        """
        self._old = dict(self.rows())
        self._old_windows = dict(self._table(DedupWindow))
        self._old_copies = dict(self._table(CopiesBy))
        self._old_events = dict(self.events())

    def committed(self, process: Process, plan: Plan[Any], reply: Any, *, lost: bool) -> None:
        """
        It was committed with this reply, whose way back may be ``lost``.
        """
        self._check_step(process, name_of(plan))
        if (first := self._once.get(plan.run)) is not None:
            self._world.occurred(f"committed twice: {name_of(plan)}")
            self._broken(same_again(first, reply, self._held))
        elif lost:
            self._once[plan.run] = reply if reply is not None else _NOTHING
        if name_of(plan) == "claim_due" and not lost:
            self._claimed.update({claim.token: process.name for claim in reply})

    def refused(self, plan: Plan[Any], error: UnsError) -> None:
        """
        It raised; nothing was written.
        """
        if plan.run in self._once and not isinstance(error, StoreUnavailable):
            self._broken([f"R6 {name_of(plan)} was committed, and when it ran again it said: {error}"])

    def _check_step(self, process: Process, name: str) -> None:
        new, windows = self.rows(), self._table(DedupWindow)
        step = Step(
            old=self._old,
            new=new,
            old_windows=self._old_windows,
            windows=windows,
            old_copies=self._old_copies,
            copies=self._table(CopiesBy),
            changes=[(self._old.get(id), row) for id, row in new.items() if self._old.get(id) is not row],
            events=list(islice(self.events().values(), len(self._old_events), None)),
        )
        if name == "callback settle":
            self._check_callbacks()
        if not (step.changes or step.events):
            return
        for event in step.events:
            self._world.note(process.name, f"{name}: {event.kind}", event)
        for what in occurrences(step):
            self._world.occurred(what)
        for check in steps.EVERY_STEP:
            self._broken(check(step, self.memory))
        if step.changes:
            for check_change in structure.EVERY_CHANGE:
                self._broken(check_change(step))

    def _held(self, claim: Claim) -> bool:
        row = self.rows()[claim.id]
        return row.lease_token == claim.token and row.lease_until > self._world.instant

    def _check_callbacks(self) -> None:
        for event in self.events().values():
            before = self._old_events[event.id]
            went_well = self._heard.get((event.id, before.callback_attempts))
            if event is not before and went_well is event.callback_pending:
                self._truth.violated("what a callback came to was recorded wrongly")

    def _broken(self, findings: Any) -> None:
        for finding in findings:
            self._truth.violated(finding)

    # Calls

    def carries(self, claim: Claim) -> None:
        """
        A process takes a claim up.
        """
        self._claimed.pop(claim.token, None)

    def carried(self, claim: Claim, row: Notification | None) -> None:
        """
        A process believes that it has brought a claim to its end.
        """
        settled, lost = claim.token in self.memory.settled, claim.token in self.memory.lost
        if row is None and not lost:
            self._truth.violated("an attempt ended without settlement, and without LEASE_LOST")
        if row is not None and not settled:
            self._truth.violated("R6 an attempt is believed to be settled, and is not")

    def ended(self, process: Process) -> None:
        """
        A process has ended in order, and in time.
        """
        if process.name in self._claimed.values():
            self._truth.violated("a process that ended in time forgot what it had claimed")

    def calls(self, process: Process, channel: str, message: ChannelMessage, *, rude: bool) -> Call:
        """
        A channel call begins.
        """
        id, token, now = message.notification.id, LEASE.get(), self._world.loop.time()
        call = Call(id, channel, token, process.name, started=now, limit=message.deadline, rude=rude)
        self._world.note(process.name, f"calls {channel}", (id, token))
        if (token, channel) in self._called:
            self._truth.violated("one attempt called a channel twice")
        self._called.add((token, channel))
        self._check_alone(call)
        self._truth.calls.append(call)
        return call

    def _check_alone(self, call: Call) -> None:
        row, wall = self.rows()[call.id], self._world.now()
        if row.lease_token not in (None, call.token) and row.lease_until > wall:
            self._world.occurred("a call under another's lease")
            if self._world.weather.fair:
                self._truth.violated("a call was started while another lease was valid")
        for other in self._truth.calls:
            open_still = other.ended is None and not other.rude
            if other.id == call.id and other.token != call.token and open_still:
                self._world.occurred("two calls at once")
                if self._world.weather.fair:
                    self._truth.violated("B03 two calls for one notification at once, within the bounds")

    def refuses(self, call: Call) -> None:
        """
        A provider says that no later call can succeed.
        """
        self.memory.refused.add(call.token)

    def tells(self, event: dict[str, Any]) -> None:
        """
        A callback is about to be called.
        """
        if event["attempt"] > CALLBACK_ATTEMPTS:
            self._truth.violated("a callback is called more than three times")
        if not self.events()[event["id"]].callback_pending:
            self._world.occurred("a callback was repeated")
            if self._world.weather.fair:
                self._truth.violated("a callback is called again that is on record as made")

    def told(self, event: dict[str, Any], well: bool) -> None:
        """
        A callback was called.
        """
        self._heard[event["id"], event["attempt"]] = well
        self._truth.told.append(Told(event["id"], self._world.loop.time(), well))
        self._world.note("callback", "well" if well else "badly", event["notification_id"])
        self._world.occurred("a callback went well" if well else "a callback failed")

    # Doors

    def accepted(self, key: str, row: Notification, *, replayed: bool) -> None:
        """
        A producer was told that its request ``key`` is accepted as ``row``.
        """
        first = self._truth.accepted.setdefault(key, row.id)
        if first != row.id:
            self._truth.violated("two notifications for one idempotency key")
        if row.id not in self.rows():
            self._truth.violated("a request was accepted that is not stored")
        if replayed:
            self._world.occurred("an idempotent replay")

    def answering(self, plan: Plan[Notification], id: str, answer: Answer) -> Plan[Notification]:
        """
        ``plan``, watched: no answer may be refused that proves delivery, or repeats what was said.
        """

        @wraps(plan.run)
        def run(tx: Tx) -> Notification:
            row = tx.get(Notification, id)
            assert row is not None
            try:
                answered = plan.run(tx)
                if onward(row) is not None:
                    self._truth.violated("a row that is not its own owner took an answer")
                return answered
            except Conflict:
                asked = row.status is Status.PENDING and row.leads and row.effective.require_ack
                if asked and tx.find(CopiesOfLine(id)):
                    self._truth.violated("P11 an answer is refused of someone who has the message")
                if (row.ack_status, row.actor) == (answer.to, answer.actor):
                    self._truth.violated("an answer is refused to the one who gave it")
                raise

        return replace(plan, run=run)


_NOTHING = object()
