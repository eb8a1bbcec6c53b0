"""Keeps QMD's own HTTP server as our child: started when asked for, watched, ended when idle."""

import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import httpx2
import msgspec

from skerry.infra.clock import Clock
from skerry.infra.http import BODY_LIMIT
from skerry.infra.tasks import beside
from skerry.memory.qmd_process import MOST_CHARS, QmdError, child
from skerry.memory.qmd_program import QmdProgram
from skerry.memory.rest import Rest

logger = logging.getLogger(__name__)

START_SECONDS: Final = 15.0
"""From its start until it must answer; it loads Node and opens the index."""
IDLE_SECONDS: Final = 900.0
"""Without a query it is ended after this: it holds 186 MB; measured."""
_POLL_SECONDS: Final = 0.1
_HEALTH_SECONDS: Final = 1.0


class QmdDaemon:
    """The server of one agent, on a free port of the loopback interface.

    A query over it costs a tenth of the CPU time of a process. One that does not start, or dies,
    rests for 1, 5, then 25 minutes; meanwhile each query starts a process.
    """

    def __init__(
        self, http: httpx2.AsyncClient, clock: Clock, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._http = http
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._wanted: tuple[QmdProgram, Path] | None = None
        self._called = anyio.Event()
        self._rest = Rest()
        self._port: int | None = None
        self._pid: int | None = None
        self._used = 0.0
        self._serving: anyio.CancelScope | None = None
        self._gone = anyio.Event()
        """Set when the process of the last server has ended."""
        self.reason = ""
        """Why the last one ended; empty where none failed."""

    @property
    def ready(self) -> bool:
        """Return whether a query can go to it."""
        return self._port is not None

    @property
    def process_id(self) -> int | None:
        """Return the process that leads its group; None where none runs."""
        return self._pid

    def want(self, program: QmdProgram, folder: Path) -> None:
        """Have it started, unless it runs or rests."""
        if self._pid is None and self._rest.over(self._clock.now_ms()):
            self._wanted = program, folder
            self._called.set()

    async def stop(self) -> None:
        """End the server, if one runs; the next query has it started again."""
        if self._pid is not None and self._serving is not None:
            self._serving.cancel()
            await self._gone.wait()

    async def query(self, body: Mapping[str, Any]) -> bytes:
        """Return what it answers; whoever calls sets the deadline.

        Raises:
            QmdError: it does not run, or refused.
        """
        if self._port is None:
            raise QmdError("QMD's server does not run.")
        self._used = anyio.current_time()
        url = f"http://127.0.0.1:{self._port}/query"
        try:
            response = await self._http.post(
                url, content=msgspec.json.encode(body), extensions={BODY_LIMIT: MOST_CHARS}
            )
        except httpx2.TransportError as error:
            raise QmdError(f"QMD's server broke off: {type(error).__name__}.") from error
        if response.status_code != httpx2.codes.OK:
            raise QmdError(f"QMD's server answered with status {response.status_code}.")
        return response.content

    async def run(self) -> None:
        """Start it whenever it is asked for, until this is cancelled."""
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
                self.reason = str(error)
                self._rest = self._rest.after_failure(self._clock.now_ms())
                logger.warning("QMD's server: %s A process is started for each query.", error)

    async def _serve(self, program: QmdProgram, folder: Path) -> None:
        """Run one server until it was idle for long.

        Raises:
            QmdError: it did not start, or died.
        """
        port, self._gone = _free_port(), anyio.Event()
        command = [str(program.path), "mcp", "--http", "--port", str(port), "--index", "index"]
        try:
            async with (
                child(command, environ=program.environ, folder=folder) as process,
                beside(partial(_drain, process)),
            ):
                self._pid = process.pid
                await self._greet(process, port)
                self._port, self._used = port, anyio.current_time()
                self._rest, self.reason = Rest(), ""
                await self._watch(process)
        finally:
            self._port = self._pid = None
            self._gone.set()

    async def _greet(self, process: anyio.abc.Process, port: int) -> None:
        url = f"http://127.0.0.1:{port}/health"
        with anyio.move_on_after(START_SECONDS):
            while process.returncode is None:
                try:
                    response = await self._http.get(url, timeout=_HEALTH_SECONDS)
                except httpx2.TransportError:
                    await anyio.sleep(_POLL_SECONDS)
                    continue
                if response.status_code == httpx2.codes.OK:
                    return
                raise QmdError("what answers at its port is not QMD's server.")
        code = process.returncode
        how = f"within {START_SECONDS:g} s" if code is None else f"and ended with code {code}"
        raise QmdError(f"it did not serve {how}.")

    async def _watch(self, process: anyio.abc.Process) -> None:
        """Return once nobody asked for long.

        Raises:
            QmdError: it died.
        """
        while (rest := self._used + self._idle_seconds - anyio.current_time()) > 0:
            with anyio.move_on_after(rest):
                code = await process.wait()
                raise QmdError(f"it ended with code {code}.")


async def _drain(process: anyio.abc.Process) -> None:
    """Read on, so that it never waits for somebody who listens."""
    async with anyio.create_task_group() as tasks:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                tasks.start_soon(_skip, stream)


async def _skip(stream: anyio.abc.ByteReceiveStream) -> None:
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for _ in stream:
            pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
