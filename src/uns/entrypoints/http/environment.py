"""
The application that the environment describes, made when a server first asks for it.
"""

from __future__ import annotations

import os
from functools import cache

from dependency_injector import providers
from litestar import Litestar

from uns.entrypoints.collector import spare_the_collector
from uns.entrypoints.container import Container
from uns.entrypoints.http.app import create_app
from uns.entrypoints.logs import set_up_logs
from uns.entrypoints.settings import read_settings
from uns.entrypoints.starting import put_in_force
from uns.ports.errors import UnsError


@cache
def app() -> Litestar:
    """
    One application for a process, a worker inside.

    Raises:
        SystemExit: it cannot be made; one line says why. Whoever serves it would print a stack.
    """
    set_up_logs()
    try:
        settings = read_settings(os.environ)
        container = Container(settings=providers.Object(settings))
        made = create_app(container)
        put_in_force(container.runtime(), settings)
    except UnsError as error:
        raise SystemExit(f"uns: {error}") from None
    spare_the_collector()
    return made
