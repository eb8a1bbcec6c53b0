"""A process for work on text that others wrote: with limits, and of no loss when it is killed.

A long text can keep one CPU busy, and one interpreter with it: what runs here stops nothing else.
"""

import os
import select
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

HEAD: Final = struct.Struct("!I")
CPU_SECONDS: Final = 20
"""CPU limit of one call, in seconds."""
WALL_SECONDS: Final = 120.0
"""Time limit of one call, in seconds, on a machine whose CPU is busy with others."""
MEMORY_BYTES: Final = 1 << 30
IDLE_SECONDS: Final = 30
"""Seconds after which an idle process ends; the next call starts another."""
_LAST_SECONDS: Final = 0.2
LONGEST: Final = 256 << 20
"""Bytes of an answer."""
_COMMAND: Final = (sys.executable, "-P", "-m", "skerry.infra.expendable_child")
_ENVIRONMENT: Final = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


class ExpendableError(Exception):
    """The process gave no answer: a limit ended it, or the function failed."""


class Expendable:
    """Calls one function in a process of its own; blocking, one call at a time, from any thread.

    Args:
        function: `package.module:name`; takes one value that MessagePack can hold and returns one.
        cpu_seconds: CPU time after which a call is ended.
        memory_bytes: Address space of the process.
        idle_seconds: Time without a call after which the process ends.
        environ: Where the few variables come from that the process gets; no key is among them.

    Cost: about 60 ms of CPU for the first call after a pause, then some 50 us and a copy of the
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
        own = os.environ if environ is None else environ
        self._environ = {name: own[name] for name in _ENVIRONMENT if name in own}
        limits = (str(cpu_seconds), str(memory_bytes), str(idle_seconds))
        self._command = (*_COMMAND, function, *limits)
        self._calling = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []  # one at most
        weakref.finalize(self, _end, self._running)

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return next((one.pid for one in self._running if one.poll() is None), None)

    def __call__(self, value: object) -> object:
        """Calls the function.

        Raises:
            ExpendableError: it took too much CPU or memory, or failed; the next call finds a new
                process.
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
                    raise  # the function failed; the process goes on
                except (OSError, EOFError, msgspec.DecodeError) as error:
                    failure = error
                    code = _end(self._running)
                except BaseException:
                    _end(self._running)
                    raise
                if code != 0:  # 0: its idle time ended while the request was on its way
                    break
        raise ExpendableError(f"its process ended ({_why(code, failure)})") from failure

    def close(self) -> None:
        """Ends the process, also in the middle of a call."""
        for process in tuple(self._running):
            process.kill()
        with self._calling:
            _end(self._running)

    def _answered(self, request: bytes) -> object:
        descriptor = self._asked(request)
        if not select.select([descriptor], [], [], WALL_SECONDS)[0]:
            raise EOFError(f"no answer within {WALL_SECONDS:g} s")
        (length,) = HEAD.unpack(_exactly(descriptor, HEAD.size))
        if length > LONGEST:
            raise EOFError(f"an answer of {length} bytes")
        ok, answer = msgspec.msgpack.decode(_exactly(descriptor, length), type=tuple[bool, object])
        if not ok:
            raise ExpendableError(str(answer))
        return answer

    def _asked(self, request: bytes) -> int:
        """Sends a request; returns where its answer comes."""
        process = self._alive()
        if process.stdin is None or process.stdout is None:
            raise EOFError
        process.stdin.write(request)
        process.stdin.flush()
        return process.stdout.fileno()

    def _alive(self) -> subprocess.Popen[bytes]:
        if self._running and self._running[0].poll() is not None:
            _end(self._running)
        if not self._running:
            process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environ,
                start_new_session=True,
            )
            self._running.append(process)
        return self._running[0]


def _end(running: list[subprocess.Popen[bytes]]) -> int | None:
    """Ends the process, if there is one; returns its exit code."""
    if not running:
        return None
    process = running.pop()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_SECONDS)  # where it ends by itself its code says why
    process.kill()
    return process.wait()


def _exactly(descriptor: int, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        if not (part := os.read(descriptor, min(length - len(parts), 1 << 20))):
            raise EOFError
        parts += part
    return bytes(parts)


def _why(code: int | None, error: BaseException) -> str:
    return str(error) or (f"signal {-code}" if code is not None and code < 0 else f"code {code}")
