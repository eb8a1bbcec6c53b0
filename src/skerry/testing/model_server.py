"""HTTP server on loopback with the wire formats of model APIs, which plays a script.

Benchmarks and tests also run it as a program: `python -m skerry.testing.model_server --port 0`
prints one JSON line with its address and answers every conversation with `echo`.
"""

import argparse
import functools
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import anyio
import anyio.abc
import msgspec

from skerry.testing.model import ReplyGate, Step, echo_steps
from skerry.testing.model_wires import Wire, wire_for

_HEAD_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True)
class StatusReply:
    """Step that answers with this status and body only."""

    code: int
    body: bytes = b'{"error":{"message":"scripted failure"}}'
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Raw:
    """Step that writes these bytes into the stream."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """Step that ends the response without the finish marker, or breaks the connection."""

    connection: bool = False


HttpStep: TypeAlias = Step | StatusReply | Raw | Cut


@dataclass(frozen=True, slots=True)
class ModelHttpRequest:
    """Request of a client."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class StubModelServer(anyio.AsyncContextManagerMixin):
    """Serves inside its `async with` block; by default on a port that the system chooses.

    `script` has one reply per completion, or is a function from a request body to a reply; the
    default is `echo_chat`. The path of a request selects the wire format. A text step is divided
    into `events_per_text` events, each one write; `delay` is the pause between two events in
    seconds.
    """

    def __init__(
        self,
        script: Iterable[Sequence[HttpStep]]
        | Callable[[dict[str, Any]], Sequence[HttpStep]]
        | None = None,
        *,
        events_per_text: int = 1,
        delay: float = 0.0,
        port: int = 0,
    ) -> None:
        if script is None or callable(script):
            self._reply = script or echo_chat
        else:
            replies = iter(list(script))
            self._reply = lambda _: next(replies, [StatusReply(500)])
        self._events_per_text = events_per_text
        self._delay = delay
        self._port = port
        self.requests: list[ModelHttpRequest] = []
        """All requests, oldest first."""
        self.connections = 0
        """Number of connections opened."""
        self.count = 0
        """Number of requested completions."""
        self.base_url = ""
        """Address up to and including `/v1`; set inside the block."""
        self.hung_up = anyio.Event()
        """Set when a client disconnects while a gate holds its reply."""
        self.models: list[dict[str, Any]] = [{"id": "stub"}]
        """Models in its list."""
        self.keep_requests = True
        """Records each request in `requests`; benchmarks disable it."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self._port)
        port = listener.extra(  # noqa: S610 - anyio's, not Django's
            anyio.abc.SocketAttribute.local_port
        )
        self.base_url = f"http://127.0.0.1:{port}/v1"
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._serve)
            yield self
            group.cancel_scope.cancel()

    async def _serve(self, stream: anyio.abc.SocketStream) -> None:
        self.connections += 1
        async with stream:
            buffer = bytearray()
            try:
                while (request := await _read(stream, buffer)) is not None:
                    if not await self._answer(stream, request):
                        return
            except* (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the client disconnected

    async def _answer(self, stream: anyio.abc.SocketStream, request: ModelHttpRequest) -> bool:
        """Answers a request; returns whether the connection remains open."""
        if self.keep_requests:
            self.requests.append(request)
        if request.path.partition("?")[0].endswith("/models"):
            listed = {"object": "list", "data": self.models}
            await stream.send(_response(200, msgspec.json.encode(listed)))
            return True
        if request.path == "/count":
            await stream.send(_response(200, msgspec.json.encode({"count": self.count})))
            return True
        self.count += 1
        steps = self._reply(request.body)
        if steps and isinstance(steps[0], StatusReply):
            failure = steps[0]
            await stream.send(_response(failure.code, failure.body, failure.headers))
            return True
        await stream.send(_STREAM_HEAD)
        return await self._play(stream, steps, wire_for(request.path))

    async def _play(
        self, stream: anyio.abc.SocketStream, steps: Sequence[HttpStep], wire: Wire
    ) -> bool:
        """Sends the stream of a reply; returns whether the connection remains open."""
        if begun := wire.begin():
            await stream.send(_chunk(begun))
        for step in steps:
            if isinstance(step, ReplyGate):
                await self._hold(stream, step)
            elif isinstance(step, Cut):
                if not step.connection:
                    await stream.send(_END)
                return not step.connection
            events = (
                [step.data] if isinstance(step, Raw) else wire.events(step, self._events_per_text)
            )
            for event in events:
                await stream.send(_chunk(event))
                if self._delay:
                    await anyio.sleep(self._delay)
        await stream.send(_chunk(wire.end()) + _END)
        return True

    async def _hold(self, stream: anyio.abc.SocketStream, gate: ReplyGate) -> None:
        """Waits until the gate is open; sets `hung_up` if the client disconnects before."""

        async def watch() -> None:
            try:
                await stream.receive()
            finally:
                if not gate.opened.is_set():
                    self.hung_up.set()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await gate.hold()
            group.cancel_scope.cancel()


def echo_chat(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Returns the echo of a request's last message, in any format."""
    messages = body["messages"]
    last = messages[-1]
    content = last["content"] or ""
    if isinstance(content, str):
        return echo_steps(content, len(messages), after_tool=last["role"] == "tool")
    after_tool = content[0]["type"] == "tool_result"
    blocks = content[0]["content"] if after_tool else content
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    return echo_steps(text, len(messages), after_tool=after_tool)


_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_END = b"0\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _response(code: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {code} Stub\r\ncontent-type: application/json\r\n{lines}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def _read(stream: anyio.abc.SocketStream, buffer: bytearray) -> ModelHttpRequest | None:
    """Returns the next request; None when the client has disconnected."""
    try:
        while (end := buffer.find(b"\r\n\r\n")) < 0 and len(buffer) < _HEAD_LIMIT:
            buffer += await stream.receive()
        first, *lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        named = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in named}
        size = int(headers.get("content-length", "0"))
        while len(buffer) < end + 4 + size:
            buffer += await stream.receive()
    except anyio.EndOfStream:
        return None
    body = bytes(buffer[end + 4 : end + 4 + size])
    del buffer[: end + 4 + size]
    return ModelHttpRequest(method, path, headers, msgspec.json.decode(body) if body else {})


def main(arguments: Sequence[str]) -> int:
    """Serves until the process is stopped."""
    parser = argparse.ArgumentParser(
        prog="python -m skerry.testing.model_server", description=__doc__
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--events-per-text", type=int, default=1)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="between two events")
    parser.add_argument("--text", help="answer with this instead of an echo")
    options = parser.parse_args(arguments)
    script = functools.partial(_fixed, options.text) if options.text else None
    anyio.run(_main, script, options, backend_options={"use_uvloop": True})
    return 0


def _fixed(text: str, _: dict[str, Any]) -> Sequence[HttpStep]:
    return [text]


async def _main(
    script: Callable[[dict[str, Any]], Sequence[HttpStep]] | None, options: argparse.Namespace
) -> None:
    stub = StubModelServer(
        script,
        events_per_text=options.events_per_text,
        delay=options.delay_ms / 1000,
        port=options.port,
    )
    stub.keep_requests = False
    async with stub:
        print(json.dumps({"base_url": stub.base_url}), flush=True)  # noqa: T201 - a program's output
        await anyio.sleep_forever()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
