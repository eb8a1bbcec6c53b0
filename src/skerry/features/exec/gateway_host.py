"""Runs commands on the gateway's own machine, without a sandbox."""

import errno
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import anyio.abc
from msgspec.structs import replace

from skerry.features.exec.programs import SEARCH_PATH
from skerry.infra.child_scope import scoped
from skerry.infra.process import LIFELINE, Child, NotStartedError, Program, child
from skerry.infra.terminal import PseudoTerminal

END_SECONDS: Final = 15.0
"""Maximum time for the end of all processes of a command."""

_GIT: Final = (("core.fsmonitor", "false"), ("safe.bareRepository", "explicit"))
"""Settings of git that a repository cannot override: git runs no program of the repository while it
looks for changes, and does not treat a bare folder as a repository."""


class HostProcess:
    """A command on the gateway's machine. Implements `ports.sandbox.SandboxProcess`."""

    def __init__(self, process: Child, terminal: PseudoTerminal | None) -> None:
        self._process = process
        self._terminal = terminal

    @property
    def pid(self) -> int:
        """Returns its process id."""
        return self._process.pid

    @property
    def stdin(self) -> anyio.abc.ByteSendStream:
        """Returns its standard input, of a command that `listens` or has a terminal."""
        return self._terminal or self._process.stdin

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        """Returns its standard output and standard error in their order."""
        return self._terminal or self._process.stdout

    @property
    def returncode(self) -> int | None:
        """Returns its exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Waits until it has ended; returns its exit code."""
        return await self._process.wait()

    def kill(self) -> None:
        """Kills the command and all its processes."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):  # the scope kills the remaining processes
                os.kill(self._process.pid, signal.SIGTERM)
        if sys.platform != "linux":
            self._process.kill()

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        if self._terminal is not None:
            self._terminal.resize(rows, columns)


@asynccontextmanager
async def on_gateway(
    program: Program, *, listens: bool, pty: bool = False
) -> AsyncGenerator[HostProcess]:
    """Runs a command for the block; its end kills all processes, also those in new sessions.

    Raises:
        NotStartedError: the command cannot be started, or no terminal is available.
    """
    program = _scoped(program, is_terminal=pty)
    if not pty:
        async with child(program, listens=listens) as process:
            yield HostProcess(process, None)
        return
    try:
        terminal = PseudoTerminal()
    except OSError as error:
        raise NotStartedError("a terminal", error) from error
    try:
        async with child(replace(program, terminal=terminal.program_end)) as process:
            terminal.hand_over()
            yield HostProcess(process, terminal)
    finally:
        with anyio.CancelScope(shield=True):
            await terminal.aclose()


def _scoped(program: Program, *, is_terminal: bool) -> Program:
    """Returns the program within a scope.

    Raises:
        NotStartedError: the program does not exist, which the scope could not report.
    """
    path = shutil.which(program.command[0], path=program.environ.get("PATH", os.defpath))
    if path is None:
        number = errno.ENOENT
        raise NotStartedError(program.command[0], OSError(number, os.strerror(number)))
    if sys.platform != "linux":  # only the process group is killed, not a process that left it
        return program
    words = scoped([path, *program.command[1:]], LIFELINE, is_terminal=is_terminal)
    return replace(program, command=words, filters=True, grace=END_SECONDS)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the whole environment of a command, without the gateway's variables."""
    git = {"GIT_CONFIG_COUNT": str(len(_GIT))}
    for number, (key, value) in enumerate(_GIT):
        git |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        "PATH": ":".join(SEARCH_PATH),
        "HOME": environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **git,
    }
