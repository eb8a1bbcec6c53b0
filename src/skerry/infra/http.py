"""The one HTTP client: a pool that reuses the newest connection, and limits on everything.

httpcore2's own pool asks the kernel about every idle connection, twice a request: after a burst of
100 conversations that is a fifth of all CPU. Here the connection that was used last is taken first
and only it is looked at. Old ones are closed when a response ends.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final

import httpcore2
import httpx2
from msgspec import Struct

from skerry.infra.sockets import SocketBackend, StaleConnectionError

if TYPE_CHECKING:
    import ssl

DEADLINES: Final = httpx2.Timeout(connect=10.0, read=120.0, write=30.0, pool=None)
"""Seconds; `read` is silence, not the whole response. A request may bring its own `timeout`."""

BODY_LIMIT: Final = "body_limit"
"""Key of `extensions` with which a request brings its own limit, in bytes."""

_DEFAULT_BODY_LIMIT = 64 * 1024 * 1024

_Origin = tuple[bytes, bytes, int | None]


class BodyTooLargeError(httpx2.TransportError):
    """The response has more bytes than the request allows."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"the response is larger than {limit} bytes")


def http_client() -> httpx2.AsyncClient:
    """Return the one client that everything shares; use it as an async context manager.

    It speaks HTTP/1.1 to http and https addresses, follows no redirect, keeps no cookie and takes
    no proxy from the environment. Cancelling a request closes its connection.
    """
    return httpx2.AsyncClient(
        transport=PooledTransport(),
        timeout=DEADLINES,
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


class _Idle(Struct, frozen=True):
    connection: httpcore2.AsyncHTTPConnection
    since: float


class PooledTransport(httpx2.AsyncBaseTransport):
    """Sends requests over kept connections, the last used first.

    `backend` opens the connections. At most `idle_limit` per origin are kept, `idle_seconds` long.
    """

    def __init__(
        self,
        *,
        backend: httpcore2.AsyncNetworkBackend | None = None,
        idle_limit: int = 128,
        idle_seconds: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend or SocketBackend()
        self._idle_limit = idle_limit
        self._idle_seconds = idle_seconds
        self._monotonic = monotonic
        self._idle: dict[_Origin, list[_Idle]] = {}
        self._tls: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request; the response's body is read as it is iterated.

        A kept connection that the server had closed is replaced once, and only while nothing of the
        request was sent.

        Raises:
            httpx2.TransportError: one of its leaves, `UnsupportedProtocol` for other schemes.
        """
        url = request.url
        if url.scheme not in {"http", "https"}:
            raise httpx2.UnsupportedProtocol(f"{url.scheme}: only http and https are spoken")
        origin: _Origin = (url.raw_scheme, url.raw_host, url.port)
        core = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            kept = await self._take(origin)
            connection = kept or self._open(core.url.origin)
            try:
                response = await connection.handle_async_request(core)
            except StaleConnectionError:
                if kept is None:
                    raise
                connection = self._open(core.url.origin)
                response = await connection.handle_async_request(core)

        async def release() -> None:
            await self._release(origin, connection)

        limit = request.extensions.get(BODY_LIMIT, _DEFAULT_BODY_LIMIT)
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response, limit, release),
            extensions=response.extensions,
        )

    def _open(self, origin: httpcore2.Origin) -> httpcore2.AsyncHTTPConnection:
        if origin.scheme == b"https" and self._tls is None:
            self._tls = httpx2.create_ssl_context()  # 20 ms of CPU, so once and only when needed
        return httpcore2.AsyncHTTPConnection(
            origin, ssl_context=self._tls, network_backend=self._backend
        )

    async def _take(self, origin: _Origin) -> httpcore2.AsyncHTTPConnection | None:
        idle = self._idle.get(origin)
        oldest = self._monotonic() - self._idle_seconds
        while idle:
            last = idle.pop()
            if last.since > oldest and not last.connection.has_expired():
                return last.connection
            await last.connection.aclose()
        return None

    async def _release(self, origin: _Origin, connection: httpcore2.AsyncHTTPConnection) -> None:
        now = self._monotonic()
        if connection.is_idle():
            self._idle.setdefault(origin, []).append(_Idle(connection, now))
        for key, idle in list(self._idle.items()):
            while idle and (
                len(idle) > self._idle_limit or idle[0].since <= now - self._idle_seconds
            ):
                await idle.pop(0).connection.aclose()
            if not idle:
                del self._idle[key]

    async def aclose(self) -> None:
        """Close the idle connections; the others close with their responses."""
        self._idle_limit = 0
        while self._idle:
            _, idle = self._idle.popitem()
            for one in idle:
                await one.connection.aclose()


class _Body(httpx2.AsyncByteStream):
    """A response's bytes; closing it gives the connection back, or closes it when unread."""

    def __init__(
        self, response: httpcore2.Response, limit: int, release: Callable[[], Awaitable[None]]
    ) -> None:
        self._response = response
        self._limit = limit
        self._release = release
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        with _translated():
            async with aclosing(self._response.aiter_stream()) as parts:
                async for part in parts:
                    left -= len(part)
                    if left < 0:
                        raise BodyTooLargeError(self._limit)
                    yield part

    async def aclose(self) -> None:
        if self._closed:  # given back twice, a connection would serve two requests at once
            return
        self._closed = True
        with _translated():
            await self._response.aclose()
        await self._release()


_LEAVES: Final = (
    (httpcore2.ConnectTimeout, httpx2.ConnectTimeout),
    (httpcore2.ReadTimeout, httpx2.ReadTimeout),
    (httpcore2.WriteTimeout, httpx2.WriteTimeout),
    (httpcore2.ConnectError, httpx2.ConnectError),
    (httpcore2.ReadError, httpx2.ReadError),
    (httpcore2.WriteError, httpx2.WriteError),
    (httpcore2.RemoteProtocolError, httpx2.RemoteProtocolError),
    (httpcore2.LocalProtocolError, httpx2.LocalProtocolError),
)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise httpx2's leaf for httpcore2's."""
    try:
        yield
    except tuple(theirs for theirs, _ in _LEAVES) as error:
        leaf = next(ours for theirs, ours in _LEAVES if isinstance(error, theirs))
        raise leaf(str(error)) from error
