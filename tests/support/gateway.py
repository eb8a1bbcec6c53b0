"""A gateway on a real socket: real store, the application's ports played by fakes."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
from starlette.applications import Starlette

from skerry.app.settings import Settings
from skerry.config import source
from skerry.config.expand import expand
from skerry.config.load import Loaded, TokenSource
from skerry.config.root import Config
from skerry.gateway.broadcast import Broadcast
from skerry.gateway.context import GatewayContext
from skerry.gateway.health import Health
from skerry.gateway.listen import Listener
from skerry.gateway.presence import Presence
from skerry.gateway.server import create_app
from skerry.gateway.session_events import SessionEvents
from skerry.gateway.system_events import SystemEvents
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import SystemClock
from skerry.model.errors import BusyError, ModelUnavailableError
from skerry.model.event import RunEnded, RunEvent, RunEventBody, RunStarted, TextDelta
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.message import Usage
from skerry.model.run import (
    Admission,
    AdmissionStatus,
    CompactionResult,
    RunFailure,
    RunRequest,
    RunResult,
    StopReason,
)
from skerry.ports.dispatch import QueuedRun, QueueReport
from skerry.ports.memory import MemoryService
from skerry.ports.model import (
    ModelInfo,
    ModelOffer,
    ModelPick,
    ModelProvider,
    ModelSetup,
    ModelState,
    ModelStatus,
    Offering,
)
from skerry.ports.model_candidates import CallTarget, Candidates, SingleCandidate
from skerry.store import Store, open_store
from skerry.testing.model import ScriptedModel

T = TypeVar("T")

TOKEN = "5eed" * 12
MODEL = ModelInfo("stub", "stub-model", "Stub")
SESSION = SessionId("session-1")


@dataclass
class FakeRun:
    request: RunRequest
    ended: anyio.Event = field(default_factory=anyio.Event)
    result: RunResult | None = None


@dataclass
class FakeDispatcher:
    """Accepts runs; a test plays them, or `reply` makes each answer at once."""

    broadcast: Broadcast
    reply: Callable[[str], str] | None = None
    refuse: Exception | None = None
    runs: dict[RunId, FakeRun] = field(default_factory=dict)
    submitted: list[RunRequest] = field(default_factory=list)
    compacted: list[tuple[SessionKey, str]] = field(default_factory=list)
    waiting: int = 0
    queued: QueueReport = field(default_factory=lambda: QueueReport((), (), ()))

    async def submit(self, request: RunRequest) -> Admission:
        if self.refuse is not None:
            raise self.refuse
        self.submitted.append(request)
        known = self.runs.get(request.run_id)
        run = known or self.runs.setdefault(request.run_id, FakeRun(request))
        # As the real one: a run that is accepted is played, also when who asked is gone by then.
        await anyio.lowlevel.cancel_shielded_checkpoint()
        status = AdmissionStatus.ACCEPTED
        if known is not None:
            status = AdmissionStatus.FINISHED if known.result else AdmissionStatus.IN_FLIGHT
        elif self.reply is not None:
            asyncio.get_running_loop().call_soon(self._answer, run, self.reply(request.text))
        return Admission(str(run.request.key), status, 1_000, run.result)

    async def wait(self, run_id: RunId, timeout: float | None) -> RunResult | None:  # noqa: ASYNC109 - the port has it
        run = self.runs.get(run_id)
        self.waiting += 1
        try:
            with anyio.move_on_after(timeout):
                await (run.ended if run else anyio.Event()).wait()
        finally:
            self.waiting -= 1
        return run.result if run else None

    def abort(self, key: SessionKey, run_id: RunId | None, by: str) -> list[RunId]:
        stopped = [one for one in self.active(key) if run_id is None or one == run_id]
        for one in stopped:
            text = self.broadcast.text(one)
            self.end(one, payloads=(text,), stop_reason=StopReason.ABORTED, aborted_by=by)
        return stopped

    async def run_exclusive(
        self, key: SessionKey, work: Callable[[], Awaitable[T]], *, stopping: str | None = None
    ) -> T:
        if stopping is not None:
            self.abort(key, None, stopping)
        if self.active(key):
            raise BusyError(f"Session {key} is still active; try again in a moment.")
        return await work()

    async def compact(self, key: SessionKey, instructions: str) -> CompactionResult | None:
        self.compacted.append((key, instructions))
        return CompactionResult(7, 900, 200, 3) if instructions else None

    def line(self, key: SessionKey) -> list[QueuedRun]:
        return [QueuedRun(run_id) for run_id in self.active(key)]

    def active(self, key: SessionKey | None = None) -> list[RunId]:
        return [
            run_id
            for run_id, run in self.runs.items()
            if run.result is None and key in {None, run.request.key}
        ]

    def queue(self) -> QueueReport:
        return self.queued

    def tell(self, run_id: RunId, body: RunEventBody) -> None:
        request = self.runs[run_id].request
        self.broadcast.publish(RunEvent(run_id, str(request.key), SESSION, request.key.agent, body))

    def end(self, run_id: RunId, **changes: Any) -> RunResult:
        run = self.runs[run_id]
        run.result = result(run.request, **changes)
        self.tell(run_id, RunEnded(run.result))
        run.ended.set()
        return run.result

    def _answer(self, run: FakeRun, text: str) -> None:
        self.tell(run.request.run_id, RunStarted(1_000))
        self.tell(run.request.run_id, TextDelta(text))
        self.end(run.request.run_id, payloads=(text,))


def result(request: RunRequest, **changes: Any) -> RunResult:
    values: dict[str, Any] = {
        "run_id": request.run_id,
        "session_key": str(request.key),
        "session_id": SESSION,
        "stop_reason": StopReason.DONE,
        "payloads": ("pong",),
        "provider": "stub",
        "model": "stub-model",
        "usage": Usage(11, 5, 0, 0, 16),
        "started_at": 1_000,
        "ended_at": 1_250,
    }
    return RunResult(**(values | changes))


FAILED = RunFailure("model.rate_limit", "The provider limits the rate.", retryable=True)


@dataclass
class FakeModels:
    """One model; remembers what it was set up with."""

    setups: list[ModelSetup] = field(default_factory=list)
    picks: list[ModelPick] = field(default_factory=list)
    trusted: dict[str, bool] = field(default_factory=dict)
    offers: tuple[ModelOffer, ...] = ()
    refuse: Exception | None = None
    model: ModelInfo = MODEL
    """The one that is chosen."""

    async def choose(self, ref: str | None) -> tuple[ModelProvider, ModelInfo]:
        for model in (self.model, *await self.listing()):
            if ref in {None, model.ref}:
                return ScriptedModel(), model
        raise ModelUnavailableError(f"no model {ref}")

    def tries(self, wanted: CallTarget) -> Candidates:
        return SingleCandidate(lambda: self.choose(wanted.reference))

    async def listing(self) -> list[ModelInfo]:
        return [MODEL, ModelInfo("stub", "other", "Other", note="small")]

    async def offered(self, setup: ModelSetup | None = None) -> Offering:
        more = ModelInfo("stub", "seeing", "Seeing", 65_536, input=frozenset({"text", "image"}))
        if setup is None:
            return Offering((*await self.listing(), more))
        self.setups.append(setup)
        return Offering((more, ModelInfo("stub", "unknown", "Unknown", 0)), ("It is away.",))

    async def status(self) -> ModelStatus:
        return ModelStatus(ModelState.READY, MODEL, offers=self.offers)

    async def trust(self, server: str, *, is_trusted: bool) -> ModelStatus:
        if self.refuse is not None:
            raise self.refuse
        self.trusted[server] = is_trusted
        self.offers = tuple(offer for offer in self.offers if offer.id != server)
        return await self.status()

    async def configure_model(self, setup: ModelSetup) -> ModelStatus:
        if self.refuse is not None:
            raise self.refuse
        self.setups.append(setup)
        return await self.status()

    async def use_model(self, pick: ModelPick) -> ModelStatus:
        if self.refuse is not None:
            raise self.refuse
        self.picks.append(pick)
        return await self.status()


@dataclass
class Rig:
    """A running gateway and its parts."""

    context: GatewayContext
    dispatcher: FakeDispatcher
    models: FakeModels
    store: Store
    port: int = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def running_gateway(  # noqa: PLR0913 - each has a default; a test names what it needs
    home: Path,
    *,
    token: str | None = TOKEN,
    config: dict[str, Any] | None = None,
    send_buffer: int | None = None,
    pages: Path | None = None,
    hooks: Hooks | None = None,
    memory: MemoryService | None = None,
) -> AsyncIterator[Rig]:
    """Serves a gateway whose state is in `home`."""
    fields = config or {}
    auth = {"mode": "token", "token": token} if token else {"mode": "none"}
    gateway = fields.get("gateway", {})
    if "mode" not in gateway.get("auth", {}):
        gateway = {**gateway, "auth": auth}
    checked = Config.model_validate(
        {**fields, "gateway": gateway, "stateDir": home, "path": home / "skerry.json"}
    )
    clock = SystemClock()
    file = source.read(checked.path)
    loaded = Loaded(checked, file, expand(file, {}), (), TokenSource.FILE)
    settings = Settings(loaded, {}, clock)
    broadcast = Broadcast(clock)
    dispatcher = FakeDispatcher(broadcast)
    models = FakeModels()
    session_events = SessionEvents(broadcast, clock.now_ms)
    hooks = hooks or Hooks()
    async with (
        hooks,
        open_store(home / "state.sqlite", on_commit=session_events.touched.add) as store,
    ):
        context = GatewayContext(
            config=lambda: settings.config,
            dispatcher=dispatcher,
            store=store,
            models=models,
            setup=models,
            broadcast=broadcast,
            presence=Presence(clock),
            session_events=session_events,
            clock=clock,
            started_ms=clock.now_ms(),
            health=Health(),
            system_events=SystemEvents(clock),
            configuration=settings,
            hooks=hooks,
            memory=memory,
        )
        rig = Rig(context, dispatcher, models, store)
        async with serving(create_app(context, pages), send_buffer=send_buffer) as rig.port:
            yield rig


@asynccontextmanager
async def serving(app: Starlette, *, send_buffer: int | None = None) -> AsyncIterator[int]:
    """Serves `app` on a port that the system chooses."""
    sock = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio leaves Nagle on
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if send_buffer is not None:  # accepted sockets inherit it
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    sock.bind(("127.0.0.1", 0))
    async with Listener(app, sock) as listener:
        yield listener.port
