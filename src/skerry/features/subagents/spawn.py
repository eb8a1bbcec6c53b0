"""Starts a sub-agent: checks permission, then writes its run, session and row in one unit."""

import uuid
from typing import Any, Final, Literal, NoReturn

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, field_validator

from skerry.config.root import Config
from skerry.features.subagents import tables
from skerry.features.subagents.tables import Subagent, SubagentOutcome, SubagentState
from skerry.model.ids import AgentId, RunId, SessionKey, SessionKind, agent_id
from skerry.model.run import ParentRun, Purpose, RunRequest
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel, thinking_level
from skerry.ports.tool import ToolContext
from skerry.runtime.conversation import worst
from skerry.runtime.dispatcher import Dispatch
from skerry.runtime.run_context import caller_of
from skerry.sdk.tool_host import ToolHost
from skerry.store import Unit, archive, sessions

MAX_SECONDS: Final = 7 * 86_400
_MODELS: Final = ("operator.read",)


class SpawnParams(BaseModel):
    """Parameters of `sessions_spawn`; the names are OpenClaw's."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    task: str = Field(min_length=1, max_length=50_000)
    label: str = Field(default="", max_length=64)
    agentId: str | None = Field(default=None, max_length=64)  # noqa: N815
    model: str | None = Field(default=None, max_length=256)
    thinking: str | None = Field(default=None, max_length=16)
    runTimeoutSeconds: float | None = Field(default=None, ge=0, le=MAX_SECONDS)  # noqa: N815
    cleanup: Literal["keep", "delete"] = "keep"

    @field_validator("thinking")
    @classmethod
    def _is_level(cls, value: str | None) -> str | None:
        return None if value is None else thinking_level(value).value


class RefusedSpawn(Exception):  # noqa: N818 - an expected result, not a failure
    """The sub-agent is not started. `status` is `forbidden` or `error`."""

    def __init__(self, status: str, error: str) -> None:
        super().__init__(error)
        self.status = status


class Started(BaseModel):
    """A sub-agent that was accepted."""

    subagent: Any
    model: str | None


def forbid(error: str) -> NoReturn:
    """Refuses a spawn that is not permitted.

    Raises:
        RefusedSpawn: always.
    """
    raise RefusedSpawn("forbidden", error)


def depth(key: SessionKey) -> int:
    """Returns the depth of a session: 0 for a conversation of a person."""
    return key.scope.count(SessionKind.SUBAGENT)


def permitted(config: Config, parent: SessionKey, agent_name: str | None) -> AgentId:
    """Returns the agent that a conversation may start.

    Raises:
        RefusedSpawn: the conversation may not start it, or the agent is unknown.
    """
    rules, parent_agent = config.agents.defaults.subagents, parent.agent
    if depth(parent) >= rules.max_spawn_depth:
        forbid(
            "A sub-agent may not start sub-agents here"
            f" (agents.defaults.subagents.maxSpawnDepth is {rules.max_spawn_depth})."
        )
    target = agent_id(agent_name) if agent_name else parent_agent
    if target != parent_agent and not config.agents.subagents(parent_agent).allows(target):
        allowed = ", ".join(config.agents.subagents(parent_agent).allow_agents) or "none"
        forbid(
            f"Agent {parent_agent} may not start agent {target}. It may start also: {allowed}"
            " (agents.list[].subagents.allowAgents). Omit agentId to start the same agent."
        )
    if target not in config.agents.ids:
        configured = ", ".join(config.agents.ids)
        raise RefusedSpawn("error", f"Unknown agent {target!r}. Agents: {configured}.")
    return target


def keep_sandboxed(config: Config, parent: SessionKey, child: SessionKey) -> None:
    """Checks that a sub-agent of a sandboxed parent is also sandboxed.

    Raises:
        RefusedSpawn: the sub-agent would run outside the sandbox.
    """
    if config.sandbox(parent.agent).covers(parent) and not config.sandbox(child.agent).covers(
        child
    ):
        forbid(
            f"Commands of this conversation run in a sandbox, those of agent {child.agent} do not"
            " (agents.list[].sandbox.mode)."
        )


async def spawn(host: ToolHost, params: SpawnParams, context: ToolContext) -> Started:
    """Starts a sub-agent for the run that makes the call; it is accepted when this returns.

    Raises:
        RefusedSpawn: the spawn is not permitted, or a parameter is not usable here.
        SkerryError: the run could not be accepted.
    """
    parent, runs, config = context.request, host.internal_runs, host.config()
    if parent is None or runs is None:
        raise RefusedSpawn("error", "The call has no running conversation.")
    target = permitted(config, parent.key, params.agentId)
    nested = parent.key.scope if depth(parent.key) else ()
    child = SessionKey(target, (*nested, SessionKind.SUBAGENT.value, str(uuid.uuid4())))
    keep_sandboxed(config, parent.key, child)
    settings = await _settings(host, params, parent, target)
    request = RunRequest(
        RunId(f"subagent-{child.scope[-1]}"),
        child,
        params.task,
        timeout=params.runTimeoutSeconds,
        extra_system_prompt=prompt(config, parent.key, child, params.label),
        thinking=settings.thinking_level,
        model=settings.model,
        origin=parent.origin,
        purpose=Purpose.SUBAGENT,
        rights=parent.rights,
        scopes=parent.scopes,
        label=params.label,
        behalf=caller_of(parent).askers,
        text_origin=worst(context.taint) if context.taint else None,
        parent=ParentRun(parent.key, parent.run_id),
    )
    subagent = await _accept(host, runs.dispatch, request, settings, parent, params.cleanup)
    return Started(subagent=subagent, model=settings.model)


async def _accept(
    host: ToolHost,
    dispatcher: Dispatch,
    request: RunRequest,
    settings: SessionSettings,
    parent_request: RunRequest,
    cleanup: str,
) -> Subagent:
    """Accepts the run; the same unit creates its session and its row in the registry."""
    now, limit = host.clock.now_ms(), host.config().agents.defaults.subagents.max_children_per_agent
    row = Subagent(
        request.run_id,
        str(request.key),
        "",
        str(parent_request.key),
        replace(
            parent_request, text="", images=(), inline=None, extra_system_prompt="", opening=None
        ),
        request.label,
        cleanup,
        SubagentState.RUNNING,
        SubagentOutcome.NONE,
        now,
        0,
        0,
    )
    stored: list[Subagent] = []

    def extra_write(unit: Unit) -> None:
        if tables.running(unit, str(parent_request.key)) >= limit:
            forbid(
                f"{limit} sub-agents of this conversation are running already"
                " (agents.defaults.subagents.maxChildrenPerAgent). Wait for a report."
            )
        session = sessions.find(unit, str(request.key))
        if session is None:
            raise RuntimeError(f"{request.key} has no session")
        archive.change(unit, session.session_id, label=session.label, settings=settings)
        subagent = replace(row, session_id=session.session_id)
        tables.add(unit, subagent)
        stored[:] = [subagent]

    await dispatcher.submit(request, extra_write)
    return stored[0]


async def _settings(
    host: ToolHost, params: SpawnParams, parent_request: RunRequest, target: AgentId
) -> SessionSettings:
    """Returns the settings of the sub-agent's session: model and reasoning effort.

    In order of precedence: the call, the started agent's section, the defaults, the started agent's
    own model, the parent conversation.
    """
    config, key = host.config(), str(parent_request.key)
    session = await host.store.read(lambda reader: sessions.find(reader, key))
    parent_settings = parent_request.settled(session.settings if session else SessionSettings())
    rules, defaults = config.agents.subagents(target), config.agents.defaults.subagents
    agent = config.agents.by_id.get(target)
    other_model = (
        agent.model.primary
        if agent and agent.model and target != parent_request.key.agent
        else None
    )
    if params.model:
        model: str | None = await _model_ref(host, params.model)
    else:
        model = rules.model or defaults.model or other_model
        model = model or parent_settings.model or config.primary_model(parent_request.key.agent)
    if params.thinking:
        level: ThinkingLevel | None = ThinkingLevel(params.thinking)
    else:
        level = (
            rules.thinking
            or defaults.thinking
            or parent_request.thinking
            or parent_settings.thinking_level
        )
        level = level or config.thinking(parent_request.key.agent)
    return SessionSettings(model=model, thinking_level=level, spawned_by=key)


async def _model_ref(host: ToolHost, name: str) -> str:
    """Returns the full name of a model.

    Raises:
        RefusedSpawn: no model has the name.
    """
    models = (await host.call("models.list", {}, _MODELS)).get("models", [])
    refs = {f"{model['provider']}/{model['id']}" for model in models}
    lowered = name.lower()
    for ref in sorted(refs):
        if lowered in {ref.lower(), ref.partition("/")[2].lower()}:
            return ref
    raise RefusedSpawn("error", f"Unknown model {name!r}. Models: {', '.join(sorted(refs))}.")


def prompt(config: Config, parent: SessionKey, child: SessionKey, label: str) -> str:
    """Returns the section of the system prompt with the instructions for a sub-agent."""
    may_spawn = depth(child) < config.agents.defaults.subagents.max_spawn_depth
    nested = (
        "You may start sub-agents of your own; their reports reach you as messages."
        if may_spawn
        else "You cannot start sub-agents."
    )
    name = f" ({label})" if label else ""
    return (
        f"## Sub-agent\nYou are a sub-agent{name}: the agent of session {parent} gave you the task"
        " that follows. Do only this task. Nobody reads along and nobody answers questions; decide"
        " for yourself and state what you assumed. Your last message is your report: first the"
        f" result, then what you could not do. {nested}"
    )
