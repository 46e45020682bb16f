"""
``make run``: the service on an embedded SQLite database, with a worker inside.
"""

from __future__ import annotations

import logging
import os
import sys

import uvicorn

from uns.entrypoints.http.app import create_app
from uns.entrypoints.sdk import Runtime
from uns.entrypoints.settings import Settings, read_settings
from uns.ports.errors import UnsError

GRACE_SECONDS = 5
ATTEMPTS, RETRY_SECONDS = 10, 2.0

_WELCOME = """\
uns listens on {url}, database {database}

Send a notification, then look at it:

  curl -s {url}/api/v1/notifications -d '{{
    "notification_type": "ask.demo", "intent": "OPERATIONAL", "source": "readme",
    "title": "May I restart the cache?", "message": "Latency is up since 09:00.",
    "autonomy_context": {{"autonomy_mode": "LIVE", "agent_id": "2c5f9b4c-6b3e-4d1a-9c12-4a8f0c8e7b11"}}}}'

  curl -s {url}/api/v1/notifications/<notification_id>
"""


def main() -> int:
    """
    Serve until told to stop. Returns the exit status.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = read_settings(os.environ)
        runtime = Runtime(
            settings.database_url, create_tables=True, max_attempts=ATTEMPTS, retry_seconds=RETRY_SECONDS
        )
    except UnsError as error:
        print(f"uns: {error}", file=sys.stderr)  # noqa: T201 - the terminal is this door's face
        return 1
    _serve(settings, runtime)
    return 0


def _serve(settings: Settings, runtime: Runtime) -> None:
    url = f"http://{settings.host}:{settings.port}"
    print(_WELCOME.format(url=url, database=settings.database_url))  # noqa: T201
    uvicorn.run(
        create_app(runtime),
        host=settings.host,
        port=settings.port,
        log_config=None,
        # Without a limit an open stream would keep the process from ending.
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


if __name__ == "__main__":
    sys.exit(main())
