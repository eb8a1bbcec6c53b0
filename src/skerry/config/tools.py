"""Section `tools`: which tools an agent has, and who may use them."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal, Protocol, Self

from pydantic import BeforeValidator, Field, model_validator

from skerry.config.base import Section
from skerry.config.exec import AgentExec, ExecConfig
from skerry.config.plugins import PluginsConfig
from skerry.config.tools_media import MediaConfig
from skerry.config.tools_web import WebToolsConfig
from skerry.policy.loop_detection import LoopLimits
from skerry.policy.tool_layers import ToolLists
from skerry.policy.tool_policy import Elevation, GroupRules, ToolRules, ToolScope

ToolName = Annotated[str, Field(min_length=1, max_length=64)]
ToolEntry = Annotated[str, Field(min_length=1, max_length=128)]
Sender = Annotated[str, BeforeValidator(lambda value: str(value).strip().lower())]
Profile = Literal["minimal", "coding", "messaging", "full"]


class HasGroup(Protocol):
    """Rules of a group of a channel, as `config.channels` has them."""

    @property
    def rules(self) -> GroupRules:
        """Returns the rules as the policy reads them."""
        ...


class HasGroups(Protocol):
    """Section of a channel, as `config.channels` has it."""

    @property
    def groups(self) -> Mapping[str, HasGroup]:
        """Returns the rules by id of the group."""
        ...


class GuestTools(Section):
    """Tools of whoever is not the owner: strangers, and others in groups."""

    allow: tuple[ToolName, ...] = Field(default=(), max_length=100)
    """Names of tools that everybody who may write may use, such as `session_search`. `read` opens
    the files of the workspace, less the memory, to them; `write` and `edit` open them for changes,
    less what every later run reads. The memory's own tools stay the owner's."""

    @cached_property
    def granted(self) -> frozenset[str]:
        """Returns the names."""
        return frozenset(self.allow)


class ToolListsConfig(Section):
    """Lists of tools: names, groups such as `group:fs`, patterns with `*`, ids of plugins."""

    allow: tuple[ToolEntry, ...] | None = Field(default=None, max_length=200)
    """The only tools that there are; empty restricts nothing. A list that names plugins alone
    removes no tool of this program."""
    also_allow: tuple[ToolEntry, ...] = Field(default=(), max_length=200)
    """Tools in addition to the profile and to `allow` of the same section."""
    deny: tuple[ToolEntry, ...] = Field(default=(), max_length=200)
    """Tools that there are not, whatever any list allows."""

    @property
    def lists(self) -> ToolLists:
        """Returns the lists as the policy reads them."""
        profile = getattr(self, "profile", None)
        return ToolLists(profile, self.allow, self.also_allow, self.deny)


class ProfiledLists(ToolListsConfig):
    """Lists of tools that begin with a profile."""

    profile: Profile | None = None
    """Base set: `minimal`, `coding`, `messaging` or `full`; without one nothing is left out."""


class ElevatedConfig(Section):
    """Commands outside the sandbox that a person approves one by one."""

    enabled: bool = True
    """Permits asking for them; false refuses every such command."""
    allow_from: dict[str, tuple[Sender, ...]] = Field(default_factory=dict)
    """Ids of the senders who may ask, by channel; `*` is everybody there. The owner may at the
    gateway's own page and command line."""

    @property
    def elevation(self) -> Elevation:
        """Returns it as the policy reads it."""
        return Elevation(self.enabled, {key.lower(): ids for key, ids in self.allow_from.items()})


class NestedLists(ToolListsConfig):
    """Lists of tools, which may also be given one level below, as in `openclaw.json`."""

    tools: ToolListsConfig = ToolListsConfig.model_construct()
    """The same lists; both hold."""

    @property
    def lists(self) -> ToolLists:
        """Returns both levels as one."""
        inner = self.tools
        return ToolLists(
            allow=self.allow or inner.allow,
            also_allow=(*self.also_allow, *inner.also_allow),
            deny=(*self.deny, *inner.deny),
        )


class SandboxToolsConfig(Section):
    """Tools of sandboxed conversations."""

    tools: ToolListsConfig = ToolListsConfig.model_construct()
    """Lists for conversations whose commands run in a sandbox."""


class LoopDetectionConfig(Section):
    """Calls of tools that repeat without progress."""

    enabled: bool = True
    """Tells the model of such calls, and denies them later."""
    history_size: int = Field(default=30, ge=2, le=1000)
    """Calls of a run that are looked at."""
    warning_threshold: int = Field(default=10, ge=2, le=1000)
    """Equal calls at which the model is told, and at each multiple."""
    critical_threshold: int = Field(default=20, ge=2, le=1000)
    """Equal questions about a command in the background, and calls of a pair in turn, from which on
    they are denied while their results stay the same."""
    global_circuit_breaker_threshold: int = Field(default=30, ge=2, le=1000)
    """Equal calls of any tool from which on they are denied while their results stay the same."""

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        steps = (self.warning_threshold, self.critical_threshold)
        if not steps[0] < steps[1] < self.global_circuit_breaker_threshold:
            raise ValueError("warning, critical and globalCircuitBreaker threshold must increase")
        return self

    @property
    def limits(self) -> LoopLimits:
        """Returns it as the policy reads it."""
        return LoopLimits(
            self.enabled,
            self.history_size,
            self.warning_threshold,
            self.critical_threshold,
            self.global_circuit_breaker_threshold,
        )


class ToolsScope(ProfiledLists):
    """Rules on tools, for all agents or for one."""

    by_provider: dict[str, ProfiledLists] = Field(default_factory=dict)
    """Lists for single model providers, or `provider/model`, which has priority."""
    elevated: ElevatedConfig | None = None
    """Commands outside the sandbox."""
    loop_detection: LoopDetectionConfig | None = None
    """Calls that repeat without progress."""
    subagents: NestedLists = NestedLists.model_construct()
    """Lists for sub-agents, in addition to the tools that no sub-agent has."""
    sandbox: SandboxToolsConfig = SandboxToolsConfig.model_construct()
    """Lists for sandboxed conversations."""

    def scope(self, path: str) -> ToolScope:
        """Returns the rules as the policy reads them; `path` is the key of the section."""
        return ToolScope(
            path,
            self.lists,
            {key: lists.lists for key, lists in self.by_provider.items()},
            self.elevated.elevation if self.elevated else None,
            self.subagents.lists,
            self.sandbox.tools.lists,
        )


class AgentTools(ToolsScope):
    """Rules on the tools of one agent, in addition to those of all."""

    exec: AgentExec = AgentExec.model_construct()
    """Commands that the agent runs."""


class SessionToolsConfig(Section):
    """Tools about conversations."""

    visibility: Literal["self", "tree", "agent", "all"] = "tree"
    """Conversations that a model may list, read and address: its own; also those that it started;
    all of its agent; all of the agents in `tools.agentToAgent`."""


class AgentToAgent(Section):
    """Agents that may see and address each other's conversations."""

    enabled: bool = False
    """Permits it, where `tools.sessions.visibility` is `all`."""
    allow: tuple[ToolName, ...] = Field(default=(), max_length=100)
    """Ids of the agents; `*` is every agent, an empty list is none."""

    def allows(self, agent: str) -> bool:
        """Returns whether the agent takes part."""
        return self.enabled and ("*" in self.allow or agent in self.allow)


class ToolsConfig(ToolsScope):
    """Tools of all agents."""

    exec: ExecConfig = ExecConfig.model_construct()
    """Commands that agents run."""
    guests: GuestTools = GuestTools.model_construct()
    """Tools of whoever is not the owner."""
    web: WebToolsConfig = WebToolsConfig.model_construct()
    media: MediaConfig = MediaConfig.model_construct()
    sessions: SessionToolsConfig = SessionToolsConfig.model_construct()
    """Tools about conversations."""
    agent_to_agent: AgentToAgent = AgentToAgent.model_construct()
    """Agents that may see and address each other's conversations."""

    def loops(self, agent: AgentTools | None) -> LoopLimits:
        """Returns when repeated calls of an agent are noticed; its own section is the only one."""
        detection = (agent and agent.loop_detection) or self.loop_detection
        return detection.limits if detection else LoopLimits()

    def rules(
        self,
        agent_tools: tuple[str, AgentTools | None],
        channels: Mapping[str, HasGroups],
        plugins: PluginsConfig,
        plugin_tools: frozenset[str],
        spawn_depth: int = 1,
    ) -> ToolRules:
        """Returns all rules on the tools of one agent; see `Config.tool_rules`."""
        path, agent = agent_tools
        parts = (agent, channels, plugins)
        key = (path, plugin_tools, spawn_depth)
        cached = self._rules_by_agent.get(key)
        if cached is not None and all(
            old is new for old, new in zip(cached[0], parts, strict=True)
        ):
            return cached[1]
        rules = ToolRules(
            self.scope("tools"),
            agent.scope(path) if agent else None,
            self.guests.granted,
            {
                name.lower(): {
                    id_.strip().casefold(): group.rules for id_, group in channel.groups.items()
                }
                for name, channel in channels.items()
            },
            plugins.named | plugin_tools,
            (agent.exec.host if agent else None) or self.exec.host,
            spawn_depth,
        )
        self._rules_by_agent[key] = (parts, rules)
        return rules

    @cached_property
    def _rules_by_agent(
        self,
    ) -> dict[tuple[str, frozenset[str], int], tuple[tuple[object, ...], ToolRules]]:
        return {}
