"""The core without a gateway: store, lanes, dispatch, a scripted model, and what it told."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from skerry.commands.table import CommandTable
from skerry.config.agents import AgentsConfig
from skerry.config.commands import CommandsConfig
from skerry.config.messages import MessagesConfig, QueueConfig
from skerry.config.root import Config
from skerry.config.session import SessionConfig
from skerry.config.tools import GuestTools, ToolsConfig
from skerry.config.usage import UsageConfig
from skerry.features.files.edit_tool import Edit
from skerry.features.files.read_tool import Read
from skerry.features.files.write_tool import Write
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock, SystemClock
from skerry.infra.supervise import Supervisor
from skerry.lanes.active_runs import ActiveRuns
from skerry.lanes.lanes import Lanes
from skerry.model.event import RunEnded, RunEvent
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import ReplyTo
from skerry.model.message import Message
from skerry.model.origin import Origin
from skerry.model.queue import QueueMode
from skerry.model.run import RunRequest, RunResult
from skerry.policy.file_records import FileRecords
from skerry.ports.model import ModelProvider
from skerry.ports.tool import Tool
from skerry.runtime.channel_gate import ChannelGate
from skerry.runtime.conversation import ConversationCache
from skerry.runtime.delivery import Senders
from skerry.runtime.dispatcher import Dispatch
from skerry.runtime.run_context import Runtime
from skerry.runtime.toolbox import Toolbox
from skerry.runtime.usage.ledger import Ledger
from skerry.store import Store, no_fault, open_store, sessions
from skerry.store.call_log import CallLog
from skerry.testing.channel import OPEN
from skerry.testing.model import ScriptedModels
from skerry.tools.session_search import SessionSearch
from skerry.workspace.prompt_builder import Prompts

MAIN = SessionKey.main()


@dataclass
class Core:
    """What a test looks at."""

    dispatch: Dispatch
    store: Store
    events: list[RunEvent]
    woken: list[ReplyTo]
    workspace: Path
    lanes: Lanes
    hooks: Hooks
    models: ScriptedModels
    ledger: Ledger
    configs: list[Config]
    """The last one holds; append another to change the configuration."""
    _ended: dict[str, anyio.Event] = field(default_factory=dict)

    async def ask(self, text: str, run_id: str = "", key: SessionKey = MAIN) -> RunResult:
        """Submit a run and wait for its end."""
        run_id = run_id or text
        await self.dispatch.submit(request(text, run_id, key))
        with anyio.fail_after(60):
            result = await self.dispatch.wait(RunId(run_id), None)
        assert result is not None
        return result

    async def transcript(self, key: SessionKey = MAIN) -> list[Message]:
        """Returns the transcript."""
        session = await self.store.read(lambda reader: sessions.find(reader, str(key)))
        assert session is not None
        entries = await self.store.read(
            lambda reader: sessions.entries(reader, session.session_id, limit=-1)
        )
        return [entry.message for entry in entries]

    def ends(self) -> list[RunResult]:
        """Returns how runs ended, in the order in which that was told."""
        return [event.body.result for event in self.events if isinstance(event.body, RunEnded)]


def request(
    text: str,
    run_id: str = "",
    key: SessionKey = MAIN,
    *,
    timeout: float | None = None,
    queue_mode: QueueMode | None = QueueMode.OWN_RUN,
) -> RunRequest:
    """Returns a request whose id is its text unless another is given."""
    return RunRequest(
        RunId(run_id or text),
        key,
        text,
        timeout=timeout,
        queue_mode=queue_mode,
        origin=Origin.OWNER,
    )


class _Delivery(Senders, frozen=True):
    """Senders of no platform: notes what would be sent."""

    woken: list[ReplyTo]

    def parts(self, _: ReplyTo, text: str) -> list[str]:
        """Cuts nothing, and only in the event loop: a unit of the store gets texts that are cut."""
        asyncio.get_running_loop()
        return [text]

    def wake(self, to: ReplyTo) -> None:
        """Notes that there is something to send."""
        self.woken.append(to)


@asynccontextmanager
async def open_core(  # noqa: PLR0913 - each has a default; a test names what it needs
    home: Path,
    model: ModelProvider | ScriptedModels | None,
    *,
    tools: tuple[Tool, ...] = (Read(), Write(), Edit(), SessionSearch()),
    limit: int = 4,
    clock: Clock | None = None,
    agents: AgentsConfig | None = None,
    queue: QueueConfig | None = None,
    reach: Callable[[str], None] = no_fault,
    hooks: Hooks | None = None,
    commands: CommandTable | None = None,
    session: SessionConfig | None = None,
    owners: tuple[str, ...] = (),
    giving: CommandsConfig | None = None,
    usage: UsageConfig | None = None,
    granted: tuple[str, ...] = (),
    opening: AbstractAsyncContextManager[Store] | None = None,
) -> AsyncGenerator[Core]:
    """Opens a core whose state is in `home`, or in the store of `opening`."""
    agents = agents or AgentsConfig()
    config = Config(
        state_dir=home,
        path=home / "skerry.json",
        agents=agents,
        session=session or SessionConfig(),
        commands=giving or CommandsConfig(owner_allow_from=owners),
        usage=usage or UsageConfig(),
        tools=ToolsConfig(guests=GuestTools(allow=granted)),
        messages=MessagesConfig(queue=queue or QueueConfig(debounce_ms=0)),
    )
    configs = [config]
    workspace = config.workspace(config.agents.default_id)
    workspace.mkdir(parents=True, exist_ok=True)
    events: list[RunEvent] = []
    woken: list[ReplyTo] = []
    clock, hooks = clock or SystemClock(), hooks or Hooks()
    opening = opening or open_store(home / "state.sqlite", reach=reach)
    models = model if isinstance(model, ScriptedModels) else ScriptedModels(model)
    async with hooks, opening as store, Lanes(limit) as lanes:
        ledger = Ledger(store, lambda: configs[-1], clock, CallLog(home))
        await ledger.open()
        runtime = Runtime(
            store=store,
            models=models,
            tools=Toolbox(lambda: tools),
            config=lambda: configs[-1],
            clock=clock,
            histories=ConversationCache(store),
            running=ActiveRuns(),
            publish=events.append,
            hooks=hooks,
            supervisor=Supervisor(clock, grace=0.01),
            commands=commands or CommandTable(),
            delivery=_Delivery({}, woken),
            ledger=ledger,
            prompts=Prompts.over(store, FileRecords()),
        )
        gate = ChannelGate(store, clock, runtime.delivery, unnamed=OPEN)
        dispatch = Dispatch(runtime, lanes, reach, gate)
        yield Core(dispatch, store, events, woken, workspace, lanes, hooks, models, ledger, configs)
