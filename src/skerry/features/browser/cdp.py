"""Client of the Chrome DevTools Protocol over the pipes of `--remote-debugging-pipe`.

No port is opened, so no other program and no page can send commands. Messages are JSON objects that
end with a zero byte; `sessionId` names the target of a command or an event.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import anyio
import anyio.abc
import msgspec
from msgspec import Struct, field

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Limit of one message from the browser, in bytes."""
MAX_QUEUED: Final = 10_000
"""Limit of commands that are not written yet."""
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_MAX_REASON: Final = 300

OnEvent = Callable[[str, str, dict[str, Any]], None]
"""Handles an event: session id, method and parameters. It must not block."""


class CdpError(Exception):
    """The browser refused a command, or has ended."""


class _Message(Struct):
    """A message of the browser: an event, or the answer to a command."""

    id: int = 0
    method: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    sessionId: str = ""  # noqa: N815 - name in the protocol


class _Pending(Struct):
    """A command without an answer so far."""

    session: str
    answered: anyio.Event = field(default_factory=anyio.Event)
    message: _Message | None = None


class Cdp:
    """Sends commands and receives events; `run` must run meanwhile."""

    def __init__(
        self, reading: anyio.abc.ByteReceiveStream, writing: anyio.abc.ByteSendStream
    ) -> None:
        self._reading = reading
        self._writing = writing
        self._pending: dict[int, _Pending] = {}
        self._last = 0
        self._queue = asyncio.Queue[bytes](MAX_QUEUED)
        self.on_event: OnEvent = _ignore
        self.ended = anyio.Event()
        """Set when the browser has closed its pipe, or has sent a message that is not valid."""

    async def run(self) -> None:
        """Reads and writes messages until the browser ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            try:
                await self._read()
            finally:
                self.end()
                tasks.cancel_scope.cancel()

    async def call(
        self, method: str, params: Mapping[str, Any] = _NONE, session: str = ""
    ) -> dict[str, Any]:
        """Sends a command and returns its result.

        Raises:
            CdpError: the browser refused it, or has ended.
        """
        number = self._send(method, params, session)
        pending = self._pending[number] = _Pending(session)
        try:
            await pending.answered.wait()
        finally:
            del self._pending[number]
        message = pending.message
        if message is None:
            raise CdpError("the page or the browser has ended")
        if message.error is not None:
            raise CdpError(f"{method}: {message.error.get('message', '')}"[:_MAX_REASON])
        return message.result

    def tell(self, method: str, params: Mapping[str, Any] = _NONE, session: str = "") -> None:
        """Sends a command whose result nobody needs; does nothing when the browser has ended."""
        if not self.ended.is_set():
            self._send(method, params, session)

    def forget(self, session: str) -> None:
        """Fails the commands to a target that is gone: it will not answer them."""
        for pending in self._pending.values():
            if pending.session == session:
                pending.answered.set()

    def end(self) -> None:
        """Ends all waits: the commands without an answer fail."""
        self.ended.set()
        for pending in self._pending.values():
            pending.answered.set()

    def _send(self, method: str, params: Mapping[str, Any], session: str) -> int:
        if self.ended.is_set():
            raise CdpError("the browser has ended")
        self._last += 1
        command = {"id": self._last, "method": method, "params": dict(params)}
        if session:
            command["sessionId"] = session
        try:
            self._queue.put_nowait(msgspec.json.encode(command) + b"\0")
        except asyncio.QueueFull:
            self.end()
            raise CdpError("the browser reads no commands") from None
        return self._last

    async def _write(self) -> None:
        try:
            while True:
                await self._writing.send(await self._queue.get())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.end()

    async def _read(self) -> None:
        buffer = bytearray()
        try:
            async for data in self._reading:
                begin = len(buffer)
                buffer += data
                while (end := buffer.find(0, begin)) >= 0:
                    self._take(msgspec.json.decode(buffer[:end], type=_Message))
                    del buffer[: end + 1]
                    begin = 0
                if len(buffer) > MAX_MESSAGE:
                    return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, msgspec.MsgspecError):
            return

    def _take(self, message: _Message) -> None:
        if not message.id:
            self.on_event(message.sessionId, message.method, message.params)
        elif (pending := self._pending.get(message.id)) is not None:
            pending.message = message
            pending.answered.set()


def _ignore(_: str, __: str, ___: dict[str, Any]) -> None:
    """Ignores an event."""
