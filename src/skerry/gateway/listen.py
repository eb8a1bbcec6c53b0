"""Serves the gateway's application on sockets."""

import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Self

import anyio
import anyio.abc
from starlette.types import ASGIApp

from skerry.gateway.asgi import Config, Server
from skerry.gateway.frames import MAX_PAYLOAD
from skerry.gateway.protocol import GatewayProtocol, HttpProtocol

_CLOSE_SECONDS: Final = 6


class Listener(anyio.AsyncContextManagerMixin):
    """Serves `app` on bound sockets. Use as `async with Listener(app, sock) as listener:`.

    At the end of the block it closes every connection with code 1012, and the sockets.
    """

    def __init__(self, app: ASGIApp, *sockets: socket.socket) -> None:
        self.port: int = sockets[0].getsockname()[1]
        self._sockets = list(sockets)
        self._server = _Server(
            Config(
                app,
                http=HttpProtocol,
                ws=GatewayProtocol,
                ws_max_size=MAX_PAYLOAD,
                ws_per_message_deflate=False,
                # A client that reads nothing is found by its unread frames, and one that vanished
                # by the ticks that are never acknowledged.
                ws_ping_interval=None,
                lifespan="on",
                log_config=None,
                # Its messages below warnings contain addresses, with any text of clients in them.
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
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
        # A cancelled caller still gets an orderly end; `timeout_graceful_shutdown` bounds it.
        with anyio.CancelScope(shield=True):
            await self._server.serve(sockets=self._sockets)


class _Server(Server):
    """uvicorn's server without its signal handlers, which would end the process, and its tick."""

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
