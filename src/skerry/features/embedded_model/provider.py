"""Runs a model on this machine, in a child process that ends when idle."""

import json
import secrets
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
from msgspec import Struct

from skerry.features.embedded_model.hardware import Machine
from skerry.infra.process import Child, Program, allowed, child, module
from skerry.infra.supervise import Idle, in_background
from skerry.model.errors import ModelUnavailableError
from skerry.ports.model import ModelProvider, ModelReply, ModelRequest, ReplyListener
from skerry.providers.embedded_model import EmbeddedHost
from skerry.providers.model_apis import USUAL
from skerry.providers.streaming_call import Endpoint

_START_SECONDS: Final = 120.0
_IDLE_SECONDS: Final = 600.0
_SILENCE: Final = 600.0  # one thread reads 40 to 170 tokens of a prompt a second
_MAX_TAIL: Final = 600  # characters of the child's last output


class EmbeddedSettings(Struct, frozen=True):
    """Model file to run, and its settings."""

    file: Path
    threads: int = 1
    context_window: int = 4096
    is_tiny: bool = False
    """True for a model so small that it repeats itself without a penalty."""


class _Server(Struct):
    """A child that is ready."""

    settings: EmbeddedSettings
    base_url: str
    provider: ModelProvider
    process: Child
    idle: Idle
    retired: bool = False

    @property
    def alive(self) -> bool:
        return self.process.returncode is None and not self.retired

    def retire(self) -> None:
        """Ends the child, at once or after its present answers."""
        self.retired = True
        if not self.idle.users:
            self.process.kill()


class EmbeddedProvider:
    """Starts the child at the first call and after a crash; stops an idle child.

    The tasks of the host own the child, which ends with them. `use` sets the file; a call after a
    change of the file starts another child.
    """

    def __init__(
        self, host: EmbeddedHost, machine: Machine, *, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        self._host = host
        program = module("skerry.features.embedded_model.child")
        self._program = Program(program, allowed(host.environ))
        self._machine = machine
        self._idle_seconds = idle_seconds
        self._settings: EmbeddedSettings | None = None
        self._server: _Server | None = None
        self._lock = anyio.Lock()

    @property
    def api(self) -> str:
        """Returns `openai-completions`."""
        return USUAL

    @property
    def starting(self) -> bool:
        """Returns true while a child loads its model."""
        return self._lock.locked()

    @property
    def process_id(self) -> int | None:
        """Returns the process id of a ready child, or None."""
        return self._server.process.pid if self._server and self._server.alive else None

    def use(self, settings: EmbeddedSettings) -> None:
        """Uses `settings` from the next call on.

        Raises:
            ModelUnavailableError: this machine cannot run the file.
        """
        server = self._server
        if server is None or not server.alive or server.settings != settings:
            self._machine.check(settings.file)
        self._settings = settings

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        server = await self._ready()
        try:
            with server.idle.use():
                return await server.provider.complete(request, listener)
        finally:
            if server.retired:
                server.retire()

    async def _ready(self) -> _Server:
        async with self._lock:
            if self._settings is None:
                raise ModelUnavailableError("No model file is configured.")
            server = self._server
            if server and server.alive and server.settings == self._settings:
                return server
            if server:
                server.retire()
            self._server = await self._host.tasks().start(self._run, self._settings)
            return self._server

    async def _run(
        self, settings: EmbeddedSettings, *, task_status: anyio.abc.TaskStatus[_Server]
    ) -> None:
        """Owns one child from its start to its end."""
        async with child(self._program, listens=True) as process:
            server = await self._greet(process, settings)
            task_status.started(server)
            async with in_background(partial(_retire_when_idle, server)):
                await process.wait()

    async def _greet(self, process: Child, settings: EmbeddedSettings) -> _Server:
        """Sends the settings to the child; returns it when it is ready."""
        api_key = secrets.token_hex(24)  # the child answers no other program on this machine
        line = json.dumps(
            {
                "file": str(settings.file),
                "threads": settings.threads,
                "context_window": settings.context_window,
                "is_tiny": settings.is_tiny,
                "api_key": api_key,
            }
        )
        try:
            with anyio.fail_after(_START_SECONDS):
                await process.stdin.send(line.encode() + b"\n")
                ready = json.loads(await process.stdout.receive())
        except TimeoutError as error:
            raise await _failed(
                process, settings, f"was not ready after {_START_SECONDS:g} s"
            ) from error
        except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
            raise await _failed(process, settings, "ended while it loaded the model") from error
        endpoint = Endpoint(
            "the embedded model",
            ready["base_url"],
            api_key,
            "max_tokens",
            _SILENCE,
            reuse=False,  # its server ends idle connections without notice; a new one costs nothing
        )
        idle = Idle(self._idle_seconds)
        provider = self._host.apis.open(self._host.http, endpoint)
        return _Server(settings, endpoint.base_url, provider, process, idle)


async def _retire_when_idle(server: _Server) -> None:
    await server.idle.over()
    server.retire()


async def _failed(
    process: Child, settings: EmbeddedSettings, failure: str
) -> ModelUnavailableError:
    await process.end(0)  # it may have closed its output and still run
    words = " ".join(process.tail.split())[-_MAX_TAIL:]
    return ModelUnavailableError(
        f"The process of the embedded model {failure} ({settings.file.name}). Its output: {words}",
        "Choose another file: skerry models use FILE.gguf. Or enter a provider's key.",
    )
