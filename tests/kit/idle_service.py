"""
The service that the environment describes, without a worker inside: it accepts, and others send.
"""

import os

from dependency_injector import providers

from uns.entrypoints.container import Container
from uns.entrypoints.http.app import create_app
from uns.entrypoints.settings import read_settings

app = create_app(Container(settings=providers.Object(read_settings(os.environ))), work=False)
