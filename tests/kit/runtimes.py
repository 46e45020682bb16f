"""
Runtimes as a host opens them: a database URL, policy files, adapters by name, a clock.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kit.channels import ScriptedChannel
from kit.stores import postgres_ledger
from uns import Runtime, SimpleAdapterRegistry
from uns.adapters.sources import ManualClock

PRINCIPAL = "agent-7"
LEASE_SECONDS = 60.0

Document = dict[str, Any]
Opener = Callable[..., Runtime]


def a_document(policy_id: str = "ops", **settings: Any) -> Document:
    """
    An ACTIVE policy for everything that needs no answer and coalesces nothing, sent to PAGER.
    """
    plain: Document = {
        "policy_id": policy_id,
        "notification_type": "*",
        "status": "ACTIVE",
        "delivery_mode": "GUARANTEED",
        "require_ack": False,
        "dedup_window_seconds": 0,
        "channels": {"primary": ["PAGER"]},
    }
    return plain | settings


def policy_folder(folder: Path, *documents: Document) -> Path:
    """
    A folder with one file for each policy. JSON is YAML too.
    """
    folder.mkdir()
    for document in documents:
        (folder / f"{document['policy_id']}.yaml").write_text(json.dumps(document))
    return folder


def kinds_of(runtime: Runtime, id: Any) -> list[str]:
    """
    The timeline of a notification, kinds only.
    """
    return [event["kind"] for event in runtime.events(id)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """
    A database of its own for each test: a file, or what ``indirect`` says, "memory" or "postgres".
    """
    kind = getattr(request, "param", "file")
    if kind == "memory":
        yield "sqlite://"
    elif kind == "postgres":
        with postgres_ledger() as url:
            yield url
    else:
        shutil.copy(_new_database(), tmp_path / "uns.db")
        yield f"sqlite:///{tmp_path / 'uns.db'}"


ON_BOTH = pytest.mark.parametrize("url", ["file", "postgres"], indirect=True)
"""Runs a test, or a module, on a SQLite file and on PostgreSQL."""


@functools.cache
def _new_database() -> Path:
    """
    The file of a new database, made once: the schema is half of what a short test costs.
    """
    folder = Path(tempfile.mkdtemp(prefix="uns-database-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Runtime(f"sqlite:///{folder / 'new.db'}", create_tables=True).close()
    return folder / "new.db"


@pytest.fixture
def in_force(tmp_path: Path) -> Callable[..., Path]:
    """
    Puts these policies in force as the whole set.
    """
    folders = count()

    def in_force(runtime: Runtime, *documents: Document) -> Path:
        folder = policy_folder(tmp_path / f"policies{next(folders)}", *documents)
        runtime.reload_policies(folder, allow_gaps=True)
        return folder

    return in_force


@pytest.fixture
def open_runtime(url: str, clock: ManualClock) -> Iterator[Opener]:
    """
    Opens runtimes on the test's database and closes them afterwards.
    """
    with ExitStack() as opened:

        def open_runtime(
            adapters: SimpleAdapterRegistry | Mapping[str, Any] | None = None, **options: Any
        ) -> Runtime:
            plain = {"create_tables": True, "clock": clock.now}
            known = isinstance(adapters, SimpleAdapterRegistry)
            registry = adapters if known else SimpleAdapterRegistry(adapters)
            return opened.enter_context(Runtime(url, adapters=registry, **(plain | options)))

        yield open_runtime


@pytest.fixture
def channel() -> ScriptedChannel:
    """
    The adapter behind PAGER: it succeeds.
    """
    return ScriptedChannel()


@pytest.fixture
def runtime(open_runtime: Opener, in_force: Callable[..., Path], channel: ScriptedChannel) -> Runtime:
    """
    One runtime with one policy: everything goes to ``channel``.
    """
    runtime = open_runtime({"PAGER": channel})
    in_force(runtime, a_document())
    return runtime
