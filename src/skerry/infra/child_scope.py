"""Scope of a command: a program of its own that ends all that the command started.

`python -I -S child_scope.py LIFELINE TERMINAL PROGRAM ...`. It adopts what the command leaves
behind, a process with a session of its own included, so that nothing of the command outlives it.
All is ended when the command ends, at SIGTERM, and when nobody holds the other end of the pipe
LIFELINE any more. It ends as the command did. Where TERMINAL is `1`, its standard input becomes the
controlling terminal of the command.
"""

import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_ADOPT: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""
_SECONDS: Final = 10.0
"""Limit of the ending; a process of another user cannot be ended, and is left then."""
_PAUSE: Final = 0.01
_NOT_EXECUTED: Final = 126


def scoped(command: Sequence[str], lifeline: str, *, is_terminal: bool) -> list[str]:
    """Returns the command within its scope; `lifeline` is the descriptor of a pipe's end."""
    words = [sys.executable, "-I", "-S", __file__, lifeline, str(int(is_terminal))]
    return [*words, *command]


def main(lifeline: int, *, is_terminal: bool, command: Sequence[str]) -> int:
    """Runs the command; returns its exit code, negative where a signal ended it."""
    ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    woken = _wakes()
    pid = os.fork()
    if pid == 0:
        _become(command, (lifeline, *woken), is_terminal=is_terminal)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # so that the end of the command is the end of its output
        os.dup2(nothing, number)
    code = _followed(pid, lifeline, woken[0])
    _end_all()
    return code


def _wakes() -> tuple[int, int]:
    """Returns a pipe that gets a byte at each signal of interest."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read, write


def _become(command: Sequence[str], ours: Sequence[int], *, is_terminal: bool) -> None:
    """Becomes the command, in a session of its own."""
    try:
        os.setsid()
        if is_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in ours:
            os.close(descriptor)
        os.execv(command[0], list(command))  # noqa: S606 - no shell reads the command
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}.\n".encode())
    finally:
        os._exit(_NOT_EXECUTED)


def _followed(pid: int, lifeline: int, woken: int) -> int:
    """Waits for the end of the command or of its time; returns its code."""
    poll = select.poll()
    poll.register(lifeline, select.POLLHUP)
    poll.register(woken, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        is_over = lifeline in ready
        if woken in ready:
            is_over = is_over or signal.SIGTERM in os.read(woken, 4096)
        code = None if is_over else _reaped(pid)
        if is_over or code is not None:
            return -signal.SIGKILL if code is None else code


def _reaped(pid: int) -> int | None:
    """Takes what has ended; returns the code of the command if it is among that."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _end_all() -> None:
    """Ends every process beneath: each that is ended hands its own children to this one."""
    until = time.monotonic() + _SECONDS
    own = os.getpid()
    while time.monotonic() < until:
        for child in _children(own):
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_PAUSE)


def _children(pid: int) -> list[int]:
    """Returns the processes that this one has to wait for."""
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return [child for child in _processes() if _parent(child) == pid]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - starts sooner


def _parent(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[1])
    except (OSError, ValueError, IndexError):
        return -1


def _end_as(code: int) -> None:
    """Ends this program as the command ended."""
    if code < 0:
        with suppress(OSError):  # SIGKILL has no handler to take away
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _, pipe, terminal, *words = sys.argv
    _end_as(main(int(pipe), is_terminal=terminal == "1", command=words))
