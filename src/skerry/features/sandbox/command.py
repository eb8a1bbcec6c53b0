"""One command as a backend gets it, and as it runs."""

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
    """A command with all that it gets."""

    argv: Sequence[str]
    mounts: Sequence[Mount]
    """Opened directories and files; the owner's are those of the user inside."""
    environ: Mapping[str, str]
    """Its whole environment."""
    limits: Limits
    cwd: PurePosixPath
    settings: SandboxConfig
    scope: str
    """Names the container that is shared, where the backend keeps one."""
    hidden: Sequence[str] = ()
    """Paths inside that an empty folder covers."""
    covered: Sequence[str] = ()
    """Paths inside that an empty file covers."""
    listens: bool = False
    terminal: PseudoTerminal | None = None
    join: Callable[[int], Awaitable[Mapping[str, str]]] | None = None
    """Opens the proxy's port in the network namespace of a process, before the command starts;
    returns the variables that lead to it."""
    alone: str = ""
    """Session with which no other may share a network; empty where it may."""


class RunningCommand:
    """A command that runs inside. Implements `ports.sandbox.SandboxProcess`."""

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
        """Ends everything inside, at once."""
        self._child.kill()

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        if self._terminal is not None:
            self._terminal.resize(rows, columns)
