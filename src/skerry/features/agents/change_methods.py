"""Methods that create, change and delete agents."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import anyio.to_thread
from pydantic import Field

from skerry.config.agents import SHORT_FORMS
from skerry.config.expand import Expanded
from skerry.config.remote_write_policy import AGENTS
from skerry.config.root import Config
from skerry.config.source import Source
from skerry.gateway.config_writes import written
from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.gateway.methods import overrides
from skerry.infra.atomic import make_private
from skerry.model.ids import MAIN_AGENT, AgentId, SessionKey, agent_id

TRASH: Final = "trash"
_EDIT_THE_FILE: Final = (
    "Set `agents.list[].workspace` in skerry.json, on the machine of the gateway."
)

Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Tree = dict[str, Any]


class AgentsCreateParams(Params):
    """Parameters of `agents.create`; the id is made from the name."""

    name: Text
    workspace: Name | None = None
    model: Name | None = None
    emoji: Text | None = None
    avatar: Text | None = None


class AgentsUpdateParams(Params):
    """Parameters of `agents.update`; absent properties are kept, model null selects the default."""

    refused: ClassVar = {"agentRuntime": "all agents use the gateway's runtime."}

    agent_id: Name
    name: Text | None = None
    workspace: Name | None = None
    model: Name | None = None
    emoji: Text | None = None
    avatar: Text | None = None


class AgentsDeleteParams(Params):
    """Parameters of `agents.delete`."""

    agent_id: Name
    delete_files: bool = True


async def agents_create(call: Call, params: AgentsCreateParams) -> Json:
    """Adds an agent with its own workspace and the initial files."""
    agent = agent_id(params.name)
    if agent == MAIN_AGENT:
        raise RefusedError(f'"{agent}" is reserved', "Choose another name.")
    config = call.context.config()
    if agent in config.agents.ids:
        raise RefusedError(f'agent "{agent}" already exists', "Choose another name, or update it.")
    entry: Tree = {"id": agent, "name": params.name}
    workspace = _own_workspace(config, agent)
    _check_workspace(params.workspace, workspace)
    if params.model is not None:
        entry["model"] = {SHORT_FORMS["agents.defaults.model"]: await _model(call, params.model)}
    if identity := _identity(params.emoji, params.avatar):
        entry["identity"] = identity
    default = config.agents.default_id

    def edit(before: Source, expanded: Expanded) -> Tree:
        # The list must be complete, so the implicit default agent is added too.
        return _with(before, expanded, lambda rows: [*(rows or [{"id": default}]), entry])

    await written(call, edit, "agents.create", also=AGENTS)
    answer: Tree = {"ok": True, "agentId": agent, "name": params.name, "workspace": str(workspace)}
    return answer | ({"model": entry["model"]["primary"]} if "model" in entry else {})


async def agents_update(call: Call, params: AgentsUpdateParams) -> Json:
    """Changes an agent's name, model or identity."""
    agent = call.agent(params.agent_id)
    config = call.context.config()
    _check_workspace(params.workspace, config.workspace(agent))
    sent = params.model_fields_set
    model = await _model(call, params.model) if params.model is not None else None

    def change(row: Tree) -> Tree:
        row = dict(row)
        if params.name is not None:
            row["name"] = params.name
        if model is not None:
            row["model"] = {**_long(row.get("model")), "primary": model}
        elif "model" in sent:
            row.pop("model", None)
        if identity := _identity(params.emoji, params.avatar):
            row["identity"] = {**row.get("identity", {}), **identity}
        return row

    def edit(before: Source, expanded: Expanded) -> Tree:
        return _with(
            before,
            expanded,
            lambda rows: [
                change(row) if row.get("id") == agent else row
                for row in rows or [{"id": config.agents.default_id}]
            ],
        )

    await written(call, edit, "agents.update", also=AGENTS)
    return {"ok": True, "agentId": agent}


async def agents_delete(call: Call, params: AgentsDeleteParams) -> Json:
    """Removes an agent and its bindings; its workspace is moved to `<state>/trash`.

    Its conversations remain in the database; a later agent with the same id gets them.
    """
    agent = call.agent(params.agent_id)
    context = call.context
    config = context.config()
    if agent == config.agents.default_id:
        remedy = "Make another agent the default one first, in skerry.json."
        raise RefusedError(f'"{agent}" is the default agent and cannot be deleted', remedy)
    if any(key.agent == agent for key in _busy(call)):
        raise RefusedError(
            f'agent "{agent}" has active runs', code=ErrorCode.UNAVAILABLE, retryable=True
        )
    workspace, shared = config.workspace(agent), _shared(config, agent)
    removed = sum(binding.agent_id == agent for binding in config.bindings)

    def edit(before: Source, expanded: Expanded) -> Tree:
        tree = _with(before, expanded, lambda rows: [row for row in rows if row.get("id") != agent])
        if isinstance(tree.get("bindings"), list):
            tree["bindings"] = [
                binding for binding in tree["bindings"] if binding.get("agentId") != agent
            ]
        return tree

    await written(call, edit, "agents.delete", also=AGENTS)
    answer: Tree = {"ok": True, "agentId": agent, "removedBindings": removed}
    if not params.delete_files:
        return answer
    if shared or workspace != _own_workspace(config, agent):
        call.warn("deleteFiles", f"{workspace} was kept: the gateway did not create it.")
        return answer
    now = context.clock.now_ms()
    try:
        is_there = await anyio.to_thread.run_sync(_discard, workspace, config.state_dir, now)
    except OSError as error:
        return answer | {
            "failed": [{"path": str(workspace), "reason": error.strerror or str(error)}]
        }
    return answer | {
        "removed": [{"path": str(workspace), "method": "trash" if is_there else "missing"}]
    }


def _with(before: Source, expanded: Expanded, change: Any) -> Tree:
    """Returns the file's tree with the list of agents that `change` returns."""
    tree: Tree = dict(before.parsed)
    if expanded.includes.owner(("agents",)) is not None:
        raise RefusedError("the agents are defined in an included file", "Edit that file by hand.")
    section: Tree = dict(tree.get("agents") or {})
    section["list"] = change(list(section.get("list") or []))
    return tree | {"agents": section}


def _busy(call: Call) -> set[SessionKey]:
    return {SessionKey.parse(session.key) for session in call.context.dispatcher.queue().sessions}


def _own_workspace(config: Config, agent: AgentId) -> Path:
    """Returns the default workspace of an agent."""
    return config.state_dir / f"workspace-{agent}"


def _check_workspace(requested: str | None, workspace: Path) -> None:
    """Refuses other directories than the default, because the agent reads their files."""
    if requested is not None and Path(requested).expanduser() != workspace:
        raise RefusedError(
            f"the workspace {requested} cannot be set over the gateway: it is {workspace}",
            _EDIT_THE_FILE,
        )


def _shared(config: Config, agent: AgentId) -> bool:
    workspace = config.workspace(agent)
    other_agents = (other_agent for other_agent in config.agents.ids if other_agent != agent)
    return any(
        config.workspace(other_agent).is_relative_to(workspace) for other_agent in other_agents
    )


def _discard(workspace: Path, state: Path, now: int) -> bool:
    """Moves a workspace to the trash; returns whether it existed."""
    if not workspace.is_dir() or workspace.is_symlink():
        return False
    make_private(state / TRASH)
    workspace.rename(state / TRASH / f"{workspace.name}-{now}")
    return True


async def _model(call: Call, ref: str) -> str:
    return await overrides.known_model(call, ref)


def _long(model: object) -> Tree:
    if isinstance(model, str):
        return {"primary": model}
    return dict(model) if isinstance(model, dict) else {}


def _identity(emoji: str | None, avatar: str | None) -> Tree:
    identity = {"emoji": emoji, "avatar": avatar}
    return {key: text for key, text in identity.items() if text is not None}


METHODS: Final = (
    Method("agents.create", AgentsCreateParams, agents_create),
    Method("agents.update", AgentsUpdateParams, agents_update),
    Method("agents.delete", AgentsDeleteParams, agents_delete),
)
