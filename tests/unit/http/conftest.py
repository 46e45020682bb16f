"""
The service on a database of its own.
"""

from kit.runtimes import channel, clock, in_force, open_runtime, url
from kit.web import serving, web

__all__ = ["channel", "clock", "in_force", "open_runtime", "serving", "url", "web"]
