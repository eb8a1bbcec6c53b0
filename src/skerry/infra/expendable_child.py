"""The process of an `Expendable`: reads values, calls one function, writes the results.

`python -m skerry.infra.expendable_child MODULE:FUNCTION CPU_SECONDS IDLE_SECONDS`. It
ends at the end of its input, or after IDLE_SECONDS without a value.
"""

import os
import select
import signal
import struct
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD: Final = struct.Struct("!I")
"""Length in bytes of the value that follows."""


def main(function: str, cpu_seconds: int, idle_seconds: int) -> int:
    """Serves until the end of the input or the idle limit; returns the exit code."""
    source = 0
    target = os.dup(1)
    os.dup2(2, 1)  # output of a library must not mix with the answers
    module, _, name = function.partition(":")
    call: Callable[[Any], Any] = getattr(import_module(module), name)
    while select.select([source], [], [], idle_seconds)[0]:
        head = _read(source, HEAD.size)
        if len(head) < HEAD.size:
            return 0
        (length,) = HEAD.unpack(head)
        value = msgspec.msgpack.decode(_read(source, length))
        # When the timer expires the kernel kills the process, also within one call of C.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        try:
            answer = msgspec.msgpack.encode((True, call(value)))
        except MemoryError:
            answer = msgspec.msgpack.encode((False, "it took too much memory"))
        except Exception as error:  # noqa: BLE001 - a failure is an answer, and the process goes on
            answer = msgspec.msgpack.encode((False, f"{type(error).__name__}: {error}"))
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(target, HEAD.pack(len(answer)) + answer)
    return 0


def _read(source: int, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length and (part := os.read(source, min(length - len(parts), 1 << 20))):
        parts += part
    return bytes(parts)


def _write(target: int, data: bytes) -> None:
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(target, unwritten) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:4])))
