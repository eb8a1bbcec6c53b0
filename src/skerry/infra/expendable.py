"""A process for work on untrusted text: limited, and killed without loss.

A long text can occupy a CPU and the interpreter lock; in a process of its own it blocks no caller
but its own.
"""

import os
import select
import threading
import weakref
from collections.abc import Mapping
from typing import Final

import msgspec

from skerry.infra.expendable_child import HEAD
from skerry.infra.process import Program, Worker, allowed, module

CPU_SECONDS: Final = 20
"""CPU limit of one call, in seconds."""
WALL_SECONDS: Final = 120.0
"""Time limit of one call, in seconds: the CPU may be busy with other processes."""
MEMORY_BYTES: Final = 1 << 30
"""Limit of the address space."""
IDLE_SECONDS: Final = 30
"""Seconds after which an idle process ends; the next call starts another."""
_LAST_SECONDS: Final = 0.2
MAX_ANSWER_BYTES: Final = 256 << 20
"""Limit of an answer, in bytes."""


class ExpendableError(Exception):
    """A limit ended the process, or the function failed. The message gives the reason."""


class Expendable:
    """Calls one function in a child process. Calls block, and may be made from any thread.

    Calls of several threads run one after another. The process is started by the first call.

    Args:
        function: `package.module:name`; its argument and result are encoded as MessagePack.
        cpu_seconds: CPU limit of one call.
        memory_bytes: Limit of the address space of the process.
        idle_seconds: Seconds without a call after which the process ends.
        environ: Environment from which the variables of `process.PYTHON` are passed on.

    Cost: about 60 ms of CPU for the first call after a pause, then about 50 us and a copy of the
    text each way.
    """

    def __init__(
        self,
        function: str,
        *,
        cpu_seconds: int = CPU_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
        idle_seconds: int = IDLE_SECONDS,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        limits = (str(cpu_seconds), str(idle_seconds))
        self._program = Program(
            module("skerry.infra.expendable_child", function, *limits),
            allowed(os.environ if environ is None else environ),
            memory_bytes=memory_bytes,
            file_bytes=0,
        )
        self._calling = threading.Lock()
        self._running: list[Worker] = []  # one at most
        weakref.finalize(self, _end, self._running)

    @property
    def pid(self) -> int | None:
        """Returns the process id; None while no process runs."""
        return next((worker.pid for worker in self._running if worker.alive), None)

    def __call__(self, value: object) -> object:
        """Returns the result of the function for `value`.

        Raises:
            ExpendableError: the function raised, or exceeded a limit. After an exceeded limit the
                next call starts a new process.
        """
        data = msgspec.msgpack.encode(value)
        request = HEAD.pack(len(data)) + data
        with self._calling:
            code: int | None = None
            failure: Exception = EOFError()
            for _ in range(2):
                try:
                    return self._answered(request)
                except ExpendableError:
                    raise  # the function failed; the process still runs
                except (OSError, EOFError, msgspec.DecodeError) as error:
                    failure = error
                    code = _end(self._running)
                except BaseException:
                    _end(self._running)
                    raise
                if code != 0:  # 0: the idle limit ended it while the request was being sent
                    break
        raise ExpendableError(f"the process ended ({_reason(code, failure)})") from failure

    def close(self) -> None:
        """Ends the process; a running call raises `ExpendableError`."""
        for worker in tuple(self._running):
            worker.kill()
        with self._calling:
            _end(self._running)

    def _answered(self, request: bytes) -> object:
        worker = self._alive()
        worker.write(request)
        descriptor = worker.output
        if not select.select([descriptor], [], [], WALL_SECONDS)[0]:
            raise EOFError(f"no answer within {WALL_SECONDS:g} s")
        (length,) = HEAD.unpack(_exactly(descriptor, HEAD.size))
        if length > MAX_ANSWER_BYTES:
            raise EOFError(f"an answer of {length} bytes")
        ok, answer = msgspec.msgpack.decode(_exactly(descriptor, length), type=tuple[bool, object])
        if not ok:
            raise ExpendableError(str(answer))
        return answer

    def _alive(self) -> Worker:
        if self._running and not self._running[0].alive:
            _end(self._running)
        if not self._running:
            self._running.append(Worker(self._program))
        return self._running[0]


def _end(running: list[Worker]) -> int | None:
    """Ends the process, if there is one; returns its exit code, negative for a signal."""
    return running.pop().end(_LAST_SECONDS) if running else None


def _exactly(descriptor: int, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        if not (part := os.read(descriptor, min(length - len(parts), 1 << 20))):
            raise EOFError
        parts += part
    return bytes(parts)


def _reason(code: int | None, error: BaseException) -> str:
    return str(error) or (f"signal {-code}" if code is not None and code < 0 else f"code {code}")
