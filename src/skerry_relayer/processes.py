"""Child processes of the relayer: each ends with this process, at the end of its input."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.abc

_VARIABLES: Final = (
    "PATH",
    "HOME",
    "LANG",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
)
"""Variables that a Python child process needs; they contain no key."""
_TAIL_BYTES: Final = 4096
_GRACE_SECONDS: Final = 2.0
_LINGER_SECONDS: Final = 1.0


class Child:
    """A running child: its pipes, its id, and the end of its standard error."""

    def __init__(self, process: anyio.abc.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise TypeError("a child has three pipes")
        self.pid = process.pid
        self.stdin: anyio.abc.ByteSendStream = process.stdin
        self.stdout: anyio.abc.ByteReceiveStream = process.stdout
        self._process = process
        self._stderr = process.stderr
        self._tail = bytearray()

    @property
    def tail(self) -> str:
        """Returns the end of its standard error."""
        return self._tail.decode(errors="replace")

    async def wait(self) -> int:
        """Waits until the child has ended; returns its exit code."""
        return await self._process.wait()

    async def read_errors(self) -> None:
        """Reads standard error until its end, so that the child never blocks on a full pipe."""
        async for part in self._stderr:
            self._tail += part
            del self._tail[:-_TAIL_BYTES]

    async def end(self) -> None:
        """Ends the child: closes its input and sends SIGTERM, after the grace time SIGKILL."""
        if self._process.returncode is None:
            await self.stdin.aclose()
            self._process.send_signal(signal.SIGTERM)
            with anyio.move_on_after(_GRACE_SECONDS):
                await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def child(command: Sequence[str], variables: Mapping[str, str]) -> AsyncGenerator[Child]:
    """Runs a Python program for the block, with additional environment variables.

    Raises:
        OSError: the program cannot be started.
    """
    base = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    process = await anyio.open_process(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=base | dict(variables),
        start_new_session=True,
    )
    running, failure = Child(process), None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.read_errors)
        try:
            yield running
        except Exception as error:  # noqa: BLE001 - raised below: the group would wrap it
            failure = error
        finally:
            with anyio.CancelScope(shield=True):
                await running.end()
                with anyio.move_on_after(_LINGER_SECONDS):
                    await process.aclose()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def module(name: str, *arguments: str) -> list[str]:
    """Returns the command that runs a module; Python does not search the current folder."""
    return [sys.executable, "-P", "-m", name, *arguments]
