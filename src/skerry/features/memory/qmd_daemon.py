"""Keeps QMD's own server as our child: started when asked for, watched, ended when idle.

We speak with it through pipes, in JSON-RPC (MCP over standard input and output). QMD can serve over
HTTP too, but asks nobody for a password there: any user of the machine could read what is
remembered, in spite of the modes of its files.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from skerry.features.memory.qmd_process import QmdError
from skerry.features.memory.qmd_program import QmdProgram
from skerry.features.memory.qmd_rpc import Talk
from skerry.features.memory.wait_times import RESTS
from skerry.infra.backoff import Rest
from skerry.infra.clock import Clock
from skerry.infra.process import Child, ProcessError, Program, child
from skerry.infra.supervise import Idle, first_of, in_background

logger = logging.getLogger(__name__)

START_SECONDS: Final = 15.0
"""Seconds from its start until it must answer; it loads Node and opens the index."""
IDLE_SECONDS: Final = 900.0
"""Seconds without a query after which it is ended: it holds 186 MB; measured."""
_LAST_SECONDS: Final = 1.0
_PROTOCOL: Final = "2025-06-18"
_HELLO: Final = {
    "protocolVersion": _PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "skerry", "version": "1"},
}


class QmdDaemon:
    """The server of one agent, which nobody else can reach.

    A query to it costs a tenth of the CPU time of a process. One that does not start, or dies,
    rests for 1, 5, then 25 minutes; meanwhile each query starts a process.
    """

    def __init__(self, clock: Clock, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._idle: Idle | None = None
        self._wanted: tuple[QmdProgram, Path] | None = None
        self._called = anyio.Event()
        self._rest = Rest(RESTS)
        self._talk: Talk | None = None
        self._pid: int | None = None
        self._serving: anyio.CancelScope | None = None
        self._hangs = ""
        """Reason why a running server is to be ended."""
        self._gone = anyio.Event()
        """Set when the process of the last server has ended."""
        self.reason = ""
        """Reason why the last one ended; empty if none failed."""

    @property
    def ready(self) -> bool:
        """Returns whether a query can go to it."""
        return self._talk is not None

    @property
    def process_id(self) -> int | None:
        """Returns the process that leads its group; None where none runs."""
        return self._pid

    def want(self, program: QmdProgram, folder: Path) -> None:
        """Has it started, unless it runs or rests."""
        if self._pid is None and self._rest.over(self._clock.now_ms()):
            self._wanted = program, folder
            self._called.set()

    async def stop(self) -> None:
        """Ends the server, if one runs; the next query has it started again."""
        if self._pid is not None and self._serving is not None:
            self._serving.cancel()
            await self._gone.wait()

    def hangs(self, reason: str) -> None:
        """Ends a server that does not answer; it rests as one that died."""
        if self._pid is not None and self._serving is not None:
            self._hangs = reason
            self._talk = None
            self._serving.cancel()

    async def query(self, arguments: Mapping[str, Any]) -> bytes:
        """Calls its tool `query` and returns JSON; the caller sets the deadline.

        Raises:
            QmdError: it does not run, or refused.
        """
        if self._talk is None or self._idle is None:
            raise QmdError("QMD's server does not run.")
        with self._idle.use():
            return await self._talk.ask("tools/call", {"name": "query", "arguments": arguments})

    async def run(self) -> None:
        """Starts it whenever it is asked for, until this is cancelled."""
        while True:
            await self._called.wait()
            self._called = anyio.Event()
            if self._wanted is None:
                continue
            (program, folder), self._wanted = self._wanted, None
            try:
                with anyio.CancelScope() as self._serving:
                    await self._serve(program, folder)
            except QmdError as error:
                self._fail(str(error))
            if self._hangs:
                self._fail(self._hangs)
                self._hangs = ""

    def _fail(self, reason: str) -> None:
        self.reason = reason
        self._rest = self._rest.after_failure(self._clock.now_ms())
        logger.warning("QMD's server: %s A process is started for each query.", reason)

    async def _serve(self, program: QmdProgram, folder: Path) -> None:
        """Runs one server until it was idle for long.

        Raises:
            QmdError: it did not start, or died.
        """
        self._gone = anyio.Event()
        command = [str(program.path), "mcp", "--index", "index"]
        try:
            async with child(Program(command, program.environ, folder), listens=True) as process:
                self._pid, talk = process.pid, Talk(process)
                async with in_background(talk.run):
                    await _greet(process, talk)
                    self._talk, self._idle = talk, Idle(self._idle_seconds)
                    self._rest, self.reason = Rest(RESTS), ""
                    await first_of(self._idle.over, process.wait, talk.over.wait)
                    if process.returncode is not None or talk.over.is_set():
                        raise QmdError(await _end(process, talk))
        except ProcessError as error:
            raise QmdError(str(error)) from error
        finally:
            self._talk = self._pid = None
            self._gone.set()


async def _greet(process: Child, talk: Talk) -> None:
    """Waits until it answers.

    Raises:
        QmdError: it does not, or ended.
    """
    how = f"within {START_SECONDS:g} s."
    with anyio.move_on_after(START_SECONDS):
        try:
            await talk.ask("initialize", _HELLO)
            await talk.tell("notifications/initialized")
        except QmdError as error:
            how = f"and {error}"
            if talk.over.is_set():
                how = f"and {await _end(process, talk)}"
        else:
            return
    raise QmdError(f"it did not serve {how}")


async def _end(process: Child, talk: Talk) -> str:
    """Waits until it ended, or says nonsense; returns which."""
    await first_of(process.wait, talk.over.wait)
    with anyio.move_on_after(_LAST_SECONDS):  # its pipe closes a little earlier than it ends
        return f"it ended with code {await process.wait()}."
    return talk.why
