"""
Runtimes on a database of their own.
"""

from kit.runtimes import channel, clock, in_force, open_runtime, runtime, url

__all__ = ["channel", "clock", "in_force", "open_runtime", "runtime", "url"]
