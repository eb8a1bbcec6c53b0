"""A running or ended command: its process, output and end."""

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
"""Bytes of output after which a command is killed."""
WRITE_SECONDS: Final = 10.0
"""Seconds that a command has to read its input."""
NO_TERMINAL: Final = "Warning: no terminal is available here; the command has a pipe instead."


class CommandState(StrEnum):
    """State of a command."""

    RUNNING = "running"
    COMPLETED = "completed"
    """It exited, with any exit code."""
    FAILED = "failed"
    """It could not be started, or was killed: by a signal, at a limit, or on request."""


class ExecCommand(Struct, frozen=True):
    """A command to run."""

    text: str
    host: str
    """`sandbox`, `gateway` or `node`."""
    cwd: str
    open: Callable[[bool], AbstractAsyncContextManager[SandboxProcess]]
    """Starts the command for a block, whose end kills it; true requests a terminal."""
    seconds: float
    """Time limit."""
    listens: bool = False
    """True when the command has a writable standard input."""
    pty: bool = False
    """True when the command requests a terminal."""
    is_tainted: bool = False
    """True when the run that started it had read untrusted text."""
    request: RunRequest | None = None
    """Request of the run that started it, for the message about its end."""


class ProcessSession:
    """One command of one conversation. Call `run` in a separate task."""

    words: Origin = Origin.TOOL
    """Origin of the text that its output may contain."""

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
        """Negative for a signal; None while it runs, or when it was not started."""
        self.reason = ""
        """Reason why the command was killed or not started; otherwise empty."""
        self.status = CommandState.RUNNING
        self.warning = ""
        """Note about the start for the model; may be empty."""
        self.has_terminal = False
        self.is_told = False
        """True when the agent has received the end."""
        self.is_background = False
        """True when the call that started it has returned."""
        self.started = anyio.Event()
        """Set when the command runs, or could not be started."""
        self.done = anyio.Event()
        self.on_output: Callable[[], None] | None = None
        """Called after each output."""
        self._clock = clock
        self._process: SandboxProcess | None = None
        self._scope = anyio.CancelScope()
        self._input_closed = not (command.listens or command.pty)
        self._printed = anyio.Event()

    @property
    def duration_ms(self) -> int:
        """Returns its duration so far."""
        return max(0, (self.ended_at or self._clock.now_ms()) - self.started_at)

    @property
    def ending(self) -> str:
        """Returns its state as a sentence."""
        if self.status is CommandState.RUNNING:
            return "Process still running."
        if self.reason:
            return f"Process ended: {self.reason}."
        return f"Process exited with code {self.exit_code}."

    @property
    def is_writable(self) -> bool:
        """Returns true when its standard input can be written."""
        return self._process is not None and not self._input_closed

    async def run(self) -> None:
        """Runs the command until it exits, is killed, or its time is over. Never raises."""
        status, reason = CommandState.FAILED, "it was killed with the gateway"
        try:
            with self._scope:
                with anyio.move_on_after(self.command.seconds) as limit:
                    status, reason = await self._opened()
                if limit.cancelled_caught:
                    status = CommandState.FAILED
                    reason = f"Command was killed after {self.command.seconds:g} s"
            if self._scope.cancelled_caught:
                status, reason = CommandState.FAILED, "Command was killed on request"
        except (NotStartedError, SkerryError) as error:
            remedy = f" {error.remedy}" if isinstance(error, SkerryError) and error.remedy else ""
            status, reason = CommandState.FAILED, f"{error}{remedy}"
        except Exception:
            # A failure must not end the other commands or the gateway.
            logger.exception("the command %s failed", self.id)
            status, reason = (
                CommandState.FAILED,
                "The command could not be run; the log has the reason",
            )
        finally:
            self._end(status, reason)

    async def _opened(self) -> tuple[CommandState, str]:
        """Starts the command, with a terminal if requested and available."""
        if self.command.pty:
            try:
                return await self._follow(terminal=True)
            except (NotStartedError, SkerryError):
                if self.started.is_set():
                    raise
                self.warning = NO_TERMINAL
        return await self._follow(terminal=False)

    async def _follow(self, *, terminal: bool) -> tuple[CommandState, str]:
        """Reads the output until the command ends; returns its state and the reason."""
        async with self.command.open(terminal) as process:
            self._process, self.pid, self.has_terminal = process, process.pid, terminal
            self.started.set()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process)
                code = await process.wait()
                process.kill()  # its remaining processes would keep the output open
                tasks.cancel_scope.deadline = anyio.current_time() + LINGER_SECONDS
            self.exit_code = code
        if self.output.size > FLOOD_BYTES:
            limit = FLOOD_BYTES // (1024 * 1024)
            return CommandState.FAILED, f"Command was killed: it printed more than {limit} MB"
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
        """Requests the end of the command and its processes."""
        self._scope.cancel()

    async def wait(self, seconds: float) -> bool:
        """Waits for its end, at most this long; returns true when it has ended."""
        with anyio.move_on_after(seconds):
            await self.done.wait()
        return self.done.is_set()

    async def wait_for_output(self, seconds: float) -> None:
        """Waits for output or its end, at most this long."""
        if not self.done.is_set():
            with anyio.move_on_after(seconds):
                await self._printed.wait()

    async def write(self, data: bytes) -> bool:
        """Writes to its standard input; returns false when the command reads nothing."""
        if self._process is None or self._input_closed:
            return False
        try:
            with anyio.fail_after(WRITE_SECONDS):
                await self._process.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError, OSError):
            return False
        return True

    async def close_input(self) -> None:
        """Closes its standard input: a pipe, or a terminal by its end-of-file character."""
        if self._process is None or self._input_closed:
            return
        if self.has_terminal:
            await self.write(b"\x04")
            return
        self._input_closed = True
        with suppress(anyio.BrokenResourceError, OSError):
            await self._process.stdin.aclose()
