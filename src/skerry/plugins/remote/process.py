"""The process of a plugin: started for its registration, and again after it ended."""

from collections.abc import Mapping
from typing import Any, Final

import anyio
from msgspec import Struct, field

from skerry.infra.backoff import Rest
from skerry.infra.clock import Clock
from skerry.infra.process import Child, NotStartedError, Program, child
from skerry.infra.supervise import RESTARTS, Supervisor, first_of
from skerry.plugins.remote.rpc import Note, RemoteError, RpcConnection, Serve

START_SECONDS: Final = 10.0
"""Limit from the start of the process to its registration."""
END_SECONDS: Final = 2.0
"""Time between SIGTERM and SIGKILL."""
_LAST_SECONDS: Final = 1.0
"""Wait for the exit of a process that has closed its output."""
_MAX_SHOWN: Final = 200


class _Opened(Struct):
    """One run of the process."""

    ready: anyio.Event = field(default_factory=anyio.Event)
    stop: anyio.Event = field(default_factory=anyio.Event)
    connection: RpcConnection | None = None


class RemoteProcess:
    """The process of one plugin. A call restarts an ended process, with growing waits."""

    def __init__(
        self, program: Program, supervisor: Supervisor, clock: Clock, answers: tuple[Serve, Note]
    ) -> None:
        self._program = program
        self._supervisor = supervisor
        self._clock = clock
        self._answers = answers
        self._hello: Mapping[str, Any] = {}
        self._declared: dict[str, Any] | None = None
        self._opened: _Opened | None = None
        self._starting = anyio.Lock()
        self._is_stopped = False
        self._rest = Rest(RESTARTS)
        self._reason = ""
        self.pid: int | None = None
        """Process id; None while no process runs."""

    @property
    def declared(self) -> Mapping[str, Any]:
        """Returns its registrations as JSON."""
        return self._declared or {}

    async def register(self, hello: Mapping[str, Any]) -> Any:
        """Starts the process; returns its result of `register`.

        Raises:
            RemoteError: the process cannot be started, or did not answer.
            RemoteRefusedError: the process refused.
        """
        self._hello = hello
        await self._open()
        return self._declared

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Calls a method of the process; returns its result.

        Raises:
            RemoteError: the call failed, or the process ended and may not be restarted yet.
            RemoteRefusedError: the process refused the call.
        """
        return await (await self._open()).call(method, params)

    def kill(self) -> None:
        """Ends the process for good: SIGTERM, and SIGKILL two seconds later."""
        self._is_stopped = True
        if self._opened is not None:
            self._opened.stop.set()

    async def _open(self) -> RpcConnection:
        async with self._starting:
            if self._opened is not None and (connection := self._opened.connection) is not None:
                return connection
            if self._is_stopped:
                raise RemoteError("its process was stopped")
            now = self._clock.now_ms()
            if self._rest.failures and not self._rest.over(now):
                seconds = (self._rest.until - now) / 1000
                raise RemoteError(f"{self._reason}; it is started again in {seconds:.1f} s")
            return await self._begun()

    async def _begun(self) -> RpcConnection:
        """Starts the process and calls `register`, whose result must be the same each time."""
        opened = self._opened = _Opened()
        self._supervisor.start(self._live(opened), f"process {self._program.name}")
        try:
            with anyio.fail_after(START_SECONDS):
                await opened.ready.wait()
                connection = self._connected(opened)
                await self._registered(connection)
        except TimeoutError:
            opened.stop.set()
            raise RemoteError(f"it did not register within {START_SECONDS:g} s") from None
        except BaseException:
            opened.stop.set()
            raise
        return connection

    def _connected(self, opened: _Opened) -> RpcConnection:
        if opened.connection is None:
            raise RemoteError(self._reason)
        return opened.connection

    async def _registered(self, connection: RpcConnection) -> None:
        declared = await connection.call("register", self._hello)
        if not isinstance(declared, dict):
            raise RemoteError("it registered no JSON object")
        if self._declared is None:
            self._declared = declared
        elif declared != self._declared:
            raise RemoteError("its registrations differ from before; restart the gateway")
        elif declared.get("init"):
            await connection.call("init", {})

    async def _live(self, opened: _Opened) -> None:
        """Runs the process until it ends or `stop` is set."""
        began, reason = anyio.current_time(), ""
        try:
            async with child(self._program, listens=True) as process:
                self.pid = process.pid
                pipes = process.stdin, process.stdout
                connection = opened.connection = RpcConnection(pipes, *self._answers)
                opened.ready.set()
                await first_of(connection.run, opened.stop.wait)
                if not opened.stop.is_set() and not connection.reason:
                    with anyio.move_on_after(_LAST_SECONDS):
                        await process.wait()
            reason = connection.reason or _reason_of(process)
        except NotStartedError as error:
            reason = str(error).rstrip(".")
        finally:
            self._ended(opened, reason or "it was stopped", anyio.current_time() - began)

    def _ended(self, opened: _Opened, reason: str, lived: float) -> None:
        self.pid = None
        if self._opened is opened:
            self._opened = None
        if opened.connection is not None:
            opened.connection.close(reason)
        opened.connection = None
        self._reason = reason
        rest = Rest(RESTARTS) if lived > RESTARTS.cap else self._rest
        self._rest = rest.after_failure(self._clock.now_ms())
        opened.ready.set()


def _reason_of(process: Child) -> str:
    """Returns the exit code of a process in a text, with the last line of standard error."""
    lines = process.tail.strip().splitlines()
    last = f": {lines[-1][:_MAX_SHOWN]}" if lines else ""
    return f"its process ended with code {process.returncode}{last}"
