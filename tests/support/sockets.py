"""A TCP server for one test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc


@asynccontextmanager
async def listening(
    handler: Callable[[anyio.abc.SocketStream], Awaitable[None]],
) -> AsyncIterator[int]:
    """Serves on a port of the loopback that the system chooses; bounded in time."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, handler)
        with anyio.fail_after(60):
            yield listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
        group.cancel_scope.cancel()


@asynccontextmanager
async def answering(body: bytes) -> AsyncIterator[int]:
    """Listen as an HTTP service that answers with the body, whatever it is asked."""

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
            await stream.send(head + body)

    async with listening(serve) as port:
        yield port
