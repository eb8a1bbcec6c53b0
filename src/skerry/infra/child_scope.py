"""Scope of a command: a program that ends every process which the command started.

`python -I -S child_scope.py LIFELINE TERMINAL PROGRAM ...`. It adopts orphans of the command, also
those in a session of their own. It ends all of them when the command ends, at SIGTERM, and when the
other end of the pipe LIFELINE is closed everywhere. Its exit status is that of the command. Where
TERMINAL is `1`, its standard input becomes the controlling terminal of the command.
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
"""Limit for ending all processes; a process of another user cannot be ended."""
_PAUSE: Final = 0.01
_NOT_EXECUTED: Final = 126


def scoped(command: Sequence[str], lifeline: str, *, is_terminal: bool) -> list[str]:
    """Returns the command line that runs `command` in a scope.

    `lifeline` is the descriptor of the reading end of a pipe that only this process holds open.
    """
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
    null_device = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # else this process would hold the output of the command open
        os.dup2(null_device, number)
    code = _followed(pid, lifeline, woken[0])
    _end_all()
    return code


def _wakes() -> tuple[int, int]:
    """Returns a pipe that gets a byte at each SIGCHLD and SIGTERM."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read, write


def _become(command: Sequence[str], descriptors: Sequence[int], *, is_terminal: bool) -> None:
    """Executes the command in a session of its own; `descriptors` are closed before."""
    try:
        os.setsid()
        if is_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in descriptors:
            os.close(descriptor)
        os.execv(command[0], list(command))  # noqa: S606 - no shell interprets the command
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}.\n".encode())
    finally:
        os._exit(_NOT_EXECUTED)


def _followed(pid: int, lifeline: int, woken: int) -> int:
    """Waits for the end of the command, of the pipe, or for SIGTERM; returns the exit code."""
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
    """Reaps ended children; returns the exit code of the command when it is one of them."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _end_all() -> None:
    """Ends all descendants: the children of an ended process become children of this one."""
    until = time.monotonic() + _SECONDS
    own_pid = os.getpid()
    while time.monotonic() < until:
        for child in _children(own_pid):
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_PAUSE)


def _children(pid: int) -> list[int]:
    """Returns the process ids of the direct children."""
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
    """Ends this program with the exit status of the command, a signal included."""
    if code < 0:
        with suppress(OSError):  # the handler of SIGKILL cannot be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _, pipe, terminal, *words = sys.argv
    _end_as(main(int(pipe), is_terminal=terminal == "1", command=words))
