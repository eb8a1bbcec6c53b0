"""The model that runs on this machine, in a child process that lives as long as it is used."""

import json
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Self, TypeVar

import anyio
import anyio.abc
from msgspec import Struct

from skerry.infra.http import HttpClient
from skerry.model.errors import ModelUnavailableError
from skerry.ports.model import Listener, ModelReply, ModelRequest
from skerry.providers.compat import CompatProvider
from skerry.providers.compat_request import API
from skerry.providers.hardware import Machine
from skerry.providers.streaming_call import Endpoint

T = TypeVar("T")

_START_SECONDS: Final = 120.0
_IDLE_SECONDS: Final = 600.0
_SILENCE: Final = 600.0  # one thread reads 40 to 170 tokens of a prompt a second
_TOLD: Final = 600  # characters of the child's last words
# The child needs no provider's key.
_ENVIRONMENT: Final = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


class EmbeddedSettings(Struct, frozen=True):
    """Model file to run, and its settings."""

    file: Path
    threads: int = 1
    context_window: int = 4096


class _Child(Struct):
    """A child that is ready."""

    settings: EmbeddedSettings
    provider: CompatProvider
    process: anyio.abc.Process
    users: int = 0
    last_used: float = 0.0
    retired: bool = False

    @property
    def alive(self) -> bool:
        return self.process.returncode is None and not self.retired

    def retire(self) -> None:
        """Lets it end, at once or after the answers it is giving."""
        self.retired = True
        if not self.users:
            _kill(self.process)


class EmbeddedProvider(anyio.AsyncContextManagerMixin):
    """Starts the child with the first call, again after it died, stops it when it was idle.

    Use as `async with EmbeddedProvider(...)`; leaving the block ends the child. `use` says which
    file; a call after another file was named starts another child.
    """

    def __init__(
        self,
        http: HttpClient,
        environ: Mapping[str, str],
        machine: Machine,
        *,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._http = http
        self._environ = {name: environ[name] for name in _ENVIRONMENT if name in environ}
        self._machine = machine
        self._idle_seconds = idle_seconds
        self._settings: EmbeddedSettings | None = None
        self._child: _Child | None = None
        self._tasks: anyio.abc.TaskGroup
        self._lock = anyio.Lock()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as self._tasks:
            yield self
            self._tasks.cancel_scope.cancel()

    @property
    def api(self) -> str:
        """Returns `openai-completions`."""
        return API

    @property
    def starting(self) -> bool:
        """Returns whether a child is loading its model."""
        return self._lock.locked()

    @property
    def process_id(self) -> int | None:
        """Returns the child's process id, if one is ready."""
        return self._child.process.pid if self._child and self._child.alive else None

    def use(self, settings: EmbeddedSettings) -> None:
        """Runs `settings` from the next call on.

        Raises:
            ModelUnavailableError: this machine cannot run the file.
        """
        child = self._child
        if child is None or not child.alive or child.settings != settings:
            self._machine.check(settings.file)
        self._settings = settings

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        child = await self._ready()
        child.users += 1
        try:
            return await child.provider.complete(request, hear)
        finally:
            child.users -= 1
            child.last_used = anyio.current_time()
            if child.retired:
                child.retire()

    async def _ready(self) -> _Child:
        async with self._lock:
            if self._settings is None:
                raise ModelUnavailableError("No model file is named.")
            if self._child and self._child.alive and self._child.settings == self._settings:
                return self._child
            if self._child:
                self._child.retire()
            self._child = await self._tasks.start(self._run, self._settings)
            return self._child

    async def _run(
        self, settings: EmbeddedSettings, *, task_status: anyio.abc.TaskStatus[_Child]
    ) -> None:
        """Owns one child from its start to its end."""
        # Its words go to a file: nobody has to read them for it to go on.
        with tempfile.TemporaryFile() as log:
            process = await anyio.open_process(
                [sys.executable, "-P", "-m", "skerry.providers.embedded_child"],
                stderr=log,
                env=self._environ,
                start_new_session=True,  # Ctrl-C is for the gateway, which may still need an answer
            )
            async with process:
                try:
                    child = await self._greet(process, settings, log)
                    task_status.started(child)
                    async with anyio.create_task_group() as group:
                        group.start_soon(self._end_when_idle, child)
                        await process.wait()
                        group.cancel_scope.cancel()
                finally:
                    _kill(process)

    async def _greet(
        self, process: anyio.abc.Process, settings: EmbeddedSettings, log: BinaryIO
    ) -> _Child:
        """Tells the child what to do; returns it when it is ready."""
        api_key = secrets.token_hex(24)  # no other program on this machine gets an answer
        line = json.dumps(
            {
                "file": str(settings.file),
                "threads": settings.threads,
                "context_window": settings.context_window,
                "api_key": api_key,
                "parent": os.getpid(),
            }
        )
        try:
            with anyio.fail_after(_START_SECONDS):
                await _stream(process.stdin).send(line.encode() + b"\n")
                ready = json.loads(await _stream(process.stdout).receive())
        except TimeoutError as error:
            raise _failed(settings, f"was not ready after {_START_SECONDS:g} s", log) from error
        except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
            _kill(process)  # it may have closed its output and live on
            await process.wait()
            raise _failed(settings, "ended while it loaded the model", log) from error
        endpoint = Endpoint(
            "the embedded model",
            ready["base_url"],
            api_key,
            "max_tokens",
            _SILENCE,
            reuse=False,  # its server ends idle connections without notice; a new one costs nothing
        )
        return _Child(
            settings,
            CompatProvider(self._http, endpoint),
            process,
            last_used=anyio.current_time(),
        )

    async def _end_when_idle(self, child: _Child) -> None:
        while True:
            rest = child.last_used + self._idle_seconds - anyio.current_time()
            if rest <= 0 and not child.users:
                child.retire()
                return
            await anyio.sleep(rest if rest > 0 else self._idle_seconds)


def _stream(stream: T | None) -> T:
    if stream is None:
        raise TypeError("the process was opened without pipes")
    return stream


def _kill(process: anyio.abc.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


def _failed(settings: EmbeddedSettings, what: str, log: BinaryIO) -> ModelUnavailableError:
    log.seek(0)
    words = " ".join(log.read().decode(errors="replace").split())[-_TOLD:]
    return ModelUnavailableError(
        f"The process of the embedded model {what} ({settings.file.name}). It said: {words}",
        "Name another file: skerry models use FILE.gguf. Or enter a provider's key.",
    )
