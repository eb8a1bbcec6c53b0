"""JSON-RPC 2.0 over two pipes: one JSON object a line, requests in both directions."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Final

import anyio
import anyio.abc
import msgspec
from msgspec import Struct, field

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import SkerryError

MAX_LINE: Final = 16 * 1024 * 1024
"""Limit of one line, in bytes."""
MAX_CALLS: Final = 256
"""Limit of calls without an answer."""
MAX_QUEUED: Final = 256
"""Limit of lines that the process has not read."""
MAX_SERVED: Final = 32
"""Limit of concurrent requests of the process."""
REFUSED: Final = -32000
"""Code of an expected error; its message is for people."""
_INTERNAL: Final = -32603
_MAX_SHOWN: Final = 80


class RemoteError(Exception):
    """A call failed, or the process ended; the message has the reason."""


class RemoteRefusedError(Exception):
    """The process refused a call with an expected error."""

    def __init__(self, message: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(message)


class _Error(Struct):
    code: int = _INTERNAL
    message: str = ""
    data: Any = None


class _Line(Struct):
    id: int | str | None = None
    method: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    error: _Error | None = None


class _Call(Struct):
    ended: anyio.Event
    result: Any = None
    error: Exception | None = None


Serve = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Answers a request of the process."""
Note = Callable[[str, Mapping[str, Any]], None]
"""Handles a notification of the process."""


class RpcConnection:
    """The two pipes of a process; `run` reads and writes them until they close."""

    def __init__(
        self,
        pipes: tuple[anyio.abc.ByteSendStream, anyio.abc.ByteReceiveStream],
        serve: Serve,
        note: Note,
    ) -> None:
        self._out, self._in = pipes
        self._serve = serve
        self._note = note
        self._numbers = count(1)
        self._calls: dict[int, _Call] = {}
        self._queue, self._queued = anyio.create_memory_object_stream[bytes](MAX_QUEUED)
        self._served = 0
        self.reason = ""
        """Reason of the end of the connection; empty while it is open."""

    async def run(self) -> None:
        """Reads and writes until the process closes a pipe, or breaks the protocol."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            try:
                await self._read(tasks)
            except RemoteError as error:
                self.reason = str(error)
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass
            tasks.cancel_scope.cancel()

    def close(self, reason: str) -> None:
        """Fails all pending calls with the reason; an earlier reason is kept."""
        self.reason = self.reason or reason
        for call in self._calls.values():
            call.error = RemoteError(self.reason)
            call.ended.set()
        self._calls.clear()
        self._queue.close()
        self._queued.close()

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Calls a method of the process; returns its result.

        A cancelled call sends the notification `cancel`.

        Raises:
            RemoteError: the process returned an error, ended, or does not read.
            RemoteRefusedError: the process refused the call.
        """
        if self.reason:
            raise RemoteError(self.reason)
        if len(self._calls) >= MAX_CALLS:
            raise RemoteError(f"{MAX_CALLS} calls have not returned")
        number = next(self._numbers)
        call = self._calls[number] = _Call(anyio.Event())
        try:
            self._send({"id": number, "method": method, "params": params})
            await call.ended.wait()
        except anyio.get_cancelled_exc_class():
            if number in self._calls and not self.reason:
                self._tell("cancel", {"id": number})
            raise
        finally:
            self._calls.pop(number, None)
        if call.error is not None:
            raise call.error
        return call.result

    def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            self._send({"method": method, "params": params})
        except RemoteError as error:
            self.reason = self.reason or str(error)

    def _send(self, tree: Mapping[str, Any]) -> None:
        line = msgspec.json.encode({"jsonrpc": "2.0", **tree}, enc_hook=str) + b"\n"
        if len(line) > MAX_LINE:
            raise RemoteError(f"a line for the process has more than {MAX_LINE} bytes")
        try:
            self._queue.send_nowait(line)
        except anyio.WouldBlock:
            raise RemoteError("the process does not read its input") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise RemoteError(self.reason or "the process ended") from None

    async def _write(self) -> None:
        try:
            async for line in self._queued:
                await self._out.send(line)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # the end of its output has the reason

    async def _read(self, tasks: anyio.abc.TaskGroup) -> None:
        rest = bytearray()
        while True:
            begin = len(rest)
            rest += await self._in.receive()
            if rest.find(b"\n", begin) < 0:
                if len(rest) > MAX_LINE:
                    raise RemoteError(f"it wrote a line of more than {MAX_LINE} bytes")
                continue
            *lines, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for text in filter(None, map(bytes.strip, lines)):
                self._take(_parsed(text), tasks)

    def _take(self, line: _Line, tasks: anyio.abc.TaskGroup) -> None:
        if line.method is None:
            self._answered(line)
        elif line.id is None:
            self._note(line.method, line.params)
        elif self._served >= MAX_SERVED:
            error = {"code": _INTERNAL, "message": f"{MAX_SERVED} requests are under way"}
            self._send({"id": line.id, "error": error})
        else:
            self._served += 1
            tasks.start_soon(self._answer, line)

    def _answered(self, line: _Line) -> None:
        call = self._calls.pop(line.id, None) if isinstance(line.id, int) else None
        if call is None:
            return  # the call was cancelled
        if line.error is None:
            call.result = line.result
        else:
            call.error = _raised(line.error)
        call.ended.set()

    async def _answer(self, line: _Line) -> None:
        """Answers a request of the process."""
        try:
            result = await self._serve(line.method or "", line.params)
            answer: dict[str, Any] = {"result": result}
        except SkerryError as error:
            data = {"remedy": error.remedy}
            answer = {"error": {"code": REFUSED, "message": str(error), "data": data}}
        except (TypeError, ValueError) as error:
            answer = {"error": {"code": _INTERNAL, "message": f"{type(error).__name__}: {error}"}}
        finally:
            self._served -= 1
        try:
            self._send({"id": line.id, **answer})
        except RemoteError as error:
            self.reason = self.reason or str(error)


def _parsed(text: bytes) -> _Line:
    try:
        return msgspec.json.decode(text, type=_Line)
    except UNREADABLE as error:
        excerpt = text[:_MAX_SHOWN].decode("utf-8", "replace")
        raise RemoteError(
            f"it wrote a line that is no JSON-RPC: {excerpt!r}; logs belong to standard error"
        ) from error


def _raised(error: _Error) -> Exception:
    if error.code != REFUSED:
        return RemoteError(error.message or f"error {error.code}")
    remedy = error.data.get("remedy", "") if isinstance(error.data, dict) else ""
    return RemoteRefusedError(error.message, str(remedy))


def encoded(body: bytes) -> str:
    """Returns bytes as base64 text."""
    return base64.b64encode(body).decode()
