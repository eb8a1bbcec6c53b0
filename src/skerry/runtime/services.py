"""Services for every run; made once by the application."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field

from skerry.commands.table import CommandTable
from skerry.config.root import Config
from skerry.hooks.events import WEBCHAT
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.infra.supervised_tasks import Leash
from skerry.lanes.running import Running
from skerry.model.caller import Caller
from skerry.model.event import RunEvent
from skerry.model.inbound import ReplyTo
from skerry.model.outbound import TextUnit
from skerry.model.run import Purpose, RunRequest
from skerry.policy.records import Records
from skerry.ports.model import Models
from skerry.ports.tool import Tool, offered
from skerry.ports.tries import Wanted
from skerry.runtime.conversation_cache import Histories
from skerry.runtime.failover import Accounts, Failover, NoAccounts
from skerry.runtime.usage.budgets import Warned
from skerry.runtime.usage.limits import Meter
from skerry.sessions.opening import Limits, limits
from skerry.store import Store
from skerry.workspace.prompt_builder import Prompts


def usual_room(_: ReplyTo) -> tuple[int, TextUnit]:
    """Returns the message limit of most platforms: openclaw-behaviour 6.7."""
    return 4000, TextUnit.CHARACTERS


async def no_signal(_: ReplyTo) -> None:
    """Shows nothing."""


def no_warning(_: RunRequest) -> Warned | None:
    """Says nothing."""
    return None


class Runtime(Struct, frozen=True):
    """The parts of the application that runs use."""

    store: Store
    models: Models
    tools: Mapping[str, Tool]
    config: Callable[[], Config]
    """Returns the present configuration. A message is accepted, and a run executed, with the one
    that it found at its beginning."""
    clock: Clock
    histories: Histories
    running: Running
    publish: Callable[[RunEvent], None]
    """Tells clients; must not block."""
    parts: Callable[[ReplyTo, str], list[str]]
    """Cuts a text into what the platform takes."""
    hooks: Hooks
    deliver: Callable[[ReplyTo], None]
    """Wakes the sender of the account; called after the COMMIT."""
    leash: Leash
    """Supervisor of work that may hang."""
    room: Callable[[ReplyTo], tuple[int, TextUnit]] = usual_room
    """Says how much the platform takes at once."""
    typing: Callable[[ReplyTo], Awaitable[None]] = no_signal
    """Shows on the platform that an answer is being written."""
    accounts: Accounts = field(default_factory=NoAccounts)
    """Permits and books the calls of models."""
    warn: Callable[[RunRequest], Warned | None] = no_warning
    """Says what the owner is to be told of a budget at the end of a run; mostly nothing."""
    records: Records = field(default_factory=Records)
    """Records of the writers of the workspaces' files."""
    meter: Meter | None = None
    """Counts what runs use, and ends those that reach a limit; None counts nothing."""
    prompts: Prompts = field(default_factory=Prompts)
    commands: CommandTable = field(default_factory=CommandTable)
    """Commands that are answered without a model."""

    def offered(self, caller: Caller, config: Config) -> list[Tool]:
        """Returns the tools that a run of the caller may use."""
        return offered(self.tools.values(), caller, config.tools.guests.granted)

    def asking(self, wanted: Wanted) -> Failover:
        """Returns who finds a model that answers, within the budgets, with every call booked."""
        return Failover(self.models, wanted, self.accounts)

    def limits(self, request: RunRequest, config: Config) -> Limits | None:
        """Returns how long the request's session lives; None where no person speaks to a model."""
        if request.purpose is not Purpose.MESSAGE or self.commands.given(request):
            return None
        channel = request.reply_to.channel if request.reply_to else WEBCHAT
        return limits(config.session, request.key, channel)
