"""
The Python face: ``Runtime``, put together from what its callers do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from uns.entrypoints.sdk.operating import Operating
from uns.entrypoints.sdk.reading import Reading
from uns.entrypoints.sdk.sending import Sending
from uns.entrypoints.wiring import Ledger, Options, open_ledger
from uns.ports.callback import Callback
from uns.ports.channel import ChannelRegistry

__all__ = ["Runtime"]


class Runtime(Sending, Operating, Reading):
    """
    A durable ledger of obligations, and the dispatcher of them.

    Its sync methods work from any thread, its async ones on any event loop. Close it when done, or
    use it as a context manager.

    Args:
        database_url: ``sqlite:///path``, ``sqlite://`` for one that lives in memory, or
            ``postgresql://user@host/database`` (``pip install 'uns[postgres]'``).
        adapters: channel adapters by name, over the built-in LOG and RECORDING.
        create_tables: create or migrate the schema, and load the packaged policies if there are none.
        max_attempts: attempts per delivery cycle where the policy names no number.
        retry_seconds: the first backoff; it doubles up to 300 s.
        clock: Unix seconds; used for every decision. Without one, decisions on PostgreSQL go by the
            database's clock.
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
