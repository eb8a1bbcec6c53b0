"""Small HTTP/1.1 server on loopback, the base of the fakes of chat platforms."""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any, Final, Self, cast
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
import anyio.abc
import msgspec
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

_HEAD_LIMIT: Final = 64 * 1024
_BODY_LIMIT: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file of a multipart body."""

    name: str
    mime: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """Request of a client."""

    method: str
    path: str
    """Decoded path without the query."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Headers by lower-case name."""
    body: bytes

    @property
    def json(self) -> Any:
        """Returns the body as JSON. Raises `msgspec.DecodeError`."""
        return msgspec.json.decode(self.body)

    def form(self) -> dict[str, str | UploadedFile]:
        """Returns the fields of a URL-encoded or multipart form."""
        kind = self.headers.get("content-type", "")
        if not kind.startswith("multipart/form-data"):
            return {key: texts[-1] for key, texts in parse_qs(self.body.decode()).items()}
        head = f"content-type: {kind}\r\n\r\n".encode()
        fields: dict[str, str | UploadedFile] = {}
        for part in BytesParser().parsebytes(head + self.body).walk():
            if part.is_multipart():
                continue
            data = bytes(part.get_payload(decode=True))
            name = str(part.get_param("name", header="content-disposition"))
            file = part.get_filename()
            upload = None if file is None else UploadedFile(file, part.get_content_type(), data)
            fields[name] = upload or data.decode()
        return fields


@dataclass(frozen=True, slots=True)
class ServedResponse:
    """Response of the server."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Closes the connection in the middle of the body."""
    hang: bool = False
    """Sends nothing until the client disconnects."""
    stream: "Stream | None" = None
    """Writes a body of unknown length; the connection ends when it returns."""

    @classmethod
    def of(cls, payload: object, status: int = 200) -> Self:
        """Returns a response with a JSON body."""
        return cls(msgspec.json.encode(payload), status)


Write = Callable[[bytes], Awaitable[None]]
Stream = Callable[[Write], Awaitable[None]]
Handle = Callable[[ServedRequest], Awaitable[ServedResponse]]


class ServedSocket:
    """The server's side of a WebSocket."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._protocol = ServerProtocol()
        self._sends = anyio.Lock()
        self._texts = deque[str]()
        """Messages that were received but not returned yet."""

    async def open(self, request: ServedRequest) -> None:
        """Answers the request that opens the WebSocket."""
        lines = "".join(f"{name}: {text}\r\n" for name, text in request.headers.items())
        self._protocol.receive_data(f"GET {request.path} HTTP/1.1\r\n{lines}\r\n".encode())
        (upgrade,) = cast("list[Any]", self._protocol.events_received())
        self._protocol.send_response(self._protocol.accept(upgrade))
        await self._flush()

    async def send(self, text: str) -> None:
        """Sends a message, unless the socket is being closed."""
        if self._protocol.state is OPEN:
            self._protocol.send_text(text.encode())
            await self._flush()

    async def receive(self) -> str | None:
        """Returns the next message; None when the client has disconnected."""
        while not self._texts:
            try:
                self._protocol.receive_data(await self._stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return None
            await self._flush()
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    self._texts.append(bytes(event.data).decode())
        return self._texts.popleft()

    async def close(self, code: int = 0) -> None:
        """Closes the connection; with a code, sends a close frame before."""
        if code:
            self._protocol.send_close(code)
            await self._flush()
        await self._stream.aclose()

    async def _flush(self) -> None:
        async with self._sends:
            for data in self._protocol.data_to_send():
                if data:  # `receive` detects a disconnected client
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await self._stream.send(data)


OnSocket = Callable[[ServedSocket], Awaitable[None]]


@asynccontextmanager
async def serve(
    handle: Handle, port: int = 0, on_socket: OnSocket | None = None
) -> AsyncGenerator[str]:
    """Serves inside the block; yields the address without a path, `http://127.0.0.1:<port>`.

    `on_socket` is called with each WebSocket; the connection ends when it returns.
    """
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    bound = listener.extra(  # noqa: S610 - anyio's, not Django's
        anyio.abc.SocketAttribute.local_port
    )

    async def connection(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await _converse(stream, handle, on_socket)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, connection)
        yield f"http://127.0.0.1:{bound}"
        tasks.cancel_scope.cancel()


async def _converse(
    stream: anyio.abc.SocketStream, handle: Handle, on_socket: OnSocket | None
) -> None:
    buffer = bytearray()
    try:
        while (request := await _read(stream, buffer)) is not None:
            if on_socket and request.headers.get("upgrade", "").lower() == "websocket":
                socket = ServedSocket(stream)
                await socket.open(request)
                return await on_socket(socket)
            response = await _answered(stream, handle, request, buffer)
            if response is None:
                return None
            if response.stream is not None:
                return await _streamed(stream, response.stream, response.content_type)
            lines = "".join(f"{name}: {text}\r\n" for name, text in response.headers.items())
            head = f"HTTP/1.1 {response.status} Fake\r\ncontent-type: {response.content_type}\r\n"
            body = response.body[: len(response.body) // 2] if response.cut else response.body
            size = f"content-length: {len(response.body)}\r\n\r\n"
            await stream.send((head + lines + size).encode() + body)
            if response.cut:
                return None
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return None


async def _streamed(stream: anyio.abc.SocketStream, body: Stream, content_type: str) -> None:
    """Runs the function of the body until it returns, or the client disconnects."""
    turn = anyio.Lock()

    async def write(data: bytes) -> None:
        async with turn:
            await stream.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    head = (
        f"HTTP/1.1 200 Fake\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    await stream.send(head.encode())
    async with anyio.create_task_group() as tasks:

        async def work() -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await body(write)
            tasks.cancel_scope.cancel()

        tasks.start_soon(work)
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await stream.receive()
        tasks.cancel_scope.cancel()


async def _answered(
    stream: anyio.abc.SocketStream, handle: Handle, request: ServedRequest, buffer: bytearray
) -> ServedResponse | None:
    """Returns the response; None if the client disconnected before."""
    answers: list[ServedResponse] = []
    async with anyio.create_task_group() as tasks:

        async def work() -> None:
            response = await handle(request)
            if response.hang:
                await anyio.sleep_forever()
            answers.append(response)
            tasks.cancel_scope.cancel()

        tasks.start_soon(work)
        try:
            while True:
                buffer += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            tasks.cancel_scope.cancel()
    return answers[0] if answers else None


async def _read(stream: anyio.abc.SocketStream, buffer: bytearray) -> ServedRequest | None:
    """Returns the next request; None when the client has disconnected."""
    try:
        while (end := buffer.find(b"\r\n\r\n")) < 0 and len(buffer) < _HEAD_LIMIT:
            buffer += await stream.receive()
        first, *lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        named = (line.partition(":") for line in lines)
        headers = {name.lower(): text.strip() for name, _, text in named}
        size = min(int(headers.get("content-length", "0")), _BODY_LIMIT)
        while len(buffer) < end + 4 + size:
            buffer += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return None
    body = bytes(buffer[end + 4 : end + 4 + size])
    del buffer[: end + 4 + size]
    parts = urlsplit(target)
    query = {key: texts[-1] for key, texts in parse_qs(parts.query).items()}
    return ServedRequest(method, unquote(parts.path), query, headers, body)
