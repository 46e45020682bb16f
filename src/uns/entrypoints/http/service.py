"""
What handlers work with.
"""

from __future__ import annotations

from msgspec import Struct

from uns.core.loops.submitter import Submitter
from uns.core.loops.worker import Worker
from uns.entrypoints.sdk import Runtime
from uns.entrypoints.settings import Settings


class HttpService(Struct, frozen=True, kw_only=True):
    """
    The parts of the process behind the routes. ``worker`` is None where another process works.
    """

    settings: Settings
    runtime: Runtime
    submitter: Submitter
    worker: Worker | None
