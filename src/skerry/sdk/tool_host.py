"""`ToolHost`: the parts of a gateway that tools of features use."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from skerry.config.root import Config
from skerry.infra.clock import Clock
from skerry.model.errors import StateError
from skerry.model.ids import AgentId, SessionKey
from skerry.model.outbound import OutboundMedia
from skerry.model.skill import SkillSet
from skerry.policy.tool_layers import ToolLists, ToolSelection
from skerry.policy.tool_names import PROFILES
from skerry.ports.allowlist import Allowlist
from skerry.ports.dispatch import Dispatcher
from skerry.runtime.allowlist import StoredAllowlist
from skerry.runtime.internal_runs import InternalRuns
from skerry.sdk.search import SearchProvider
from skerry.store import Store


async def _refuse(method: str, _: Mapping[str, Any], __: tuple[str, ...]) -> Any:
    raise StateError(f"{method} needs a running gateway.")


def _tell_nobody(_: SessionKey, __: str) -> None:
    """Drops a notice: no gateway runs."""


class Outgoing(Protocol):
    """Sends direct messages on chat platforms through the outbox."""

    @property
    def channels(self) -> tuple[str, ...]:
        """Returns the names of the platforms with an account."""
        ...

    def takes_files(self, channel: str) -> bool:
        """Returns True when the first account of a platform can send files."""
        ...

    async def send(
        self, channel: str, person: str, text: str, media: OutboundMedia | None = None
    ) -> int:
        """Queues a direct message, with a file after its text; returns the number of its parts.

        Raises:
            KeyError: the platform has no account.
        """
        ...


def _start_nothing(_: Callable[[], Awaitable[None]], __: str) -> None:
    raise StateError("Commands need a running gateway.")


def _no_skills(_: AgentId) -> SkillSet:
    return SkillSet()


def _follow_nothing(_: Callable[[Config], None]) -> None:
    """Registers nothing: the configuration does not change where no gateway runs."""


class ToolHost(Struct, frozen=True, kw_only=True):
    """Parts of a gateway. The defaults are those where no gateway runs."""

    config: Callable[[], Config]
    """Returns the present configuration."""
    store: Store
    environ: Mapping[str, str]
    """Environment of the gateway, with the variables that the configuration file sets."""
    clock: Clock
    notify: Callable[[SessionKey, str], None] = _tell_nobody
    """Queues a system event, a text that the next run of the session reads."""

    call: Callable[[str, Mapping[str, Any], tuple[str, ...]], Awaitable[Any]] = _refuse
    """Calls a gateway method as the owner, with parameters and scopes; returns its payload.

    Raises:
        ToolError: the method returned an error.
        StateError: no gateway runs.
    """
    start: Callable[[Callable[[], Awaitable[None]], str], None] = _start_nothing
    """Starts background work under a name; it is cancelled when the gateway stops."""
    dispatcher: Dispatcher | None = None
    """Accepts requests to run; None where no gateway runs."""
    outgoing: Outgoing | None = None
    """None where no gateway runs."""
    internal_runs: InternalRuns | None = None
    """Starts runs without a message of a person; None where no gateway runs."""
    on_config_change: Callable[[Callable[[Config], None]], None] = _follow_nothing
    """Registers a function that is called with each changed configuration."""
    redact: Callable[[str], str] = str
    """Returns a text with its secrets replaced."""
    searches: Mapping[str, SearchProvider] = field(default_factory=dict)
    """Web searches by plugin id; changes when plugins are loaded or removed."""
    skills: Callable[[AgentId], SkillSet] = _no_skills
    """Returns the skills of an agent at its last run."""

    @property
    def allowlist(self) -> Allowlist:
        """Returns the stored patterns of commands that run without approval."""
        return StoredAllowlist(self.store, self.clock, self.redact)

    @property
    def state_dir(self) -> Path:
        """Returns the state directory."""
        return self.config().state_dir

    def is_chosen(self, agent: AgentId, name: str) -> bool:
        """Returns whether a profile or a list of allowed tools selects a tool by its name.

        Tools whose schemas are too long for every first request are offered only then.
        """
        return is_chosen(self.config(), agent, name)

    def workspace(self, agent: AgentId) -> Path:
        """Returns the workspace of an agent."""
        return self.config().workspace(agent)


def tool_lists(config: Config, agent: AgentId) -> ToolLists:
    """Returns the lists of tools that hold for an agent."""
    rules = config.tool_rules(agent)
    lists = rules.scope.lists
    return lists if rules.agent is None else rules.agent.lists.over(lists)


def names_tool(config: Config, agent: AgentId, name: str) -> bool:
    """Returns True when `tools.allow` or `tools.alsoAllow` of an agent selects a tool."""
    lists = tool_lists(config, agent)
    return bool(ToolSelection((*(lists.allow or ()), *lists.also_allow)).entry(name))


def is_chosen(config: Config, agent: AgentId, name: str) -> bool:
    """Returns True when a profile or a list of allowed tools of an agent names a tool."""
    lists = tool_lists(config, agent)
    if lists.profile is not None:
        profile = PROFILES.get(lists.profile)
        if profile is None or name in profile:
            return True
    return names_tool(config, agent, name)


def names_subagents(config: Config, agent: AgentId) -> bool:
    """Returns True for an agent with a section `subagents`, which also selects `sessions_spawn`."""
    entry = config.agents.by_id.get(agent)
    named_there = entry is not None and "subagents" in entry.model_fields_set
    return named_there or "subagents" in config.agents.defaults.model_fields_set
