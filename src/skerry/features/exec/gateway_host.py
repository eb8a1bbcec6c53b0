"""Runs commands on the gateway's own machine, without a sandbox."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
from msgspec.structs import replace

from skerry.infra.process import Child, NotStartedError, Program, child
from skerry.infra.terminal import Terminal


class GatewayProcess:
    """A command on the gateway's machine. Implements `ports.sandbox.SandboxProcess`."""

    def __init__(self, process: Child, terminal: Terminal | None) -> None:
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
        """Ends its group."""
        self._process.kill()

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        if self._terminal is not None:
            self._terminal.resize(rows, columns)


@asynccontextmanager
async def on_gateway(
    program: Program, *, listens: bool, pty: bool = False
) -> AsyncGenerator[GatewayProcess]:
    """Runs a command for the block, whose end ends its whole group.

    A terminal never becomes its controlling one: the groups of jobs, which a shell makes on such a
    terminal, would outlive the end of the group.

    Raises:
        NotStartedError: it cannot be started, or there is no terminal for it.
    """
    if not pty:
        async with child(program, listens=listens) as process:
            yield GatewayProcess(process, None)
        return
    try:
        terminal = Terminal()
    except OSError as error:
        raise NotStartedError("a terminal", error) from error
    try:
        async with child(replace(program, terminal=terminal.program_end)) as process:
            terminal.hand_over()
            yield GatewayProcess(process, terminal)
    finally:
        with anyio.CancelScope(shield=True):
            await terminal.aclose()
