"""
Runtimes, and services, on a database of their own.
"""

from kit.runtimes import channel, clock, in_force, open_runtime, runtime, url
from kit.web import serving, web
from kit.webhooks import hooking, sending

__all__ = [
    "channel",
    "clock",
    "hooking",
    "in_force",
    "open_runtime",
    "runtime",
    "sending",
    "serving",
    "url",
    "web",
]
