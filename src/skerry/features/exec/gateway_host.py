"""Runs commands on the gateway's own machine, without a sandbox."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio.abc

from skerry.infra.process import Child, Program, child


class GatewayProcess:
    """A command on the gateway's machine. Implements `ports.sandbox.SandboxProcess`."""

    def __init__(self, process: Child) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Returns its process id."""
        return self._process.pid

    @property
    def stdin(self) -> anyio.abc.ByteSendStream:
        """Returns its standard input, of a command that `listens`."""
        return self._process.stdin

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        """Returns its standard output and standard error in their order."""
        return self._process.stdout

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
        """Does nothing: it has no terminal."""


@asynccontextmanager
async def on_gateway(program: Program, *, listens: bool) -> AsyncGenerator[GatewayProcess]:
    """Runs a command for the block, whose end ends its whole group. Raises `NotStartedError`."""
    async with child(program, listens=listens) as process:
        yield GatewayProcess(process)
