"""A command as a backend receives it, and as a running process."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePosixPath

import anyio.abc
from msgspec import Struct

from skerry.config.sandbox import SandboxConfig
from skerry.features.sandbox.stage import Mount
from skerry.infra.process import Child
from skerry.infra.terminal import PseudoTerminal
from skerry.ports.sandbox import Limits


class SandboxCommand(Struct, frozen=True):
    """A command with its mounts, environment and limits."""

    argv: Sequence[str]
    mounts: Sequence[Mount]
    """Opened directories and files; the user inside owns the files of their owner."""
    environ: Mapping[str, str]
    """Complete environment of the command."""
    limits: Limits
    cwd: PurePosixPath
    settings: SandboxConfig
    scope: str
    """Name of the shared container of a backend that keeps containers."""
    hidden: Sequence[str] = ()
    """Paths inside that an empty folder covers."""
    covered: Sequence[str] = ()
    """Paths inside that an empty file covers."""
    listens: bool = False
    terminal: PseudoTerminal | None = None
    join: Callable[[int], Awaitable[Mapping[str, str]]] | None = None
    """Opens the proxy's port in the network namespace of a process before the command starts;
    returns the environment variables that name the proxy."""
    exclusive_session: str = ""
    """Session that may not share its network with others; empty where sharing is allowed."""


class RunningCommand:
    """A running command. Implements `ports.sandbox.SandboxProcess`."""

    def __init__(self, child: Child, terminal: PseudoTerminal | None) -> None:
        self._child = child
        self._terminal = terminal

    @property
    def pid(self) -> int:
        """Returns the process id of its outermost process on this machine."""
        return self._child.pid

    @property
    def stdin(self) -> anyio.abc.ByteSendStream:
        """Returns its standard input."""
        return self._terminal or self._child.stdin

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        """Returns its output."""
        return self._terminal or self._child.stdout

    @property
    def returncode(self) -> int | None:
        """Returns its exit code; None while it runs."""
        return self._child.returncode

    async def wait(self) -> int:
        """Waits until it has ended; returns its exit code."""
        return await self._child.wait()

    def kill(self) -> None:
        """Kills every process inside."""
        self._child.kill()

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        if self._terminal is not None:
            self._terminal.resize(rows, columns)
