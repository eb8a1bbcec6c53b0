"""Starts a sub-agent: permission, then one unit with its run, its session and its registry row."""

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

MOST_SECONDS: Final = 7 * 86_400
_MODELS: Final = ("operator.read",)


class SpawnParams(BaseModel):
    """Parameters of `sessions_spawn`; the names are OpenClaw's."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    task: str = Field(min_length=1, max_length=50_000)
    label: str = Field(default="", max_length=64)
    agentId: str | None = Field(default=None, max_length=64)  # noqa: N815
    model: str | None = Field(default=None, max_length=256)
    thinking: str | None = Field(default=None, max_length=16)
    runTimeoutSeconds: float | None = Field(default=None, ge=0, le=MOST_SECONDS)  # noqa: N815
    cleanup: Literal["keep", "delete"] = "keep"

    @field_validator("thinking")
    @classmethod
    def _is_level(cls, value: str | None) -> str | None:
        return None if value is None else thinking_level(value).value


class RefusedSpawn(Exception):  # noqa: N818 - an expected answer, not a failure
    """A sub-agent is not started. `status` is `forbidden` or `error`."""

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
    """Returns how many sub-agents lead to the session; 0 for one that a person speaks in."""
    return key.scope.count(SessionKind.SUBAGENT)


def permitted(config: Config, parent: SessionKey, wanted: str | None) -> AgentId:
    """Returns the agent that a conversation may start.

    Raises:
        RefusedSpawn: it may not, or there is no such agent.
    """
    rules, own = config.agents.defaults.subagents, parent.agent
    if depth(parent) >= rules.max_spawn_depth:
        forbid(
            "A sub-agent may not start sub-agents here"
            f" (agents.defaults.subagents.maxSpawnDepth is {rules.max_spawn_depth})."
        )
    target = agent_id(wanted) if wanted else own
    if target != own and not config.agents.subagents(own).allows(target):
        allowed = ", ".join(config.agents.subagents(own).allow_agents) or "none"
        forbid(
            f"Agent {own} may not start agent {target}. Others that it may start: {allowed}"
            " (agents.list[].subagents.allowAgents). Leave agentId out to start one of its own."
        )
    if target not in config.agents.ids:
        configured = ", ".join(config.agents.ids)
        raise RefusedSpawn("error", f"Unknown agent {target!r}. Agents: {configured}.")
    return target


def keep_sandboxed(config: Config, parent: SessionKey, child: SessionKey) -> None:
    """Checks that a sub-agent is not outside the sandbox that its parent is in.

    Raises:
        RefusedSpawn: it would be.
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
        RefusedSpawn: it is not permitted, or a parameter has no meaning here.
        SkerryError: it could not be accepted.
    """
    parent, runs, config = context.request, host.internal_runs, host.config()
    if parent is None or runs is None:
        raise RefusedSpawn("error", "No running conversation makes this call.")
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
    asked: RunRequest,
    cleanup: str,
) -> Subagent:
    """Accepts the run; in the same unit its session is set up and the registry gets its row."""
    now, most = host.clock.now_ms(), host.config().agents.defaults.subagents.max_children_per_agent
    row = Subagent(
        request.run_id,
        str(request.key),
        "",
        str(asked.key),
        replace(asked, text="", images=(), inline=None, extra_system_prompt="", opening=None),
        request.label,
        cleanup,
        SubagentState.RUNNING,
        SubagentOutcome.NONE,
        now,
        0,
        0,
    )
    written: list[Subagent] = []

    def beside(unit: Unit) -> None:
        if tables.running(unit, str(asked.key)) >= most:
            forbid(
                f"{most} sub-agents of this conversation are at work already"
                " (agents.defaults.subagents.maxChildrenPerAgent). Wait for a report."
            )
        session = sessions.find(unit, str(request.key))
        if session is None:
            raise RuntimeError(f"{request.key} has no session")
        archive.change(unit, session.session_id, label=session.label, settings=settings)
        subagent = replace(row, session_id=session.session_id)
        tables.add(unit, subagent)
        written[:] = [subagent]

    await dispatcher.submit(request, beside)
    return written[0]


async def _settings(
    host: ToolHost, params: SpawnParams, asked: RunRequest, target: AgentId
) -> SessionSettings:
    """Returns the settings of the sub-agent's session: its model and its reasoning effort.

    The call decides, then the section of the agent that is started, then the defaults, then the
    model that the other agent has for itself, then the conversation that starts it.
    """
    config, key = host.config(), str(asked.key)
    session = await host.store.read(lambda reader: sessions.find(reader, key))
    own = asked.settled(session.settings if session else SessionSettings())
    rules, defaults = config.agents.subagents(target), config.agents.defaults.subagents
    agent = config.agents.by_id.get(target)
    other = agent.model.primary if agent and agent.model and target != asked.key.agent else None
    if params.model:
        model: str | None = await _known(host, params.model)
    else:
        model = rules.model or defaults.model or other
        model = model or own.model or config.primary_model(asked.key.agent)
    if params.thinking:
        level: ThinkingLevel | None = ThinkingLevel(params.thinking)
    else:
        level = rules.thinking or defaults.thinking or asked.thinking or own.thinking_level
        level = level or config.thinking(asked.key.agent)
    return SessionSettings(model=model, thinking_level=level, spawned_by=key)


async def _known(host: ToolHost, name: str) -> str:
    """Returns the full name of a model.

    Raises:
        RefusedSpawn: none has it.
    """
    models = (await host.call("models.list", {}, _MODELS)).get("models", [])
    refs = {f"{model['provider']}/{model['id']}" for model in models}
    wanted = name.lower()
    for ref in sorted(refs):
        if wanted in {ref.lower(), ref.partition("/")[2].lower()}:
            return ref
    raise RefusedSpawn("error", f"Unknown model {name!r}. Models: {', '.join(sorted(refs))}.")


def prompt(config: Config, parent: SessionKey, child: SessionKey, label: str) -> str:
    """Returns the section of the system prompt that says what a sub-agent is and does."""
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
