"""
The storage socket: plans run inside transactions, decisions are applied whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from uns.ports.decision import Decision, Row
from uns.ports.queries import Query

T = TypeVar("T")
R = TypeVar("R", bound=Row)
Q = TypeVar("Q")


class Tx(Protocol):
    """
    One open transaction. A plan asks its queries before it applies anything.

    Afterwards ``get``, ``WithKey``, ``CopiesOf`` and ``DedupKeyOf`` see its own changes and events;
    other queries raise ``AssertionError``. What a sweep moved is seen from the next plan on.

    Locks are taken in one order: policy authority, dedup windows by key, notifications, copies
    and events. A plan reads in that order; what it has is locked until commit, also when absent.
    """

    @property
    def now(self) -> float:
        """
        Unix seconds, read once, after the locks are held.
        """
        ...

    def get(self, kind: type[R], key: str) -> R | None:
        """
        The row with this primary key, locked. Snapshots and contents are immutable: never locked.
        """
        ...

    def find(self, query: Query[Q]) -> Sequence[Q]:
        """
        The answer to one query of the closed union above.
        """
        ...

    def apply(self, decision: Decision[T]) -> T:
        """
        Write all of ``decision`` and hand back its reply.

        An event whose id exists already is left as it is.

        Raises:
            Stale: a row no longer equals its ``before`` image.
        """
        ...


class Wants(Struct, frozen=True, gc=False, kw_only=True):
    """
    Rows that a plan will probably read. A wrong guess costs a query, never the truth.

    ``groups`` are notification ids whose dedup window is wanted too, its key still unknown.
    ``policy`` takes the policy authority shared; ``activates`` takes it exclusively, in a
    transaction of its own.
    """

    policy: bool = False
    activates: bool = False
    windows: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()


class Lane(Struct, frozen=True):
    """
    Which queue a plan waits in: plans that finish work go before plans that start it.
    """

    finishing: bool


FINISHING = Lane(True)
STARTING = Lane(False)


class Plan(Struct, Generic[T], frozen=True):
    """
    Work for one transaction: sync, free of effects but for ``tx``, safe to run again.
    """

    run: Callable[[Tx], T]
    wants: Wants = Wants()
    lane: Lane = FINISHING


def idle() -> None:
    """
    Nothing to do meanwhile.
    """


class Store(Protocol):
    """
    A database that runs plans.
    """

    def transact(self, plan: Plan[T]) -> T:
        """
        Run one plan in its own transaction, and raise what it raises.

        Raises:
            StoreUnavailable: the store did not answer. Whether the plan was committed is
                unknown: run the same plan again.
        """
        ...

    def transact_many(self, plans: Sequence[Plan[Any]], meanwhile: Callable[[], None] = idle) -> list[Any]:
        """
        Run plans in order under one commit.

        Each plan is atomic: one that raises leaves nothing, and its neighbours commit. Later
        plans see what earlier ones did.

        Args:
            meanwhile: something quick that others wait for; called, however often, where the store
                is about to wait itself (for a lock, for the disk) or to move many rows.

        Returns:
            One entry per plan: its reply, or the exception it raised. ``StoreUnavailable`` in
            every entry when the outcome of the whole group is unknown.
        """
        ...

    def read(self, plan: Plan[T]) -> T:
        """
        Run a plan that applies nothing, on a consistent snapshot and without locks.
        """
        ...

    def close(self) -> None:
        """
        Release the connections. Idempotent.
        """
        ...
