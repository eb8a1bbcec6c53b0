"""Section `tools`: the tools of agents, and the people who may use them."""

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
    """Rules of a group of a channel; `config.channels` implements it."""

    @property
    def rules(self) -> GroupRules:
        """Returns the rules as the policy reads them."""
        ...


class HasGroups(Protocol):
    """Section of a channel; `config.channels` implements it."""

    @property
    def groups(self) -> Mapping[str, HasGroup]:
        """Returns the rules by id of the group."""
        ...


class GuestTools(Section):
    """Tools of people other than the owner: strangers, and other people in groups."""

    allow: tuple[ToolName, ...] = Field(default=(), max_length=100)
    """Names of tools that everybody who may write may use, such as `session_search`. `read` gives
    access to the files of the workspace without the memory; `write` and `edit` permit changes of
    files, except those that every later run reads. Only the owner may use the memory's tools."""

    @cached_property
    def granted(self) -> frozenset[str]:
        """Returns the names."""
        return frozenset(self.allow)


class ToolListsConfig(Section):
    """Lists of tools: names, groups such as `group:fs`, patterns with `*`, ids of plugins."""

    allow: tuple[ToolEntry, ...] | None = Field(default=None, max_length=200)
    """The only tools that are available; an empty list restricts nothing. A list with only plugins
    removes no built-in tool."""
    also_allow: tuple[ToolEntry, ...] = Field(default=(), max_length=200)
    """Tools in addition to the profile and to `allow` of the same section."""
    deny: tuple[ToolEntry, ...] = Field(default=(), max_length=200)
    """Tools that are not available, even if a list allows them."""

    @property
    def lists(self) -> ToolLists:
        """Returns the lists as the policy reads them."""
        profile = getattr(self, "profile", None)
        return ToolLists(profile, self.allow, self.also_allow, self.deny)


class ProfiledLists(ToolListsConfig):
    """Lists of tools that begin with a profile."""

    profile: Profile | None = None
    """Base set of tools: `minimal`, `coding`, `messaging` or `full`; when unset, all tools."""


class ElevatedConfig(Section):
    """Commands outside the sandbox, each of which a person has to approve."""

    enabled: bool = True
    """Permits requests for such commands; with `false` all are refused."""
    allow_from: dict[str, tuple[Sender, ...]] = Field(default_factory=dict)
    """Ids of the senders whose runs may request such commands, by channel; `*` is every sender of
    the channel. The owner may always do so on the gateway's page and command line."""

    @property
    def elevation(self) -> Elevation:
        """Returns it as the policy reads it."""
        return Elevation(self.enabled, {key.lower(): ids for key, ids in self.allow_from.items()})


class NestedLists(ToolListsConfig):
    """Lists of tools, which may also be given one level below, as in `openclaw.json`."""

    tools: ToolListsConfig = ToolListsConfig.model_construct()
    """The same lists one level below; both apply."""

    @property
    def lists(self) -> ToolLists:
        """Returns the lists of both levels merged."""
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
    """Tool calls that are repeated without progress."""

    enabled: bool = True
    """Warns the model about such calls, and denies further ones."""
    history_size: int = Field(default=30, ge=2, le=1000)
    """Number of the last calls of a run that are compared."""
    warning_threshold: int = Field(default=10, ge=2, le=1000)
    """Number of equal calls at which the model is warned, and again at each multiple."""
    critical_threshold: int = Field(default=20, ge=2, le=1000)
    """Number of equal polls of a background command, or of two alternating calls, from which
    further ones are denied while their results are the same."""
    global_circuit_breaker_threshold: int = Field(default=30, ge=2, le=1000)
    """Number of equal calls of any tool from which further ones are denied while their results are
    the same."""

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
    """Lists by model provider, or by `provider/model`, which has priority."""
    elevated: ElevatedConfig | None = None
    """Commands outside the sandbox."""
    loop_detection: LoopDetectionConfig | None = None
    """Tool calls that are repeated without progress."""
    subagents: NestedLists = NestedLists.model_construct()
    """Lists for sub-agents, in addition to the tools that are never available to sub-agents."""
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
    """Rules on the tools of one agent, in addition to those for all agents."""

    exec: AgentExec = AgentExec.model_construct()
    """Commands that the agent runs."""


class SessionToolsConfig(Section):
    """Tools about conversations."""

    visibility: Literal["self", "tree", "agent", "all"] = "tree"
    """Conversations that a model may list, read and write to: only its own (`self`), also those
    that it started (`tree`), all of its agent (`agent`), or those of all agents in
    `tools.agentToAgent` (`all`)."""


class AgentToAgent(Section):
    """Agents that may read and write to each other's conversations."""

    enabled: bool = False
    """Permits it if `tools.sessions.visibility` is `all`."""
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
    """Tools of people other than the owner."""
    web: WebToolsConfig = WebToolsConfig.model_construct()
    media: MediaConfig = MediaConfig.model_construct()
    sessions: SessionToolsConfig = SessionToolsConfig.model_construct()
    """Tools about conversations."""
    agent_to_agent: AgentToAgent = AgentToAgent.model_construct()
    """Agents that may read and write to each other's conversations."""

    def loops(self, agent: AgentTools | None) -> LoopLimits:
        """Returns the limits for repeated calls; a section of the agent replaces the common one."""
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
