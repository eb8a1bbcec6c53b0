"""Runs QMD's server as a child process: starts it on demand, ends it when idle.

The connection is JSON-RPC over pipes (MCP over standard input and output). QMD's HTTP server has no
authentication: every user of the machine could read the memory, regardless of its file modes.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from skerry.features.memory.qmd_process import QmdError
from skerry.features.memory.qmd_program import QmdProgram
from skerry.features.memory.qmd_rpc import JsonRpc
from skerry.features.memory.wait_times import RESTS
from skerry.infra.backoff import Rest
from skerry.infra.clock import Clock
from skerry.infra.process import Child, ProcessError, Program, child
from skerry.infra.supervise import Idle, first_of, in_background

logger = logging.getLogger(__name__)

START_SECONDS: Final = 15.0
"""Time limit from its start to its first answer; it loads Node and opens the index."""
IDLE_SECONDS: Final = 900.0
"""Seconds without a query after which it is ended: it uses 186 MB; measured."""
_LAST_SECONDS: Final = 1.0
_PROTOCOL: Final = "2025-06-18"
_HELLO: Final = {
    "protocolVersion": _PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "skerry", "version": "1"},
}


class QmdDaemon:
    """The server of one agent, reachable by this process only.

    A query costs a tenth of the CPU time of a new process. After a failed start or a crash the
    server is not started for 1, 5, then 25 minutes; meanwhile each query starts a process.
    """

    def __init__(self, clock: Clock, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._idle: Idle | None = None
        self._pending: tuple[QmdProgram, Path] | None = None
        self._called = anyio.Event()
        self._rest = Rest(RESTS)
        self._rpc: JsonRpc | None = None
        self._pid: int | None = None
        self._serving: anyio.CancelScope | None = None
        self._hangs = ""
        """Reason to end a running server; "" without one."""
        self._ended = anyio.Event()
        """Set when the process of the last server has ended."""
        self.reason = ""
        """Reason of the last failure; "" after a successful start."""

    @property
    def ready(self) -> bool:
        """Returns whether the server can answer a query."""
        return self._rpc is not None

    @property
    def process_id(self) -> int | None:
        """Returns the id of its process, the leader of its group; None if none runs."""
        return self._pid

    def want(self, program: QmdProgram, folder: Path) -> None:
        """Requests a start, unless the server runs or must wait after a failure."""
        if self._pid is None and self._rest.over(self._clock.now_ms()):
            self._pending = program, folder
            self._called.set()

    async def stop(self) -> None:
        """Ends the server, if it runs; the next query starts it again."""
        if self._pid is not None and self._serving is not None:
            self._serving.cancel()
            await self._ended.wait()

    def hangs(self, reason: str) -> None:
        """Ends a server that does not answer; counts as a failure."""
        if self._pid is not None and self._serving is not None:
            self._hangs = reason
            self._rpc = None
            self._serving.cancel()

    async def query(self, arguments: Mapping[str, Any]) -> bytes:
        """Calls the tool `query` and returns JSON; the caller sets the time limit.

        Raises:
            QmdError: the server does not run, or refused the query.
        """
        if self._rpc is None or self._idle is None:
            raise QmdError("QMD's server does not run.")
        with self._idle.use():
            return await self._rpc.request("tools/call", {"name": "query", "arguments": arguments})

    async def run(self) -> None:
        """Starts the server on demand, until cancelled."""
        while True:
            await self._called.wait()
            self._called = anyio.Event()
            if self._pending is None:
                continue
            (program, folder), self._pending = self._pending, None
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
        """Runs one server until it was idle for `idle_seconds`.

        Raises:
            QmdError: it did not start, or ended.
        """
        self._ended = anyio.Event()
        command = [str(program.path), "mcp", "--index", "index"]
        try:
            async with child(Program(command, program.environ, folder), listens=True) as process:
                self._pid, rpc = process.pid, JsonRpc(process)
                async with in_background(rpc.run):
                    await _greet(process, rpc)
                    self._rpc, self._idle = rpc, Idle(self._idle_seconds)
                    self._rest, self.reason = Rest(RESTS), ""
                    await first_of(self._idle.over, process.wait, rpc.over.wait)
                    if process.returncode is not None or rpc.over.is_set():
                        raise QmdError(await _end(process, rpc))
        except ProcessError as error:
            raise QmdError(str(error)) from error
        finally:
            self._rpc = self._pid = None
            self._ended.set()


async def _greet(process: Child, rpc: JsonRpc) -> None:
    """Initializes the connection.

    Raises:
        QmdError: the server did not answer in time, or ended.
    """
    detail = f"within {START_SECONDS:g} s."
    with anyio.move_on_after(START_SECONDS):
        try:
            await rpc.request("initialize", _HELLO)
            await rpc.notify("notifications/initialized")
        except QmdError as error:
            detail = f"and {error}"
            if rpc.over.is_set():
                detail = f"and {await _end(process, rpc)}"
        else:
            return
    raise QmdError(f"it did not serve {detail}")


async def _end(process: Child, rpc: JsonRpc) -> str:
    """Waits until the process or the connection ended; returns the reason."""
    await first_of(process.wait, rpc.over.wait)
    with anyio.move_on_after(_LAST_SECONDS):  # the pipe closes shortly before the process ends
        return f"it ended with code {await process.wait()}."
    return rpc.reason
