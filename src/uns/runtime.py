"""
Alias of documented names; they live in ``uns.entrypoints.sdk`` and ``uns.ports.errors``.
"""

from uns.entrypoints.sdk import Runtime
from uns.ports.errors import Conflict

__all__ = ["Conflict", "Runtime"]
