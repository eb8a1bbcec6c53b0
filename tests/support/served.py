"""A loopback server that answers every request with the same bytes as a stream of events."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc

PIECE = 100  # bytes a write


@dataclass
class Served:
    """Its address, and the head and body of each request."""

    url: str = ""
    requests: list[tuple[str, bytes]] = field(default_factory=list)


@asynccontextmanager
async def serving(body: bytes, head: str = "200 OK") -> AsyncIterator[Served]:
    """Serves until the block ends; `head` is the status, and more lines of the head if any."""
    served = Served()

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            got = b""
            while (end := got.find(b"\r\n\r\n")) < 0:
                got += await stream.receive()
            length = re.search(rb"content-length: (\d+)", got.lower())
            while length and len(got) < end + 4 + int(length[1]):  # unread, it would reset us
                got += await stream.receive()
            served.requests.append((got[:end].decode(), got[end + 4 :]))
            lines = f"HTTP/1.1 {head}\r\ncontent-type: text/event-stream\r\nconnection: close"
            await stream.send(f"{lines}\r\n\r\n".encode())
            for start in range(0, len(body), PIECE):
                await stream.send(body[start : start + PIECE])

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's, not Django's
    served.url = f"http://127.0.0.1:{port}"
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        yield served
        group.cancel_scope.cancel()
