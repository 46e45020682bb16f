"""
The socket that a service listens on, taken before anything else is begun.
"""

from __future__ import annotations

import errno
import socket

from uns.entrypoints.cli.exits import Failed

BACKLOG = 2048

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


def listening(host: str, port: int) -> socket.socket:
    """
    A socket that listens; whoever connects before the service is ready waits.

    Args:
        port: 0 for any that is free.

    Raises:
        Failed: the port is taken, or the host is not ours.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):  # no such name, or none that there can be
        raise Failed(f"there is no host {host}: use --host, or UNS_HOST, with one of this machine") from None
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(BACKLOG)
    except OSError as error:
        taken.close()
        raise Failed(_told(error, host, port)) from None
    taken.setblocking(False)
    return taken


def url_of(taken: socket.socket) -> str:
    """
    Where a browser on this machine finds it.
    """
    host, port = taken.getsockname()[:2]
    host = _EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _told(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is taken: stop what listens there or use --port"
        case errno.EACCES:
            return f"this user may not listen on port {port}: use --port with one above 1023"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine: use --host"
        case _:
            return f"{host}, port {port}, cannot be listened on: {error.strerror}"
