"""
Connecting: names are resolved here, and only an address that was checked is ever connected to.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any

import httpcore2

from uns.adapters.egress.addresses import Egress
from uns.adapters.egress.destination import NOT_PUBLIC, literal
from uns.adapters.egress.errors import Failed, Refused

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host name and a port to its addresses, best first; ``OSError`` when there are none."""

RESOLVER_THREADS = 16
ADDRESSES_TRIED = 4


class SystemResolver:
    """
    The host's own resolver, on threads of its own: a name server that hangs holds up names only.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="uns-resolver")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _addresses, host, port)


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """
    TCP to the addresses that ``egress`` admits.

    A name is asked for once per connection, and the connection goes to what was answered and
    checked, so a name that changes slips nothing through.
    """

    def __init__(self, egress: Egress, resolve: Resolve) -> None:
        self._egress = egress
        self._resolve = resolve
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """
        A connection to the first admitted address of ``host`` that takes one.

        Raises:
            Refused: none of its addresses is admitted.
            Failed: it has no address, or none that takes a connection.
        """
        admitted = (await self._admitted(host, port))[:ADDRESSES_TRIED]
        share = None if timeout is None else timeout / len(admitted)
        for address in admitted:
            try:
                return _Stream(
                    await self._plain.connect_tcp(address, port, share, local_address, socket_options)
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        raise Failed(f"{host} cannot be reached")

    async def _admitted(self, host: str, port: int) -> list[str]:
        try:
            found = [host] if literal(host) is not None else await self._resolve(host, port)
        except OSError:
            found = ()
        if not found:
            raise Failed(f"{host} cannot be resolved")
        admitted = [address for address in found if self._egress.admits(host, ip_address(address))]
        if not admitted:
            raise Refused(f"{host} {NOT_PUBLIC}")
        return admitted


class _Stream(httpcore2.AsyncNetworkStream):
    """
    A connection that is closed, and not left behind, when time runs out while TLS is agreed on.
    """

    def __init__(self, plain: httpcore2.AsyncNetworkStream) -> None:
        self._plain = plain

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        return await self._plain.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._plain.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._plain.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._plain.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._plain.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._plain.get_extra_info(info)


def _addresses(host: str, port: int) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))
