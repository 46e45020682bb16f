"""
``uns worker``: the three loops without HTTP, until told to stop.
"""

from __future__ import annotations

import asyncio
import logging
import os

from cyclopts import App

from uns.core.loops.worker import Worker
from uns.entrypoints.cli.exits import Exit
from uns.entrypoints.cli.ledger import settings_of
from uns.entrypoints.cli.stopping import SIGNALS, end_by, stop_while_starting

_log = logging.getLogger(__name__)


def register(app: App) -> None:
    """
    Add the command.
    """
    app.command(worker)


def worker() -> int:
    """
    Send, time out and call back, without HTTP. Needs no keys.
    """
    stop_while_starting()
    settings = settings_of(dict(os.environ))
    from uvicorn.loops.auto import auto_loop_factory

    from uns.entrypoints.cli.database import container_of, place_of
    from uns.entrypoints.collector import spare_the_collector
    from uns.entrypoints.logs import set_up_logs

    set_up_logs()
    container = container_of(settings, create_tables=True)
    spare_the_collector()
    _log.info("working on the database %s", place_of(settings.database_url))
    try:
        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            runner.run(_work(container.worker()))
    finally:
        container.runtime().close()
    _log.info("stopped")
    return Exit.DONE


async def _work(worker: Worker) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def on_stop() -> None:
        end_by()
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_stop)
    await worker.run(stop)
