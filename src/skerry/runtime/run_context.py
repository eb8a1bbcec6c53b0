"""The services of the gateway that runs use, and the frozen plan of each run."""

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
from skerry.replies.shaping import Show, named
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


def nobody() -> None:
    """Returns that no recording is transcribed."""


class Runtime(Struct, frozen=True):
    """The parts of the application that runs use."""

    store: Store
    models: Models
    tools: Toolbox
    config: Callable[[], Config]
    """Returns the present configuration. A message is accepted, and a run executed, with the one
    that it found at its beginning."""
    clock: Clock
    histories: ConversationCache
    running: ActiveRuns
    publish: Callable[[RunEvent], None]
    """Tells clients; must not block."""
    delivery: Senders
    """Senders of the platforms; one is woken after the COMMIT."""
    ledger: Ledger
    """Permits, books and counts what runs use."""
    hooks: Hooks
    supervisor: Supervisor
    """Supervisor of work that may hang."""
    records: FileRecords = field(default_factory=FileRecords)
    """Records of the writers of the workspaces' files."""
    prompts: Prompts = field(default_factory=Prompts)
    commands: CommandTable = field(default_factory=CommandTable)
    """Commands that are answered without a model."""
    approvals: "ApprovalDesk | None" = None
    """None where no person can be asked about a tool call."""
    transcriber: "Callable[[], Transcriber | None]" = nobody
    """Returns who makes text of recordings; None where no provider is configured."""

    def failover(self, target: CallTarget) -> Failover:
        """Returns who finds a model that answers, within the budgets, with every call booked."""
        return Failover(self.models, target, self.ledger)

    def limits(self, request: RunRequest, config: Config) -> SessionLimits | None:
        """Returns how long the request's session lives; None where no person speaks to a model."""
        if request.purpose is not Purpose.MESSAGE or self.commands.command_in(request):
            return None
        channel = request.reply_to.channel if request.reply_to else WEBCHAT
        return limits(config.session, request.key, channel)


class RunPlan(Struct, frozen=True):
    """The context of one run: its own word decides, else that of its session, else of its agent."""

    runtime: Runtime
    config: Config
    """The configuration as it was when the run started; a later change is for later runs."""
    active: ActiveRun
    settings: SessionSettings
    command: tuple[Command, str] | None
    """The command that the message is, and its arguments; it is answered without a model."""
    workspace: Path
    target: CallTarget
    """The model that is asked for, and what decides with which credential."""
    thinking: ThinkingLevel
    """Effort of thinking that the model is asked for, if it can think."""
    thinking_asked: bool
    """True if somebody asked for just that level, so that a lower one is reported."""
    caller: Caller
    """The person or program that asks, and where."""
    hooks: RunContext
    """The run as hooks see it."""
    files: "AnswerFiles"
    """Files that the model names."""

    @property
    def show(self) -> Show:
        """Returns the function that says what an answer shows of a file."""
        return self.files.show

    def variables(self, failover: Failover) -> Mapping[str, str]:
        """Returns the variables that the prefix of an answer may name."""
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
    """Returns who asks with a request."""
    key, to = request.key, request.reply_to
    # What the key says counts, then the chat that the message came from.
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
    """Returns the context of a run for hooks; a known caller is passed in."""
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
    """Returns it for the command that the run's message gives, or asks for beside what it says."""
    request, own = active.request, active.settings
    return CommandCall(
        command.name,
        arguments,
        request.key,
        request.reply_to.channel if request.reply_to else WEBCHAT,
        is_owner=request.origin is Origin.OWNER,
        model=own.model if own else None,
        opening=request.opening,
        compact=compact,
        run_id=request.run_id,
        rights=request.may,
        scopes=request.scopes,
    )


logger = logging.getLogger(__name__)

STORE_SECONDS: Final = 1.0
"""Seconds between two tries."""
T = TypeVar("T")


async def persisted(run_id: RunId, step: Callable[[], Awaitable[T]]) -> T:
    """Returns the result of `step`, as soon as the store accepts it.

    Only the gateway's stop ends the waiting, and never in the middle of a unit.
    """
    warned = False
    while True:
        try:
            with anyio.CancelScope(shield=True):
                return await step()
        except StoreFailedError as error:
            if not warned:
                logger.warning("run %s waits for the store: %s", run_id, error)
                warned = True
        await anyio.sleep(STORE_SECONDS)


MEDIA: Final = "media"
"""The directory of the state directory where files for people may be."""
_WEB: Final = ("http://", "https://")


class AnswerFiles:
    """Files that the answers of one run name, by the lines that stand for them."""

    __slots__ = ("_agent", "_config", "references")

    def __init__(self, config: Config, agent: AgentId) -> None:
        self._config = config
        self._agent = agent
        self.references: dict[str, str] = {}
        """File by its line, of those that there are."""

    def show(self, reference: str) -> str:
        """Returns the line that stands for a file, with the reason where there is none."""
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
        line = named(reference)
        if self.references.get(line, reference) != reference:  # another file of the same name
            line = f"📎 {path}"
        self.references[line] = reference
        return line


def named_file(reference: str) -> str:
    """Returns the line that stands for a file which is not sent."""
    return f"📎 {PurePath(reference).name}"


def relative_path(reference: str, root: Path) -> str:
    """Returns the path relative to the root, where it lies beneath it by its name."""
    path = PurePath(reference.removeprefix("file://"))
    if path.is_absolute() and path.is_relative_to(root):
        return str(path.relative_to(root))
    return str(path)
