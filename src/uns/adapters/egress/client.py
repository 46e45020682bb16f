"""
The guarded HTTP client: one request, one bounded answer, within one time limit.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import cache
from weakref import WeakKeyDictionary

import httpcore2
import httpx2
from msgspec import Struct

from uns.adapters.egress.addresses import Egress
from uns.adapters.egress.destination import Destination, destination
from uns.adapters.egress.errors import Failed, Refused
from uns.adapters.egress.network import GuardedNetwork, Resolve, SystemResolver

SECONDS = 30.0
CONNECTIONS = 256
BODY_BYTES = 65_536

_Pools = WeakKeyDictionary[asyncio.AbstractEventLoop, httpcore2.AsyncConnectionPool]
_OURS = {"User-Agent": "uns", "Accept": "*/*", "Accept-Encoding": "identity"}


class Answer(Struct, frozen=True, kw_only=True):
    """
    What the other side said: the status, the headers in order, and the first 64 KiB of the body.

    ``hidden`` are secrets of the request that it may have repeated; ``classify`` blots them out.
    """

    shown: str
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    hidden: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Answer {self.status} of {self.shown}>"

    def header(self, name: str) -> str | None:
        """
        The value of a header; several of one name are joined by commas, as HTTP has it.
        """
        values = [value for given, value in self.headers if given.lower() == name.lower()]
        return ", ".join(values) if values else None


class GuardedClient:
    """
    Sends requests to public addresses and those that ``egress`` admits; for any event loop.

    Redirects are not followed, no proxy or credential is taken from the environment, and nothing
    is kept between two calls: no cookie, no connection, so that every call checks its address anew.

    Args:
        seconds: the most that one call may take, from looking up the name to the last byte read,
            where the caller names no less.
        connections: the most that are open at once, per event loop. A call waits for its turn
            within its time.
        resolve: where the addresses of names come from; the system unless given.
        tls: whom to trust; the system's certificates unless given.
    """

    def __init__(
        self,
        egress: Egress,
        *,
        seconds: float = SECONDS,
        connections: int = CONNECTIONS,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.egress = egress
        self._seconds = seconds
        self._connections = connections
        self._network = GuardedNetwork(egress, resolve or SystemResolver())
        self._tls = tls or _system_trust()
        self._pools = _Pools()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        seconds: float | None = None,
    ) -> Answer:
        """
        The answer to one request, whatever its status.

        Args:
            seconds: a shorter limit than the client's own.

        Raises:
            Refused: it was not sent, and never will be.
            Failed: no whole answer came within the limit. It may have arrived.
        """
        to = destination(url, self.egress)
        limit = self._seconds if seconds is None else min(seconds, self._seconds)
        with _told(to.shown, limit):
            async with asyncio.timeout(limit):
                return await self._exchange(method, to, headers, body, limit)

    async def _exchange(
        self, method: str, to: Destination, headers: Mapping[str, str], body: bytes, limit: float
    ) -> Answer:
        sent = {"Host": to.shown} | _OURS | dict(headers)
        raw = [(name.encode(), value.encode()) for name, value in sent.items()]
        extensions = {"timeout": {"connect": limit}}
        async with self._pool().stream(
            method, to.url, headers=raw, content=body, extensions=extensions
        ) as answer:
            return Answer(
                shown=to.shown,
                status=answer.status,
                headers=tuple(
                    (name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers
                ),
                body=await _start_of(answer),
                hidden=(*to.hidden, *_credentials(headers)),
            )

    def _pool(self) -> httpcore2.AsyncConnectionPool:
        """
        The running loop's own: a loop that has ended takes its pool along.
        """
        loop = asyncio.get_running_loop()
        if (pool := self._pools.get(loop)) is None:
            pool = self._pools[loop] = httpcore2.AsyncConnectionPool(
                ssl_context=self._tls,
                max_connections=self._connections,
                max_keepalive_connections=0,
                network_backend=self._network,
            )
        return pool


@cache
def _system_trust() -> ssl.SSLContext:
    """
    The system's certificates, read once: it takes a tenth of a second.
    """
    return httpx2.create_ssl_context(trust_env=False)


async def _start_of(answer: httpcore2.Response) -> bytes:
    body = bytearray()
    async with aclosing(answer.aiter_stream()) as parts:
        async for part in parts:
            body += part
            if len(body) >= BODY_BYTES:
                break
    return bytes(body[:BODY_BYTES])


def _credentials(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if name.lower() == "authorization":
            yield value.rpartition(" ")[2]


@contextmanager
def _told(shown: str, limit: float) -> Iterator[None]:
    """
    What goes wrong inside, told in our own words: what others said may come from anywhere.
    """
    try:
        yield
    except TimeoutError:
        raise Failed(f"{shown} did not answer within {limit:g} s") from None
    except (httpcore2.LocalProtocolError, UnicodeError):
        raise Refused(f"{shown}: the request cannot be written as HTTP") from None
    except httpcore2.ProtocolError:
        raise Failed(f"{shown} broke off, or did not answer in HTTP") from None
    except (httpcore2.NetworkError, httpcore2.TimeoutException, OSError) as error:
        raise Failed(f"{shown} {_trouble(error)}") from None


def _trouble(error: Exception) -> str:
    cause = error if isinstance(error, ssl.SSLError) else error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"has no certificate that can be trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return "does not agree on TLS"
    return "broke the connection before it had answered"
