"""The whole configuration, checked and immutable."""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from skerry.config.agents import AgentsConfig
from skerry.config.auth import CredentialsConfig
from skerry.config.base import OpenSection, with_sections
from skerry.config.bindings import Binding
from skerry.config.channels import ChannelConfig, checked_channels
from skerry.config.commands import CommandsConfig
from skerry.config.context_limits import LegacyAgent, moved
from skerry.config.cron import CronConfig
from skerry.config.env import EnvConfig
from skerry.config.gateway import GatewayConfig
from skerry.config.hooks import HooksConfig
from skerry.config.limits import LimitsConfig
from skerry.config.memory import MemoryConfig, MemorySearchConfig
from skerry.config.memory_search import overlaid
from skerry.config.messages import MessagesConfig
from skerry.config.models import ModelsConfig
from skerry.config.plugins import PluginsConfig
from skerry.config.sandbox import SandboxConfig
from skerry.config.secret_providers import SecretsConfig
from skerry.config.session import SessionConfig
from skerry.config.skill_settings import SkillsConfig
from skerry.config.tools import ToolsConfig
from skerry.config.usage import UsageConfig
from skerry.model.errors import InvalidSessionKeyError
from skerry.model.ids import AgentId, SessionKey, agent_id
from skerry.model.thinking import ThinkingLevel
from skerry.policy.tool_policy import SANDBOX, ToolRules


@lru_cache(maxsize=256)
def _child_path(directory: Path, name: str) -> Path:
    """Returns a path; it is cached, because each turn needs one and it costs as much as a query."""
    return directory / name


@with_sections("")
class Config(OpenSection):
    """All keys of `skerry.json`, with the defaults.

    `state_dir`, `path` and `included` (the included files) are its sources, not keys of the file.
    """

    gateway: GatewayConfig = GatewayConfig.model_construct()
    agents: AgentsConfig = AgentsConfig.model_construct()
    agent: LegacyAgent = LegacyAgent.model_construct()
    models: ModelsConfig = ModelsConfig.model_construct()
    auth: CredentialsConfig = CredentialsConfig.model_construct()
    memory: MemoryConfig = MemoryConfig.model_construct()
    messages: MessagesConfig = MessagesConfig.model_construct()
    cron: CronConfig = CronConfig.model_construct()
    plugins: PluginsConfig = PluginsConfig.model_construct()
    hooks: HooksConfig = HooksConfig.model_construct()
    bindings: tuple[Binding, ...] = Field(default=(), max_length=1000)
    """Rules that assign conversations to agents; the most specific matching rule applies."""
    broadcast: dict[str, tuple[str, ...]] = Field(default_factory=dict, max_length=100)
    """Lists of agents that all answer in a conversation, by its id on the platform, with or without
    `channel:`; such a list replaces the bindings."""
    commands: CommandsConfig = CommandsConfig.model_construct()
    session: SessionConfig = SessionConfig.model_construct()
    env: EnvConfig = EnvConfig.model_construct()
    tools: ToolsConfig = ToolsConfig.model_construct()
    skills: SkillsConfig = SkillsConfig.model_construct()
    channels: Annotated[
        dict[str, SerializeAsAny[ChannelConfig]], BeforeValidator(checked_channels)
    ] = Field(default_factory=dict)
    """Settings of chat platforms, by name."""
    usage: UsageConfig = UsageConfig.model_construct()
    secrets: SecretsConfig = SecretsConfig.model_construct()
    state_dir: Path = Field(exclude=True)
    path: Path = Field(exclude=True)
    included: tuple[Path, ...] = Field(default=(), exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _old_places(cls, value: object) -> object:
        return moved(value) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _bindings_name_agents(self) -> Self:
        agent_ids = self.agents.ids
        invalid = [
            n
            for n, binding in enumerate(self.bindings)
            if agent_id(binding.agent_id) not in agent_ids
        ]
        if invalid:
            listed = {"known": ", ".join(agent_ids)}
            text = "it names no agent of agents.list, which has {known}"
            error = PydanticCustomError("unknown_agent", text, listed)
            raise ValidationError.from_exception_data(
                type(self).__name__,
                [
                    InitErrorDetails(type=error, loc=("bindings", n, "agentId"), input=None)
                    for n in invalid
                ],
            )
        return self

    @model_validator(mode="after")
    def _broadcasts_name_agents(self) -> Self:
        agent_ids = self.agents.ids
        for name, listed in self.broadcast.items():
            if not listed or any(agent_id(agent) not in agent_ids for agent in listed):
                listed_ids = {"known": ", ".join(agent_ids)}
                text = "it names no agent, or one that agents.list lacks, which has {known}"
                error = PydanticCustomError("unknown_agent", text, listed_ids)
                raise ValidationError.from_exception_data(
                    type(self).__name__,
                    [InitErrorDetails(type=error, loc=("broadcast", name), input=None)],
                )
        return self

    @model_validator(mode="after")
    def _budgets_name_agents(self) -> Self:
        agent_ids = self.agents.ids
        for name in self.usage.budgets.agents:
            if agent_id(name) != name or name not in agent_ids:
                listed = {"known": ", ".join(agent_ids)}
                text = "there is no such agent in agents.list, which has {known}"
                error = PydanticCustomError("unknown_agent", text, listed)
                key_path = ("usage", "budgets", "agents", name)
                raise ValidationError.from_exception_data(
                    type(self).__name__, [InitErrorDetails(type=error, loc=key_path, input=None)]
                )
        return self

    @model_validator(mode="after")
    def _batches_are_openais(self) -> Self:
        for agent in self.agents.ids:
            search = self.memory_search(agent)
            if search.provider == "voyage" and search.remote.batch.enabled:
                text = (
                    "it is OpenAI's Batch API, and agent {agent} has provider voyage: set it to"
                    " false, or the provider to openai"
                )
                error = PydanticCustomError("no_batch", text, {"agent": agent})
                key_path = ("agents", "defaults", "memorySearch", "remote", "batch", "enabled")
                raise ValidationError.from_exception_data(
                    type(self).__name__, [InitErrorDetails(type=error, loc=key_path, input=None)]
                )
        return self

    def session_key(self, text: str | None, agent: str | None) -> SessionKey:
        """Returns the session key of a request by key or agent; without both, the main session.

        Raises:
            InvalidSessionKeyError: the key does not parse, or belongs to another agent.
        """
        owner = agent_id(agent) if agent else self.agents.default_id
        key = SessionKey.parse(text or "", owner)
        if agent and key.agent != owner:
            reason = f"it belongs to agent {key.agent!r}, not to {owner!r}"
            raise InvalidSessionKeyError(str(key), reason)
        return key

    def workspace(self, agent: AgentId) -> Path:
        """Returns the agent's workspace; by default in the state directory (seed 004)."""
        settings = self.agents.by_id.get(agent)
        if settings is not None and settings.workspace is not None:
            return settings.workspace.expanduser()
        if agent == self.agents.default_id:
            configured = self.agents.defaults.workspace
            return (
                configured.expanduser() if configured else _child_path(self.state_dir, "workspace")
            )
        return _child_path(self.state_dir, f"workspace-{agent}")

    def thinking(self, agent: AgentId) -> ThinkingLevel | None:
        """Returns the reasoning level that is configured for the agent, or None."""
        settings = self.agents.by_id.get(agent)
        if settings is not None and settings.thinking_default is not None:
            return settings.thinking_default
        return self.agents.defaults.thinking_default

    def primary_model(self, agent: AgentId) -> str | None:
        """Returns the `provider/model` that is configured for the agent, or None."""
        settings = self.agents.by_id.get(agent)
        if settings is not None and settings.model is not None and settings.model.primary:
            return settings.model.primary
        return self.agents.defaults.model.primary

    def fallback_models(self, agent: AgentId) -> tuple[str, ...]:
        """Returns the models to try in order when the primary model of the agent fails.

        A list of the agent, even an empty one, replaces that of `agents.defaults`.
        """
        settings = self.agents.by_id.get(agent)
        if (
            settings is not None
            and settings.model is not None
            and settings.model.fallbacks is not None
        ):
            return settings.model.fallbacks
        return self.agents.defaults.model.fallbacks or ()

    def memory_search(self, agent: AgentId) -> MemorySearchConfig:
        """Returns the memory settings of the agent: its keys over those of `agents.defaults`."""
        settings = self.agents.by_id.get(agent)
        defaults = self.agents.defaults.memory_search
        if settings is not None and settings.memory_search is not None:
            return overlaid(defaults, settings.memory_search)
        return defaults

    def limits(self, agent: AgentId | str) -> LimitsConfig:
        """Returns the usage limits of the agent: its keys over those of `agents.defaults`."""
        settings = self.agents.by_id.get(AgentId(agent))
        if settings is not None and settings.limits is not None:
            return overlaid(self.agents.defaults.limits, settings.limits)
        return self.agents.defaults.limits

    def tool_rules(
        self, agent: AgentId | str, plugin_tools: frozenset[str] = frozenset()
    ) -> ToolRules:
        """Returns the rules on the agent's tools; the same object until the configuration changes.

        Args:
            agent: The id of the agent.
            plugin_tools: Names of the tools that loaded plugins registered.

        """
        return self.tools.rules(
            self.agents.tools_of(agent),
            self.channels,
            self.plugins,
            plugin_tools,
            self.agents.defaults.subagents.max_spawn_depth,
        )

    def channel(self, name: str) -> ChannelConfig | None:
        """Returns the settings of a chat platform, ignoring the case of the name; or None."""
        rules = self.channels.get(name)
        if rules is not None or not self.channels:
            return rules
        folded = name.lower()
        return next((value for key, value in self.channels.items() if key.lower() == folded), None)

    def sandbox(self, agent: AgentId) -> SandboxConfig:
        """Returns the sandbox of the agent: its keys over those of `agents.defaults`."""
        settings = self.agents.by_id.get(agent)
        if settings is not None and settings.sandbox is not None:
            return overlaid(self.agents.defaults.sandbox, settings.sandbox)
        return self.agents.defaults.sandbox

    def is_sandboxed(self, key: SessionKey) -> bool:
        """Returns whether the commands of the conversation run in a sandbox."""
        settings = self.agents.by_id.get(key.agent)
        host = (settings and settings.tools and settings.tools.exec.host) or self.tools.exec.host
        return host == SANDBOX and self.sandbox(key.agent).covers(key)

    def agent_dir(self, agent: AgentId) -> Path:
        """Returns the directory of the agent's credentials, which is closed to its tools."""
        settings = self.agents.by_id.get(agent)
        if settings is not None and settings.agent_dir is not None:
            return settings.agent_dir.expanduser()
        return self.state_dir / "agents" / agent / "agent"


class PresentConfig:
    """The present configuration. Parts that follow changes call it at each use."""

    __slots__ = ("config",)

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self) -> Config:
        """Returns the present configuration."""
        return self.config
