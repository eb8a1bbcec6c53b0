"""The services of the gateway for runs, and the frozen plan of each run."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from msgspec import Struct, field

from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.hooks.events import WEBCHAT, RunContext
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.infra.supervise import Supervisor
from skerry.lanes.active_runs import ActiveRun, ActiveRuns
from skerry.model.caller import Caller
from skerry.model.errors import StoreFailedError
from skerry.model.event import RunEvent
from skerry.model.ids import AgentId, RunId, SessionId, SessionKind
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.policy.file_records import FileRecords
from skerry.ports.model import Models
from skerry.ports.model_candidates import CallTarget
from skerry.replies.shaping import Show, file_placeholder
from skerry.runtime.conversation import ConversationCache
from skerry.runtime.delivery import Senders
from skerry.runtime.model_call import Failover
from skerry.runtime.toolbox import Toolbox
from skerry.runtime.usage.ledger import Ledger
from skerry.sessions.session_choice import SessionLimits, limits
from skerry.store import Store
from skerry.workspace.prompt_builder import Prompts

if TYPE_CHECKING:
    from skerry.ports.transcription import Transcriber
    from skerry.runtime.approvals import ApprovalDesk


def no_transcriber() -> None:
    """Returns None: recordings are not transcribed."""


class Runtime(Struct, frozen=True):
    """The services of the gateway that runs use."""

    store: Store
    models: Models
    tools: Toolbox
    config: Callable[[], Config]
    """Returns the present configuration. A run uses the one at its start."""
    clock: Clock
    histories: ConversationCache
    running: ActiveRuns
    publish: Callable[[RunEvent], None]
    """Sends an event to clients; must not block."""
    delivery: Senders
    """Senders of the platforms; they are woken after a COMMIT."""
    ledger: Ledger
    """Permits, books and counts the usage of runs."""
    hooks: Hooks
    supervisor: Supervisor
    """Supervisor of work that may hang."""
    records: FileRecords = field(default_factory=FileRecords)
    """Records of the writers of the workspaces' files."""
    prompts: Prompts = field(default_factory=Prompts)
    commands: CommandTable = field(default_factory=CommandTable)
    """Commands that are answered without a model."""
    approvals: "ApprovalDesk | None" = None
    """None if no person can be asked about a tool call."""
    transcriber: "Callable[[], Transcriber | None]" = no_transcriber
    """Returns the provider that transcribes recordings; None if none is configured."""

    def failover(self, target: CallTarget) -> Failover:
        """Returns a `Failover` for the calls of one run, with budgets and booking."""
        return Failover(self.models, target, self.ledger)

    def limits(self, request: RunRequest, config: Config) -> SessionLimits | None:
        """Returns the lifetime of the request's session; None unless a person writes to a model."""
        if request.purpose is not Purpose.MESSAGE or self.commands.command_in(request):
            return None
        channel = request.reply_to.channel if request.reply_to else WEBCHAT
        return limits(config.session, request.key, channel)


class RunPlan(Struct, frozen=True):
    """The context of one run: its own settings, else those of its session, else of its agent."""

    runtime: Runtime
    config: Config
    """The configuration at the start of the run; a later change applies to later runs."""
    active: ActiveRun
    settings: SessionSettings
    command: tuple[Command, str] | None
    """The command in the message and its arguments, answered without a model; None for none."""
    workspace: Path
    target: CallTarget
    """The requested model, and the facts that select its credential."""
    thinking: ThinkingLevel
    """Requested thinking level, if the model can think."""
    thinking_asked: bool
    """True if a person asked for this level, so that a lower one is reported."""
    caller: Caller
    """The person or program that asks, and the chat."""
    hooks: RunContext
    """The context of the run for hooks."""
    files: "AnswerFiles"
    """Files that the model names."""

    @property
    def show(self) -> Show:
        """Returns the function that returns the line for a file in an answer."""
        return self.files.show

    def variables(self, failover: Failover) -> Mapping[str, str]:
        """Returns the variables for the prefix of an answer."""
        agent_id = self.caller.key.agent
        agent = self.config.agents.by_id.get(agent_id)
        identity = agent.identity if agent else None
        thinking = self.active.request.thinking or self.settings.thinking_level
        return {
            "model": failover.model,
            "provider": failover.provider,
            "thinkingLevel": str(thinking or self.config.thinking(agent_id) or ""),
            "identity.name": (identity and identity.name) or (agent and agent.name) or agent_id,
        }


def run_plan(runtime: Runtime, config: Config, active: ActiveRun) -> RunPlan:
    """Returns the plan of a run that has entered its session."""
    settings, request = active.settings or SessionSettings(), active.request
    agent = request.key.agent
    requested = request.thinking or settings.thinking_level
    workspace, caller = config.workspace(agent), caller_of(request)
    return RunPlan(
        runtime=runtime,
        config=config,
        active=active,
        settings=settings,
        command=runtime.commands.command_in(request),
        workspace=workspace,
        target=CallTarget(
            settings.model or config.primary_model(agent),
            agent,
            active.session_id,
            request.run_id,
            request.purpose,
            request.reply_to.channel if request.reply_to else WEBCHAT,
        ),
        thinking=requested or config.thinking(agent) or ThinkingLevel.LOW,
        thinking_asked=requested is not None,
        caller=caller,
        hooks=run_context(request, active.session_id, workspace, caller),
        files=AnswerFiles(config, agent),
    )


_CHATS: Final = {SessionKind.GROUP: PeerKind.GROUP, SessionKind.CHANNEL: PeerKind.CHANNEL}


def caller_of(request: RunRequest) -> Caller:
    """Returns the caller of a request."""
    key, to = request.key, request.reply_to
    # The kind of chat in the key counts first, then that of the message.
    chat = _CHATS.get(key.kind) or (to.peer.kind if to else PeerKind.DIRECT)
    channel = to.channel if to else ""
    return Caller(
        key, chat, request.origin, request.is_private, channel, request.sender, request.behalf
    )


def run_context(
    request: RunRequest,
    session_id: SessionId,
    workspace: Path | None = None,
    caller: Caller | None = None,
) -> RunContext:
    """Returns the context of a run for hooks; `caller` is computed if it is None."""
    return RunContext(
        run_id=request.run_id,
        agent_id=request.key.agent,
        session_key=str(request.key),
        session_id=session_id,
        channel=request.reply_to.channel if request.reply_to else WEBCHAT,
        workspace=workspace,
        caller=caller or caller_of(request),
    )


def command_call(
    active: ActiveRun,
    command: Command,
    arguments: str = "",
    compact: Callable[[str], Awaitable[str]] | None = None,
) -> CommandCall:
    """Returns the call of a command in the run's message."""
    request, settings = active.request, active.settings
    return CommandCall(
        command.name,
        arguments,
        request.key,
        request.reply_to.channel if request.reply_to else WEBCHAT,
        is_owner=request.origin is Origin.OWNER,
        model=settings.model if settings else None,
        opening=request.opening,
        compact=compact,
        run_id=request.run_id,
        rights=request.may,
        scopes=request.scopes,
    )


logger = logging.getLogger(__name__)

STORE_SECONDS: Final = 1.0
"""Seconds between two attempts to write."""
T = TypeVar("T")


async def persisted(run_id: RunId, step: Callable[[], Awaitable[T]]) -> T:
    """Repeats `step` until the store accepts it; returns its result.

    Only the stop of the gateway ends the repetition, and never in the middle of a unit.
    """
    warned = False
    while True:
        try:
            with anyio.CancelScope(shield=True):
                return await step()
        except StoreFailedError as error:
            if not warned:
                logger.warning("run %s: retrying after a store error: %s", run_id, error)
                warned = True
        await anyio.sleep(STORE_SECONDS)


MEDIA: Final = "media"
"""Subdirectory of the state directory for files from and to people."""
_WEB: Final = ("http://", "https://")


class AnswerFiles:
    """Files that the answers of one run name, by the lines that represent them."""

    __slots__ = ("_agent", "_config", "references")

    def __init__(self, config: Config, agent: AgentId) -> None:
        self._config = config
        self._agent = agent
        self.references: dict[str, str] = {}
        """Reference of each existing file, by its line."""

    def show(self, reference: str) -> str:
        """Returns the line for a file; if it cannot be sent, with the reason."""
        if reference.lower().startswith(_WEB):
            return f"📎 {reference}"
        root = self._config.workspace(self._agent)
        try:
            path = relative_path(reference, root)
            with RootedFolder(root, gate(self._config)).open(path):
                pass
        except EscapeError as error:
            logger.warning("a file of an answer is not shown: %s", error)
            return f"{named_file(reference)} (not sent: it is not in the workspace)"
        except OSError:
            return f"{named_file(reference)} (not sent: there is no such file)"
        line = file_placeholder(reference)
        if self.references.get(line, reference) != reference:  # another file of the same name
            line = f"📎 {path}"
        self.references[line] = reference
        return line


def named_file(reference: str) -> str:
    """Returns the line for a file that is not sent."""
    return f"📎 {PurePath(reference).name}"


def relative_path(reference: str, root: Path) -> str:
    """Returns the path relative to the root, if it begins with the root."""
    path = PurePath(reference.removeprefix("file://"))
    if path.is_absolute() and path.is_relative_to(root):
        return str(path.relative_to(root))
    return str(path)
