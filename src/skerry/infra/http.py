"""The HTTP client: a pool that reuses the newest connection, and limits of time and size.

httpx2's own pool polls every idle connection twice a request: after a burst of 100 conversations
that is a fifth of all CPU. This pool polls the connection that was used last, and takes it. Old
connections are closed when a response ends.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final

import anyio.lowlevel
import httpx2
from msgspec import Struct

from skerry.infra.http11 import Head, HttpConnection, PlainRequest
from skerry.infra.sockets import Connect, StaleConnectionError, connect

if TYPE_CHECKING:
    import ssl

DEADLINES: Final = httpx2.Timeout(connect=10.0, read=120.0, write=30.0, pool=None)
"""Seconds; `read` limits each silence, not the whole response. `timeout` of a request overrides."""

BODY_LIMIT: Final = "body_limit"
"""Key in `extensions` of a request: limit of its response in bytes, instead of 64 MiB."""

_DEFAULT_BODY_LIMIT = 64 * 1024 * 1024

_Origin = tuple[str, str, int]
_PORTS: Final = {"http": 80, "https": 443}


class BodyTooLargeError(httpx2.TransportError):
    """The response has more bytes than the request allows."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"the response is larger than {limit} bytes")


class HttpClient(httpx2.AsyncClient):
    """The HTTP client that all parts share; use it as an async context manager.

    It sends HTTP/1.1 to http and https addresses, follows no redirect, stores no cookie and ignores
    proxies of the environment. Cancelling a request closes its connection.
    """

    def __init__(self) -> None:
        self.transport = PooledTransport()
        """Sends requests without the layers of httpx2, which cost 150 us of CPU each."""
        super().__init__(
            transport=self.transport,
            timeout=DEADLINES,
            follow_redirects=False,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )


class _Idle(Struct, frozen=True):
    connection: HttpConnection
    since: float


class PooledTransport(httpx2.AsyncBaseTransport):
    """Sends requests over pooled connections, the last used first.

    `connect` opens connections. At most `idle_limit` per origin stay open, for `idle_seconds`.
    Closing a response never waits.
    """

    def __init__(
        self,
        *,
        connect: Connect = connect,
        idle_limit: int = 128,
        idle_seconds: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._idle_limit = idle_limit
        self._idle_seconds = idle_seconds
        self._monotonic = monotonic
        self._idle: dict[_Origin, list[_Idle]] = {}
        self._tls: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request and returns the response, whose body is read by iterating over it.

        A pooled connection that the server had closed is replaced once, and only while nothing of
        the request was sent.

        Raises:
            httpx2.TransportError: a subclass; `UnsupportedProtocol` for other schemes.
        """
        url = request.url
        origin = (url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS.get(url.scheme, 0))
        if url.scheme not in _PORTS:
            raise httpx2.UnsupportedProtocol(f"{url.scheme}: only http and https are supported")
        seconds = request.extensions.get("timeout", {}).get("connect")
        limit = request.extensions.get(BODY_LIMIT, _DEFAULT_BODY_LIMIT)

        def send(connection: HttpConnection) -> Awaitable[Head]:
            return connection.request(request)

        head, body = await self._sent(origin, seconds, limit, send)
        return httpx2.Response(
            status_code=head.status,
            headers=head.headers,
            stream=body,
            extensions={
                "http_version": b"HTTP/" + head.version.encode(),
                "reason_phrase": head.reason,
            },
        )

    async def exchange(self, plain: PlainRequest) -> tuple[Head, "Body"]:
        """Sends a request of bytes; returns the head of the response and its unread body.

        Raises:
            httpx2.TransportError: a subclass, as of `handle_async_request`.
        """
        origin = (plain.scheme, plain.host, plain.port)

        def send(connection: HttpConnection) -> Awaitable[Head]:
            return connection.exchange(plain)

        return await self._sent(origin, plain.seconds, plain.limit, send)

    async def _sent(
        self,
        origin: _Origin,
        seconds: float | None,
        limit: int,
        send: Callable[[HttpConnection], Awaitable[Head]],
    ) -> tuple[Head, "Body"]:
        idle = self._take(origin)
        connection = idle or await self._open(origin, seconds)
        try:
            head = await send(connection)
        except StaleConnectionError:
            if idle is None:
                raise
            connection = await self._open(origin, seconds)
            head = await send(connection)
        return head, Body(connection, limit, partial(self._release, origin))

    async def _open(self, origin: _Origin, seconds: float | None) -> HttpConnection:
        scheme, host, port = origin
        stream = await self._connect(host, port, seconds)
        if scheme == "https":
            if self._tls is None:  # 20 ms of CPU, so once and only when needed
                self._tls = httpx2.create_ssl_context()
                self._tls.set_alpn_protocols(["http/1.1"])
            await stream.start_tls(self._tls, host, seconds)
        return HttpConnection(stream)

    def _take(self, origin: _Origin) -> HttpConnection | None:
        idle = self._idle.get(origin)
        oldest = self._monotonic() - self._idle_seconds
        while idle:
            last = idle.pop()
            if last.since > oldest and not last.connection.is_dead():
                return last.connection
            last.connection.close()
        return None

    def _release(self, origin: _Origin, connection: HttpConnection) -> None:
        now = self._monotonic()
        if connection.release():
            self._idle.setdefault(origin, []).append(_Idle(connection, now))
        for key, idle in list(self._idle.items()):
            while idle and (
                len(idle) > self._idle_limit or idle[0].since <= now - self._idle_seconds
            ):
                idle.pop(0).connection.close()
            if not idle:
                del self._idle[key]

    async def aclose(self) -> None:
        """Closes the idle connections; a connection in use closes with its response."""
        self._idle_limit = 0
        while self._idle:
            _, idle = self._idle.popitem()
            for connection in idle:
                connection.connection.close()
        await anyio.lowlevel.checkpoint()  # the loop closes them in its next round


class Body(httpx2.AsyncByteStream):
    """Body of a response. `aclose` returns the connection to the pool, or closes it if unread."""

    def __init__(
        self, connection: HttpConnection, limit: int, release: Callable[[HttpConnection], None]
    ) -> None:
        self._connection = connection
        self._limit = limit
        self._remaining = limit
        self._release = release
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Returns itself."""
        return self

    async def __anext__(self) -> bytes:
        """Returns the bytes of one network read.

        Raises:
            BodyTooLargeError: the body exceeds its limit.
            httpx2.TransportError: the body is incomplete.
        """
        part = await self._connection.part()
        if part is None:
            raise StopAsyncIteration
        self._remaining -= len(part)
        if self._remaining < 0:
            raise BodyTooLargeError(self._limit)
        return part

    async def aclose(self) -> None:
        """Ends the request."""
        if not self._closed:  # released twice, a connection would serve two requests at once
            self._closed = True
            self._release(self._connection)
