"""The process of an `Expendable`: reads values, calls one function, writes what it returns.

`python -m skerry.infra.expendable_child MODULE:FUNCTION CPU_SECONDS IDLE_SECONDS`. It
ends when its input does, or when nothing came for the idle time.
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
    """Serves until the input ends."""
    source = 0
    target = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get between the answers
    module, _, name = function.partition(":")
    call: Callable[[Any], Any] = getattr(import_module(module), name)
    while select.select([source], [], [], idle_seconds)[0]:
        head = _read(source, HEAD.size)
        if len(head) < HEAD.size:
            return 0
        (length,) = HEAD.unpack(head)
        value = msgspec.msgpack.decode(_read(source, length))
        # At its end the kernel kills the process, also within one call of C.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        try:
            answer = msgspec.msgpack.encode((True, call(value)))
        except MemoryError:
            answer = msgspec.msgpack.encode((False, "it took too much memory"))
        except Exception as error:  # noqa: BLE001 - a text that it cannot take must not end it
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
