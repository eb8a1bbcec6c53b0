"""JSON-RPC over the pipes of a process, one message per line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import anyio
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from skerry.features.memory.qmd_process import MAX_OUTPUT_BYTES, QmdError
from skerry.infra.process import Child
from skerry.infra.untrusted_json import UNREADABLE

_ENDED: Final = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError)
_BROKE: Final = "The connection to QMD's server ended"
_SEND_SECONDS: Final = 5.0
"""Time limit for a write; a pipe buffers 64 KB, so a longer wait means that nothing is read."""


class _Failure(msgspec.Struct, frozen=True):
    message: str = ""


class _Message(msgspec.Struct, frozen=True):
    """An answer; messages without the `id` of a request are ignored."""

    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _Failure | None = None


@dataclass(slots=True)
class _Waiting:
    answered: anyio.Event = field(default_factory=anyio.Event)
    message: _Message | None = None


class JsonRpc:
    """Sends requests to a process, several at a time. `run` must be running."""

    def __init__(self, process: Child) -> None:
        self._out = process.stdin
        self._in = BufferedByteReceiveStream(process.stdout)
        self._writing = anyio.Lock()
        self._ids = count(1)
        self._waiting: dict[int | str | None, _Waiting] = {}
        self.over = anyio.Event()
        """Set when the connection has ended."""
        self.reason = ""
        """Reason of the end."""

    async def run(self) -> None:
        """Delivers answers to the waiting requests, until the connection ends."""
        try:
            while True:
                line = await self._in.receive_until(b"\n", MAX_OUTPUT_BYTES)
                message = msgspec.json.decode(line, type=_Message)
                if (waiting := self._waiting.get(message.id)) is not None:
                    waiting.message = message
                    waiting.answered.set()
        except (*_ENDED, anyio.IncompleteRead):
            self.reason = f"{_BROKE}."
        except anyio.DelimiterNotFound:
            self.reason = f"{_BROKE}: an answer is longer than {MAX_OUTPUT_BYTES} bytes."
        except UNREADABLE:
            self.reason = f"{_BROKE}: an answer is not JSON."
        finally:
            self._end(f"{_BROKE}.")

    async def request(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Returns the result, as JSON; the caller sets the time limit.

        Raises:
            QmdError: the server refused, or the connection ended.
        """
        number, waiting = next(self._ids), _Waiting()
        self._waiting[number] = waiting
        try:
            await self._send({"id": number, "method": method, "params": params})
            await waiting.answered.wait()
        finally:
            del self._waiting[number]
        message = waiting.message
        if message is None:
            raise QmdError(self.reason)
        if message.error is not None:
            raise QmdError(f"QMD's server refused: {message.error.message}")
        return bytes(message.result)

    async def notify(self, method: str) -> None:
        """Sends a notification, which has no answer.

        Raises:
            QmdError: the connection ended.
        """
        await self._send({"method": method})

    async def _send(self, frame: Mapping[str, Any]) -> None:
        if self.over.is_set():
            raise QmdError(self.reason)
        line = msgspec.json.encode({"jsonrpc": "2.0", **frame}) + b"\n"
        # A line must be sent completely, or the next one would be read as its end.
        with anyio.move_on_after(_SEND_SECONDS, shield=True) as patience:
            async with self._writing:
                try:
                    await self._out.send(line)
                except _ENDED as error:
                    raise QmdError(f"{_BROKE}.") from error
        if patience.cancelled_caught:
            self._end(f"{_BROKE}: the server reads nothing.")
            raise QmdError(self.reason)

    def _end(self, reason: str) -> None:
        """Ends all waiting requests; keeps the first reason."""
        self.reason = self.reason or reason
        self.over.set()
        for waiter in self._waiting.values():
            waiter.answered.set()
