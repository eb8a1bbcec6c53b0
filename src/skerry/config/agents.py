"""Section `agents`: personas, their workspaces and their models."""

from functools import cached_property
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from skerry.config.base import OpenSection
from skerry.config.context_limits import Compaction, ContextPruning
from skerry.config.heartbeat import HeartbeatConfig
from skerry.config.limits import LimitsConfig
from skerry.config.memory import MemorySearchConfig
from skerry.config.messages import MentionConfig
from skerry.config.models import AllowedModel
from skerry.config.replies import ReplyDefaults
from skerry.config.sandbox import SandboxConfig
from skerry.config.skill_settings import SkillName
from skerry.config.tools import AgentTools
from skerry.model.ids import MAIN_AGENT, AgentId, agent_id
from skerry.model.thinking import ThinkingLevel

SHORT_FORMS: Final = {"agents.defaults.model": "primary", "agents.defaults.imageModel": "primary"}
"""Sections that the file may write as a text: the value of this key."""


class ModelChoice(OpenSection):
    """Model of an agent and its fallbacks."""

    primary: str | None = None
    """`provider/model`. When unset, the first usable of: a provider whose key is in the
    environment, a local model server, `models.embedded.file`, the packaged demonstration model."""

    fallbacks: tuple[str, ...] | None = Field(default=None, max_length=20)
    """Models that are tried in order when the primary one fails; `[]` is none."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"primary": value} if isinstance(value, str) else value


class SubagentDefaults(OpenSection):
    """Sub-agents: agents that an agent starts."""

    max_concurrent: int = Field(default=8, ge=1, le=1000)
    """Runs of sub-agents at the same time, in addition to `agents.defaults.maxConcurrent`."""
    max_spawn_depth: int = Field(default=1, ge=1, le=5)
    """Depth to which sub-agents may start sub-agents; with 1 they may not start any."""
    max_children_per_agent: int = Field(default=5, ge=1, le=20)
    """Sub-agents of one conversation that run or wait at the same time."""
    archive_after_minutes: int = Field(default=60, ge=0, le=525_600)
    """Minutes after the end of a sub-agent at which its session is archived; 0 keeps it."""
    model: str | None = Field(default=None, max_length=256)
    """`provider/model` of sub-agents; when unset, that of the conversation that starts them."""
    thinking: ThinkingLevel | None = None
    """Reasoning effort of sub-agents; when unset, that of the conversation that starts them."""


class AgentSubagents(OpenSection):
    """Sub-agents of one agent."""

    allow_agents: tuple[str, ...] = Field(default=(), max_length=100)
    """Ids of other agents that this one may start as sub-agents; `*` is every agent."""
    model: str | None = Field(default=None, max_length=256)
    """`provider/model` of this agent when it runs as a sub-agent."""
    thinking: ThinkingLevel | None = None
    """Reasoning effort of this agent when it runs as a sub-agent."""

    def allows(self, agent: AgentId) -> bool:
        """Returns whether the agent may start another one."""
        return any(name == "*" or agent_id(name) == agent for name in self.allow_agents)


class AgentDefaults(ReplyDefaults):
    """Defaults for every agent."""

    model: ModelChoice = ModelChoice.model_construct()
    image_model: ModelChoice = ModelChoice.model_construct()
    """Model that the tool `image` uses to describe pictures; when unset, the tool gives the
    pictures to the model of the run."""
    models: dict[str, AllowedModel] = Field(default_factory=dict)
    """Models that conversations may choose, by `provider/model`, with their aliases. With entries,
    only these and the primary models may be chosen; without any, all may."""
    workspace: Path | None = None
    """Workspace of the default agent; `<state>/workspace` when unset."""
    thinking_default: ThinkingLevel | None = None
    """Reasoning effort of models that support it: `off`, `minimal`, `low`, `medium`, `high`,
    `xhigh`; `low` when unset."""
    skip_bootstrap: bool = False
    """Creates new workspaces without the files that a first start normally writes."""
    bootstrap_max_chars: int = Field(default=20_000, ge=200, le=1_000_000)
    """Maximum characters of one workspace file in the system prompt; of a longer file the beginning
    and the end are included."""
    bootstrap_total_max_chars: int = Field(default=150_000, ge=200, le=4_000_000)
    """Maximum characters of all workspace files together in the system prompt."""
    user_timezone: str | None = None
    """Time zone of the owner, such as `Europe/Lisbon`; when unset, that of this machine."""
    timeout_seconds: float = Field(default=600.0, ge=0)
    """Seconds after which a run is aborted; 0 is no limit."""
    media_max_mb: int = Field(default=5, ge=0, le=50)
    """Maximum size in MB of a file that an answer or the tool `message` sends to a platform; 0
    sends no files."""
    max_concurrent: int = Field(default=4, ge=1, le=1000)
    """Maximum number of runs at the same time, over all sessions."""
    subagents: SubagentDefaults = SubagentDefaults.model_construct()
    context_pruning: ContextPruning = ContextPruning.model_construct()
    compaction: Compaction = Compaction.model_construct()
    memory_search: MemorySearchConfig = MemorySearchConfig.model_construct()
    limits: LimitsConfig = LimitsConfig.model_construct()
    """Limits on the usage of a run and of a day; a run that exceeds one ends."""
    sandbox: SandboxConfig = SandboxConfig.model_construct()
    """Sandbox in which commands run."""
    heartbeat: HeartbeatConfig = HeartbeatConfig.model_construct()

    @field_validator("user_timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return ZoneInfo(value).key
        except (KeyError, ValueError, OSError) as error:
            message = f"{value!r} is not a time zone of this machine, such as Europe/Lisbon"
            raise ValueError(message) from error


class IdentityConfig(OpenSection):
    """Identity that an agent shows to people."""

    name: str = Field(default="", max_length=50)
    """Name that is shown instead of the agent's `name`."""
    creature: str = Field(default="", max_length=500)
    """Kind of being that the agent presents itself as."""
    vibe: str = Field(default="", max_length=500)
    """Tone in which the agent writes."""
    theme: str = Field(default="", max_length=500)
    """Short description of the agent's manner."""
    emoji: str = Field(default="", max_length=16)
    """Emoji that is shown next to its name."""
    avatar: str = Field(default="", max_length=200)
    """A letter, an emoji, the https address of a picture, or its path in the workspace."""


class AgentConfig(OpenSection):
    """One agent."""

    id: AgentId
    """Id of the agent: lower-case letters, digits, `-` and `_`."""
    default: bool = False
    """Makes this agent answer messages that no binding matches."""
    heartbeat: HeartbeatConfig | None = None
    """Periodic checks of this agent. If any agent has this section, only agents with it do
    checks."""
    name: str = ""
    """Name that people see; the id when empty."""
    workspace: Path | None = None
    """Workspace of the agent; `<state>/workspace-<id>` when unset."""
    agent_dir: Path | None = None
    """Directory of the agent's credentials, outside every workspace; `<state>/agents/<id>/agent`
    when unset."""
    model: ModelChoice | None = None
    """Model of the agent; when unset, that of `agents.defaults`."""
    thinking_default: ThinkingLevel | None = None
    """Reasoning effort of the agent's model; the value of `agents.defaults` when unset."""
    memory_search: MemorySearchConfig | None = None
    """Memory of the agent; each missing key takes the value of `agents.defaults`."""
    limits: LimitsConfig | None = None
    """Usage limits of the agent; each missing key takes the value of `agents.defaults`."""
    subagents: AgentSubagents = AgentSubagents.model_construct()
    sandbox: SandboxConfig | None = None
    """Sandbox of its commands; each missing key takes the value of `agents.defaults`."""
    identity: IdentityConfig | None = None
    """Identity that the agent shows to people."""
    tools: AgentTools | None = None
    """Rules on the agent's tools, in addition to those in section `tools`."""
    group_chat: MentionConfig | None = None
    """Recognition of group messages that are addressed to the agent."""
    skills: tuple[SkillName, ...] | None = Field(default=None, max_length=1000)
    """Names of the skills that the agent may use; `[]` is none, and when unset, all."""

    @field_validator("id")
    @classmethod
    def _plain_id(cls, value: AgentId) -> AgentId:
        if agent_id(value) != value:
            message = f"{value!r} is not an agent id; use {agent_id(value)!r}"
            raise ValueError(message)
        return value


def _duplicate_error(ids: list[AgentId], index: int) -> InitErrorDetails:
    first = ids.index(ids[index])
    error = PydanticCustomError(
        "duplicate",
        "{id} is also the id of agents.list[{first}]",
        {"id": ids[index], "first": first},
    )
    return InitErrorDetails(type=error, loc=(index, "id"), input=ids[index])


class AgentsConfig(OpenSection):
    """The agents; without a list there is one, `main`."""

    defaults: AgentDefaults = AgentDefaults.model_construct()
    list: tuple[AgentConfig, ...] = ()
    """The agents; without a list there is one, `main`."""

    @field_validator("list")
    @classmethod
    def _ids_are_unique(cls, value: tuple[AgentConfig, ...]) -> tuple[AgentConfig, ...]:
        ids = [agent.id for agent in value]
        duplicates = [index for index, id_ in enumerate(ids) if id_ in ids[:index]]
        if duplicates:
            raise ValidationError.from_exception_data(
                cls.__name__, [_duplicate_error(ids, n) for n in duplicates]
            )
        return value

    def limits_path(self, agent_id_: AgentId, scope: str, name: str) -> str:
        """Returns the key path of the `limits` section that sets a limit of an agent."""
        for index, agent in enumerate(self.list):
            agent_limits = getattr(agent.limits, scope, None)
            if (
                agent.id == agent_id_
                and agent_limits is not None
                and name in agent_limits.model_fields_set
            ):
                return f"agents.list[{index}].limits"
        return "agents.defaults.limits"

    def tools_of(self, agent_id_: AgentId | str) -> tuple[str, AgentTools | None]:
        """Returns the key path of an agent's `tools` section, and the section or None."""
        for index, agent in enumerate(self.list):
            if agent.id == agent_id_:
                return f"agents.list[{index}].tools", agent.tools
        return "", None

    def subagents(self, agent_id_: AgentId) -> AgentSubagents:
        """Returns the rules on sub-agents of an agent; the defaults for one without a section."""
        agent = self.by_id.get(agent_id_)
        return agent.subagents if agent is not None else AgentSubagents()

    @cached_property
    def ids(self) -> tuple[AgentId, ...]:
        """Returns the ids, in the order of the file."""
        return tuple(agent.id for agent in self.list) or (MAIN_AGENT,)

    @cached_property
    def default_id(self) -> AgentId:
        """Returns the agent that answers messages that no binding matches."""
        for agent in self.list:
            if agent.default:
                return agent.id
        return self.ids[0]

    @cached_property
    def by_id(self) -> dict[AgentId, AgentConfig]:
        """Returns the agents of `agents.list` by id; empty without a list (`main` is not in it)."""
        return {agent.id: agent for agent in self.list}
