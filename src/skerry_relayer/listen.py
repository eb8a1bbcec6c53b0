"""Serves the application over HTTP, with limits on the time and size of request heads."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Self

import anyio
import anyio.abc
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import Server

HEAD_SECONDS: Final = 20.0
"""Time in which the head of a request must arrive, from the start of the connection."""

HEAD_BYTES: Final = 32_768
MAX_CONNECTIONS: Final = 1000
_IDLE_SECONDS: Final = 30
_CLOSE_SECONDS: Final = 5


class HttpProtocol(HttpToolsProtocol):
    """A connection that is closed when the head of a request is too slow or too long."""

    _head_bytes = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as the base class
        """Starts the deadline of the first head; closes a connection above the limit."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
            return
        self._deadline = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the deadline."""
        super().connection_lost(exc)
        self._cancel()

    def on_message_begin(self) -> None:
        """Starts the deadline of the next head."""
        super().on_message_begin()
        self._head_bytes = 0
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def on_url(self, url: bytes) -> None:
        """Adds the URL to the size of the head."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Adds a header to the size of the head."""
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        """Cancels the deadline of the head."""
        self._cancel()
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            self.transport.abort()

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Listener(anyio.AsyncContextManagerMixin):
    """Serves `app` on a bound socket. Use as `async with Listener(app, sock) as listener:`.

    Leaving the block ends open requests within 5 seconds and closes the socket.
    """

    def __init__(self, app: ASGIApp, bound: socket.socket) -> None:
        self.port: int = bound.getsockname()[1]
        self._socket = bound
        self._server = _Server(
            Config(
                app,
                http=HttpProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                # Messages of uvicorn below the level of warnings contain addresses of clients.
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=_CLOSE_SECONDS,
            )
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._serve)
            try:
                yield self
            finally:
                self._server.stopping.set()

    async def _serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        self._server.task_status = task_status
        with anyio.CancelScope(shield=True):
            await self._server.serve(sockets=[self._socket])


class _Server(Server):
    """uvicorn without its signal handlers; the command handles signals."""

    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.stopping = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.task_status.started()

    async def main_loop(self) -> None:
        await self.stopping.wait()


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket bound to the address. Raises `OSError` if the address is in use."""
    family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    # asyncio sends at once only over sockets with the protocol TCP; over others the body of an
    # answer waits 40 ms for the client to confirm its head.
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
