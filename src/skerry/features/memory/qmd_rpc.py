"""Requests and answers over the pipes of a process: JSON-RPC, one message a line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import anyio
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from skerry.features.memory.qmd_process import MOST_CHARS, QmdError
from skerry.infra.process import Child
from skerry.infra.untrusted_json import UNREADABLE

_ENDED: Final = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError)
_BROKE: Final = "QMD's server broke off"
_SEND_SECONDS: Final = 5.0
"""A pipe takes 64 KB at once; a server that reads nothing for so long is none."""


class _Failure(msgspec.Struct, frozen=True):
    message: str = ""


class _Message(msgspec.Struct, frozen=True):
    """An answer; what else it says of itself has no `id` of ours, and is passed over."""

    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _Failure | None = None


@dataclass(slots=True)
class _Waiting:
    done: anyio.Event = field(default_factory=anyio.Event)
    message: _Message | None = None


class Talk:
    """Asks a process; any number of requests may be under way. Keep `run` going."""

    def __init__(self, process: Child) -> None:
        self._out = process.stdin
        self._in = BufferedByteReceiveStream(process.stdout)
        self._writing = anyio.Lock()
        self._ids = count(1)
        self._waiting: dict[int | str | None, _Waiting] = {}
        self.over = anyio.Event()
        """Set when no answer comes any more."""
        self.why = ""
        """Reason of the end, then."""

    async def run(self) -> None:
        """Hands answers to those who wait, until there are no more."""
        try:
            while True:
                line = await self._in.receive_until(b"\n", MOST_CHARS)
                message = msgspec.json.decode(line, type=_Message)
                if (waiting := self._waiting.get(message.id)) is not None:
                    waiting.message = message
                    waiting.done.set()
        except (*_ENDED, anyio.IncompleteRead):
            self.why = f"{_BROKE}."
        except anyio.DelimiterNotFound:
            self.why = f"{_BROKE}: it answered more than {MOST_CHARS} characters."
        except UNREADABLE:
            self.why = f"{_BROKE}: its answer is not JSON."
        finally:
            self._end(f"{_BROKE}.")

    async def ask(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Returns the result, as JSON; whoever calls sets the deadline.

        Raises:
            QmdError: it refused, or nothing comes any more.
        """
        number, waiting = next(self._ids), _Waiting()
        self._waiting[number] = waiting
        try:
            await self._send({"id": number, "method": method, "params": params})
            await waiting.done.wait()
        finally:
            del self._waiting[number]
        message = waiting.message
        if message is None:
            raise QmdError(self.why)
        if message.error is not None:
            raise QmdError(f"QMD's server refused: {message.error.message}")
        return bytes(message.result)

    async def tell(self, method: str) -> None:
        """Sends what has no answer.

        Raises:
            QmdError: it does not listen any more.
        """
        await self._send({"method": method})

    async def _send(self, frame: Mapping[str, Any]) -> None:
        if self.over.is_set():
            raise QmdError(self.why)
        line = msgspec.json.encode({"jsonrpc": "2.0", **frame}) + b"\n"
        # What one began to send must be whole, or the next would be read as the rest of it.
        with anyio.move_on_after(_SEND_SECONDS, shield=True) as patience:
            async with self._writing:
                try:
                    await self._out.send(line)
                except _ENDED as error:
                    raise QmdError(f"{_BROKE}.") from error
        if patience.cancelled_caught:
            self._end(f"{_BROKE}: it reads nothing.")
            raise QmdError(self.why)

    def _end(self, why: str) -> None:
        """Lets nobody wait any more; of several reasons the first counts."""
        self.why = self.why or why
        self.over.set()
        for waiter in self._waiting.values():
            waiter.done.set()
