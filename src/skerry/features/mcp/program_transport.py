"""Runs an MCP server as a child process, and exchanges lines of JSON with it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from skerry.features.mcp.config import McpServerConfig
from skerry.infra.process import Child, Program, child
from skerry.infra.supervise import in_background
from skerry.policy.folding import visible
from skerry.sdk.tool_host import ToolHost

PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "USER")
"""Variables of the gateway that a server gets; none of them holds a key."""
MAX_MESSAGE: Final = 8 * 1024 * 1024
"""Limit of one message, in bytes."""
MAX_UNREQUESTED: Final = 10_000
"""Messages after a request of the gateway after which the server is ended."""
GRACE_SECONDS: Final = 2.0
"""Time between SIGTERM and SIGKILL."""
_LAST_SECONDS: Final = 1.0
_MAX_SHOWN: Final = 200

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


class EndOfServer:
    """The end of a connection: an event, and its reason."""

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.reason = ""

    def close(self, reason: str) -> None:
        """Sets the event; the first reason is kept."""
        self.reason = self.reason or reason
        self.event.set()


def environment(settings: McpServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the whole environment of a server."""
    own = {name: secret.get_secret_value() for name, secret in settings.env.items()}
    return {name: environ[name] for name in PASSED if name in environ} | own


def program_of(settings: McpServerConfig, environ: Mapping[str, str]) -> Program:
    """Returns the program of a server."""
    folder = settings.cwd.expanduser() if settings.cwd else Path(environ.get("HOME", "/"))
    command = [str(Path(settings.command or "").expanduser()), *settings.args]
    return Program(command, environment(settings, environ), folder, grace=GRACE_SECONDS)


@asynccontextmanager
async def program_streams(
    settings: McpServerConfig, host: ToolHost, end: EndOfServer
) -> AsyncGenerator[tuple[Any, Any]]:
    """Runs the program for the block; yields the streams of its messages.

    Raises:
        NotStartedError: the program cannot be started.
    """
    program = program_of(settings, host.environ)
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    with incoming, received, sent, outgoing:
        async with child(program, listens=True) as process:
            lines = _Lines(process, end)
            async with (
                in_background(partial(lines.read, incoming)),
                in_background(partial(lines.write, outgoing)),
            ):
                yield received, sent


class _Lines:
    """Converts between the pipes of a program and messages."""

    def __init__(self, process: Child, end: EndOfServer) -> None:
        self._process = process
        self._end = end
        self._unrequested = 0

    async def read(self, incoming: Incoming) -> None:
        """Passes on each message until the program ends or exceeds a limit."""
        with incoming:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._read(incoming)
            with anyio.move_on_after(_LAST_SECONDS):
                await self._process.wait()
            self._end.close(_reason_of(self._process))

    async def _read(self, incoming: Incoming) -> None:
        buffer = bytearray()
        async for part in self._process.stdout:
            *lines, rest = part.split(b"\n")
            for line in lines:
                buffer += line
                await self._pass(bytes(buffer), incoming)
                buffer.clear()
            buffer += rest
            if len(buffer) > MAX_MESSAGE:
                self._end.close(f"it sent a message of more than {MAX_MESSAGE} bytes")
            if self._end.event.is_set():
                return

    async def _pass(self, line: bytes, incoming: Incoming) -> None:
        """Passes on a message; a line that is none, such as a log line, is ignored."""
        if not line.strip():
            return
        self._unrequested += 1
        if self._unrequested > MAX_UNREQUESTED:
            self._end.close(f"it sent more than {MAX_UNREQUESTED} messages without a request")
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            return
        await incoming.send(SessionMessage(message))

    async def write(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Writes each message of the gateway as one line."""
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            self._unrequested = 0
            try:
                await self._process.stdin.send(text.encode() + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                self._end.close("it does not read its standard input")
                return


def _reason_of(process: Child) -> str:
    """Returns the exit code of a program in a text, with the last line of standard error."""
    lines = visible(process.tail).strip().splitlines()
    last = f": {lines[-1][:_MAX_SHOWN]}" if lines else ""
    if process.returncode is None:
        return f"it closed its standard output{last}"
    return f"it ended with code {process.returncode}{last}"
