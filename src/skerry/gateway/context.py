"""`GatewayContext`: the services that the application passes to the gateway."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import anyio
from msgspec import Struct, field

from skerry.commands.table import CommandTable
from skerry.config.root import Config
from skerry.gateway.broadcast import Broadcast
from skerry.gateway.clients import Clients
from skerry.gateway.configuration import Configuration, WriteRate
from skerry.gateway.frames import Json
from skerry.gateway.health import Health
from skerry.gateway.nodes import Nodes
from skerry.gateway.presence import Presence
from skerry.gateway.session_events import SessionEvents
from skerry.gateway.shared_secret import Failures
from skerry.gateway.signals import Signals
from skerry.gateway.system_events import SystemEvents
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import HandlerReport
from skerry.infra.clock import Clock
from skerry.infra.expendable import Expendable
from skerry.model.ids import SessionKey
from skerry.model.inbound import ReplyTo
from skerry.model.tool import ToolSpec
from skerry.policy.file_records import FileRecords
from skerry.ports.channel import Channels
from skerry.ports.checks import Check
from skerry.ports.dispatch import Dispatcher
from skerry.ports.memory import Forgets, MemoryService
from skerry.ports.model import Models, Setup
from skerry.ports.plugins import PluginReport
from skerry.ports.prompt import PromptReport
from skerry.ports.tool import ToolSource
from skerry.runtime.approvals import ApprovalDesk
from skerry.runtime.internal_runs import InternalRuns
from skerry.sdk.http import HttpRoute
from skerry.sdk.methods import GatewayMethod
from skerry.sdk.registrations import Event, Panel
from skerry.store import Store
from skerry.store.condition import Storage
from skerry.workspace.skill_catalogue import SkillCatalogue

RENDER: Final = "skerry.gateway.html:render"
"""Renderer of Markdown as HTML, which imports nothing of the gateway."""


class LoadedPlugins(Protocol):
    """Protocol of the plugins for the gateway."""

    @property
    def reports(self) -> Sequence[PluginReport]:
        """Returns the state of each plugin that the configuration names."""
        ...

    @property
    def methods(self) -> Mapping[str, GatewayMethod]:
        """Returns the gateway methods of plugins."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """Returns the events of plugins."""
        ...

    @property
    def routes(self) -> Mapping[str, Sequence[HttpRoute]]:
        """Returns the HTTP routes of each plugin."""
        ...

    @property
    def panels(self) -> Sequence[Panel]:
        """Returns the panels of plugins on the page."""
        ...

    @property
    def skills(self) -> SkillCatalogue:
        """Returns the skills of agents."""
        ...

    async def checks(self) -> Sequence[Check]:
        """Returns the results of the checks of all plugins."""
        ...

    def changed(self, report: PluginReport) -> bool:
        """Returns True when the files of a loaded plugin have changed since it was loaded."""
        ...

    def handlers(self) -> Sequence[HandlerReport]:
        """Returns the counts and state of each function of the plugins."""
        ...


class PendingLogin(Protocol):
    """Login to a platform, which a person completes elsewhere while the client waits."""

    @property
    def is_over(self) -> bool:
        """Returns True when the login has an outcome."""
        ...

    def paste(self, text: str) -> None:
        """Passes on the address at which the person's browser ended."""
        ...

    def cancel(self) -> None:
        """Cancels the login."""
        ...

    async def outcome(self, seconds: float) -> Json:
        """Returns the result, or None when there is none within `seconds`; raises its failure."""
        ...


class InFlight(Struct):
    """A running request with an idempotency key."""

    digest: bytes
    """Digest of its content."""
    done: anyio.Event = field(default_factory=anyio.Event)
    refusal: Exception | None = None
    """Error that the client received."""


class GatewayContext(Struct, frozen=True):
    """All services of methods and connections.

    `config` is called at each request, so that rights follow the present configuration.
    """

    config: Callable[[], Config]
    dispatcher: Dispatcher
    store: Store
    models: Models
    setup: Setup
    broadcast: Broadcast
    presence: Presence
    session_events: SessionEvents
    clock: Clock
    started_ms: int
    health: Health
    system_events: SystemEvents
    configuration: Configuration
    config_writes: WriteRate = field(default_factory=WriteRate)
    clients: Clients = field(default_factory=Clients)
    nodes: Nodes = field(default_factory=Nodes)
    hooks: Hooks = field(default_factory=Hooks)
    commands: CommandTable = field(default_factory=CommandTable)
    failures: Failures = field(default_factory=Failures)
    """Counts wrong secrets of the gateway by address, over WebSocket and HTTP together."""
    in_flight: dict[tuple[str, str], InFlight] = field(default_factory=dict)
    """Running requests with an idempotency key, by method and key."""
    logins: dict[str, PendingLogin] = field(default_factory=dict)
    """Running logins to platforms, and unread outcomes, by id."""
    show_prompt: Callable[[SessionKey], Awaitable[PromptReport]] | None = None
    """Returns the prompt of the next message; None where no agent runs."""
    hurry: Callable[[ReplyTo], None] = lambda _: None
    """Makes the sender of an account retry held-back messages of a conversation now."""
    budgets: Callable[[], list[dict[str, Json]]] = list
    """Returns the use of each budget today."""
    memory: MemoryService | None = None
    """None where a plugin fills the slot of the memory, or it is empty."""
    forgets: Forgets | None = None
    """None where no agent runs."""
    renders: Expendable = field(default_factory=partial(Expendable, RENDER, cpu_seconds=5))
    """Renders Markdown as HTML in a child process."""
    records: FileRecords = field(default_factory=FileRecords)
    """Records of the authors of workspace files."""
    approvals: ApprovalDesk | None = None
    """None where no agent runs."""
    signals: Signals = field(default_factory=Signals)
    """Wakes services of features."""
    internal_runs: InternalRuns | None = None
    """Starts runs without a message of a person; None where no agent runs."""
    plugins: LoadedPlugins | None = None
    """None when the configuration has no models for transcription."""
    tools: Callable[[], Sequence[ToolSpec]] = tuple
    """Returns all tools, those of plugins included."""
    tool_sources: Callable[[], Mapping[str, ToolSource]] = dict
    """Returns the sources of tools by the names of their features."""
    channels: Channels | None = None
    """Accounts on chat platforms; None where no gateway runs."""

    async def storage(self) -> dict[str, Json]:
        """Returns the state of the database; tries again when it failed before."""
        await self.store.works()
        condition = self.store.condition
        state = condition.storage
        report: dict[str, Json] = {"state": state}
        if state is not Storage.OK:
            message, remedy = condition.problem
            report |= {"message": message, "remedy": remedy}
        if (aside := condition.aside) is not None:
            report["recovered"] = {"message": aside.message, "remedy": aside.remedy}
        return report

    async def failing(self) -> list[str]:
        """Returns the failing parts; `state` is the state of the database, such as a full disk."""
        return [*self.health.failing, *([] if await self.store.works() else ["state"])]
