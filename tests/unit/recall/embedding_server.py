"""A real HTTP server that answers embedding requests, well or badly, as a test says."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the server."""

    status: int = 200
    body: Any = None
    """JSON, or bytes as they are."""
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False
    """Whether the connection ends before the body does."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


Handler = Callable[[RecordedRequest], Awaitable[Reply]]


def openai(request: RecordedRequest) -> Reply:
    """Answers as OpenAI does: a vector of the text's length and 1."""
    rows = [
        {"object": "embedding", "index": position, "embedding": [len(text), 1.0]}
        for position, text in enumerate(request.json["input"])
    ]
    count = len(rows)
    body = {"data": rows[::-1], "usage": {"prompt_tokens": count, "total_tokens": count}}
    return Reply(body=body)


@dataclass
class EmbeddingServer:
    """Its address and its requests. It sends `replies` first, then the results of `handler`."""

    url: str
    asked: list[RecordedRequest] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    handler: Callable[[RecordedRequest], Reply] = openai
    held: anyio.Event | None = None
    """While it is there and not set, no answer leaves."""
    now: int = 0
    most: int = 0
    """Requests at the same time."""

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):  # who asked has hung up
                await self._serve(stream)

    async def _serve(self, stream: anyio.abc.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, path, _ = first.split()
        headers = dict(line.lower().split(": ", 1) for line in lines)
        while len(body) < int(headers.get("content-length", 0)):
            body += await stream.receive()
        sent = dict(line.split(": ", 1) for line in lines)
        request = RecordedRequest(method, path, {k.lower(): v for k, v in sent.items()}, body)
        self.asked.append(request)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.held is not None:
                await self.held.wait()
            reply = self.replies.pop(0) if self.replies else self.handler(request)
            await stream.send(_bytes(reply))
        finally:
            self.now -= 1


def _bytes(reply: Reply) -> bytes:
    raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    length = len(raw) + 10 if reply.cut else len(raw)
    named = [("content-length", str(length)), ("connection", "close"), *reply.headers]
    head = "".join(f"{name}: {value}\r\n" for name, value in named)
    return f"HTTP/1.1 {reply.status} X\r\n{head}\r\n".encode() + raw


@asynccontextmanager
async def embedding_server() -> AsyncGenerator[EmbeddingServer]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's, no SQL
    server = EmbeddingServer(f"http://127.0.0.1:{port}/v1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, server.serve)
        yield server
        tasks.cancel_scope.cancel()
