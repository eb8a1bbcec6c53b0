"""Methods about agents: list them, and return the identity of one."""

from collections.abc import Mapping
from typing import Final

import anyio.to_thread

from skerry.config.root import Config
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params
from skerry.gateway.methods import rows
from skerry.model.errors import ModelUnavailableError
from skerry.model.ids import AgentId
from skerry.model.thinking import ThinkingLevel
from skerry.policy.file_records import FileRecords
from skerry.workspace.identity import identity, picture

_ON_THE_WIRE: Final = ("name", "theme", "emoji", "avatar")
"""Fields of an identity sent to clients; the others are for the model."""


class AgentIdentityParams(Params):
    """Parameters of `agent.identity.get`."""

    agent_id: Name | None = None
    session_key: Name | None = None


async def agents_list(call: Call, _params: NoParams) -> Json:
    """Returns the configured agents."""
    config = call.context.config()
    agents = await anyio.to_thread.run_sync(_rows, config, call.context.records)
    if call.protocol > 3:  # noqa: PLR2004 - the version of the protocol
        for row in agents:
            level = config.thinking(row["id"])
            row |= {"agentRuntime": rows.runtime(), **await _thinking(call, row, level)}
    return {
        "defaultId": config.agents.default_id,
        "mainKey": "main",
        "scope": "per-sender",
        "agents": agents,
    }


async def _thinking(
    call: Call, row: dict[str, Json], level: ThinkingLevel | None
) -> dict[str, Json]:
    """Returns how much an agent's model thinks; nothing where there is none."""
    try:
        _, model = await call.context.models.choose(row.get("model", {}).get("primary"))
    except ModelUnavailableError:
        return {}
    return rows.thinking(model, level)


def _rows(config: Config, records: FileRecords) -> list[dict[str, Json]]:
    agents: list[dict[str, Json]] = []
    for agent in config.agents.ids:
        row: dict[str, Json] = {"id": agent, "workspace": str(config.workspace(agent))}
        settings = config.agents.by_id.get(agent)
        if settings is not None and settings.name:
            row["name"] = settings.name
        if fields := _wire_fields(identity(config, agent, records)):
            row["identity"] = fields
        primary = config.primary_model(agent)
        if primary:
            row["model"] = {"primary": primary}
        agents.append(row)
    return agents


async def agent_identity(call: Call, params: AgentIdentityParams) -> Json:
    """Returns an agent's name and avatar, as shown to people."""
    config = call.context.config()
    agent = call.agent(call.session_key(params.session_key, params.agent_id).agent)
    return await anyio.to_thread.run_sync(_identity, config, agent, call.context.records)


def _identity(config: Config, agent: AgentId, records: FileRecords) -> Json:
    fields = identity(config, agent, records)
    name = fields.get("name") or "Assistant"
    avatar = fields.get("avatar", "")
    local = picture(config.workspace(agent), avatar)
    if local is None and ("/" in avatar and "://" not in avatar):
        avatar = ""  # a path without a picture is not shown
    return {
        "agentId": agent,
        "name": name,
        "nameSource": _source(config, agent, fields),
        "avatar": local or avatar or fields.get("emoji") or name[0].upper(),
        **{key: fields[key] for key in ("emoji", "theme") if key in fields},
    }


def _source(config: Config, agent: AgentId, fields: Mapping[str, str]) -> str:
    settings = config.agents.by_id.get(agent)
    if settings is not None and (
        settings.name or (settings.identity is not None and settings.identity.name)
    ):
        return "config"
    return "workspace" if "name" in fields else "default"


def _wire_fields(fields: Mapping[str, str]) -> dict[str, Json]:
    return {key: fields[key] for key in _ON_THE_WIRE if key in fields}


METHODS: Final = (
    Method("agents.list", NoParams, agents_list),
    Method("agent.identity.get", AgentIdentityParams, agent_identity),
)
