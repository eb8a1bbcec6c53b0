"""A command that runs, or ran: its process, its output and its end."""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from enum import StrEnum
from typing import Final

import anyio
from msgspec import Struct

from skerry.features.exec.output import Output
from skerry.infra.clock import Clock
from skerry.infra.process import LINGER_SECONDS, NotStartedError
from skerry.model.errors import SkerryError
from skerry.model.ids import SessionKey
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.ports.sandbox import SandboxProcess

logger = logging.getLogger(__name__)

FLOOD_BYTES: Final = 64 * 1024 * 1024
"""Bytes of output after which a command is ended."""
WRITE_SECONDS: Final = 10.0
"""Seconds that a command has to read what is written to it."""
NO_TERMINAL: Final = "Warning: no terminal can be given here; the command has a pipe instead."


class CommandState(StrEnum):
    """State of a command."""

    RUNNING = "running"
    COMPLETED = "completed"
    """It ended by itself, with whatever exit code."""
    FAILED = "failed"
    """It could not be started, or was ended: by a signal, at a limit, or on request."""


class ExecCommand(Struct, frozen=True):
    """A command to run."""

    text: str
    host: str
    """`sandbox`, `gateway` or `node`."""
    cwd: str
    open: Callable[[bool], AbstractAsyncContextManager[SandboxProcess]]
    """Starts it for a block, whose end ends all of it; true gives it a terminal."""
    seconds: float
    """Time limit."""
    listens: bool = False
    """True when it has a standard input that can be written."""
    pty: bool = False
    """True when it is to have a terminal, where there can be one."""
    is_tainted: bool = False
    """True when the run that began it had read words of others."""
    request: RunRequest | None = None
    """Request of the run that began it, for the message about its end."""


class ProcessSession:
    """One command of one conversation. `run` it in a task of its own."""

    words: Origin = Origin.TOOL
    """Origin of the words that its output may have."""

    def __init__(
        self, session_id: str, command: ExecCommand, key: SessionKey, clock: Clock
    ) -> None:
        self.id = session_id
        self.command = command
        self.key = key
        self.output = Output()
        self.started_at = clock.now_ms()
        self.ended_at: int | None = None
        self.pid: int | None = None
        self.exit_code: int | None = None
        """Negative where a signal ended it; None while it runs, and where it was not started."""
        self.reason = ""
        """Reason of an end that was not its own; empty otherwise."""
        self.status = CommandState.RUNNING
        self.warning = ""
        """Note for the model about how it was started; empty otherwise."""
        self.has_terminal = False
        self.is_told = False
        """True when the agent knows how it ended."""
        self.is_background = False
        """True when the call that began it has returned."""
        self.started = anyio.Event()
        """Set when it runs, or could not be started."""
        self.done = anyio.Event()
        self.on_output: Callable[[], None] | None = None
        """Called after each piece of output."""
        self._clock = clock
        self._process: SandboxProcess | None = None
        self._scope = anyio.CancelScope()
        self._input_closed = not (command.listens or command.pty)
        self._printed = anyio.Event()

    @property
    def duration_ms(self) -> int:
        """Returns how long it has run."""
        return max(0, (self.ended_at or self._clock.now_ms()) - self.started_at)

    @property
    def ending(self) -> str:
        """Returns how it ended, or that it runs, as a sentence."""
        if self.status is CommandState.RUNNING:
            return "Process still running."
        if self.reason:
            return f"Process ended: {self.reason}."
        return f"Process exited with code {self.exit_code}."

    @property
    def is_writable(self) -> bool:
        """Returns whether its standard input can be written."""
        return self._process is not None and not self._input_closed

    async def run(self) -> None:
        """Runs the command until it ends, is ended, or its time is over. Never raises."""
        status, reason = CommandState.FAILED, "it was ended with the gateway"
        try:
            with self._scope:
                with anyio.move_on_after(self.command.seconds) as limit:
                    status, reason = await self._opened()
                if limit.cancelled_caught:
                    status = CommandState.FAILED
                    reason = f"Command was ended after {self.command.seconds:g} s"
            if self._scope.cancelled_caught:
                status, reason = CommandState.FAILED, "Command was ended on request"
        except (NotStartedError, SkerryError) as error:
            remedy = f" {error.remedy}" if isinstance(error, SkerryError) and error.remedy else ""
            status, reason = CommandState.FAILED, f"{error}{remedy}"
        except Exception:
            # The other commands, and the gateway, must not end with this one.
            logger.exception("the command %s failed", self.id)
            status, reason = (
                CommandState.FAILED,
                "The command could not be run; the log has the reason",
            )
        finally:
            self._end(status, reason)

    async def _opened(self) -> tuple[CommandState, str]:
        """Starts the command, with a terminal if it wants one and there can be one."""
        if self.command.pty:
            try:
                return await self._follow(terminal=True)
            except (NotStartedError, SkerryError):
                if self.started.is_set():
                    raise
                self.warning = NO_TERMINAL
        return await self._follow(terminal=False)

    async def _follow(self, *, terminal: bool) -> tuple[CommandState, str]:
        """Reads what the command prints until it ends; returns how it ended."""
        async with self.command.open(terminal) as process:
            self._process, self.pid, self.has_terminal = process, process.pid, terminal
            self.started.set()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process)
                code = await process.wait()
                process.kill()  # what it left behind would hold its output open
                tasks.cancel_scope.deadline = anyio.current_time() + LINGER_SECONDS
            self.exit_code = code
        if self.output.size > FLOOD_BYTES:
            limit = FLOOD_BYTES // (1024 * 1024)
            return CommandState.FAILED, f"Command was ended: it printed more than {limit} MB"
        if code < 0:
            return CommandState.FAILED, f"Command aborted by signal {-code}"
        return CommandState.COMPLETED, ""

    async def _read(self, process: SandboxProcess) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for data in process.stdout:
                self.output.add(data)
                self._tell()
                if self.output.size > FLOOD_BYTES:
                    process.kill()
                    return

    def _tell(self) -> None:
        self._printed.set()
        self._printed = anyio.Event()
        if self.on_output is not None:
            self.on_output()

    def _end(self, status: CommandState, reason: str) -> None:
        self.output.end()
        self.status, self.reason = status, reason
        self.ended_at = self._clock.now_ms()
        self._process = None
        self._input_closed = True
        self.started.set()
        self.done.set()
        self._tell()

    def kill(self) -> None:
        """Ends the command and all that it started, soon."""
        self._scope.cancel()

    async def wait(self, seconds: float) -> bool:
        """Waits until it has ended, at most this long; returns whether it has."""
        with anyio.move_on_after(seconds):
            await self.done.wait()
        return self.done.is_set()

    async def wait_for_output(self, seconds: float) -> None:
        """Waits until it prints something or ends, at most this long."""
        if not self.done.is_set():
            with anyio.move_on_after(seconds):
                await self._printed.wait()

    async def write(self, data: bytes) -> bool:
        """Writes to its standard input; returns False if it takes nothing."""
        if self._process is None or self._input_closed:
            return False
        try:
            with anyio.fail_after(WRITE_SECONDS):
                await self._process.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError, OSError):
            return False
        return True

    async def close_input(self) -> None:
        """Ends its standard input: a pipe is closed, a terminal gets the character of its end."""
        if self._process is None or self._input_closed:
            return
        if self.has_terminal:
            await self.write(b"\x04")
            return
        self._input_closed = True
        with suppress(anyio.BrokenResourceError, OSError):
            await self._process.stdin.aclose()
