"""Answers HTTP requests while the gateway starts: alive, but not ready."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

_LIVE: Final = b"GET /healthz "
_HEAD_BYTES: Final = 16 * 1024
_ANSWER: Final = (
    "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    "cache-control: no-store\r\nretry-after: 1\r\nconnection: close\r\n\r\n%s"
)


@asynccontextmanager
async def starting(*listening: socket.socket) -> AsyncGenerator[None]:
    """Answers requests with 503 during the block; the sockets stay open after it."""
    connections: set[asyncio.Transport] = set()
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda: _Starting(connections), sock=listener.dup())
        for listener in listening
    ]
    try:
        yield
    finally:
        for server in servers:
            server.close()
        for transport in tuple(connections):
            transport.abort()


class _Starting(asyncio.Protocol):
    """One connection: reads the head of a request, answers, closes."""

    _transport: asyncio.Transport

    def __init__(self, connections: set[asyncio.Transport]) -> None:
        self._connections = connections
        self._head = bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Records the connection, so that the end of the start closes it."""
        self._transport = transport
        self._connections.add(transport)

    def data_received(self, data: bytes) -> None:
        """Answers when the head of the request is complete."""
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > _HEAD_BYTES:
            self._transport.write(_answer(live=self._head.startswith(_LIVE)))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Removes the connection."""
        self._connections.discard(self._transport)


def _answer(*, live: bool) -> bytes:
    status, body = "503 Service Unavailable", '{"ready":false,"failing":["starting"],"uptimeMs":0}'
    if live:
        status, body = "200 OK", '{"ok":true,"status":"live"}'
    return (_ANSWER % (status, len(body), body)).encode()
