"""
Alias of a documented name: ``uvicorn uns.app:app`` serves what the environment describes.
"""

from typing import Any

from uns.entrypoints.http import environment


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(name)
    return environment.app()
