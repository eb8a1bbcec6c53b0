"""Methods for sub-agents: list, inspect, address and stop them."""

from typing import Annotated, Final

from pydantic import Field

from skerry.features.subagents.control import Control, Row, children
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Params, RefusedError

Target = Annotated[str, Field(min_length=1, max_length=512)]
Key = Annotated[str, Field(max_length=512)]


class ListParams(Params):
    """Parameters of `subagents.list`."""

    session_key: Key | None = None
    """Conversation that started them; unset for all conversations."""
    days: Annotated[float, Field(gt=0, le=30)] = 1.0
    """Days to look back; running sub-agents are always listed."""


class TargetParams(Params):
    """Parameters of a method for one sub-agent."""

    target: Target
    """Its run id, the key of its session, its label, or the beginning of its id."""


class LogParams(TargetParams):
    """Parameters of `subagents.log`."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 50


class SendParams(TargetParams):
    """Parameters of `subagents.send`."""

    message: Annotated[str, Field(min_length=1, max_length=100_000)]


class KillParams(Params):
    """Parameters of `subagents.kill`: one sub-agent, or all of a conversation."""

    target: Target | None = None
    session_key: Key | None = None
    """Conversation whose sub-agents are stopped; only without `target`."""


async def subagents_list(call: Call, params: ListParams) -> Json:
    """Returns sub-agents, the latest first."""
    control = _control(call)
    key = call.session_key(params.session_key, None) if params.session_key else None
    rows = await control.rows(str(key) if key else None, params.days)
    return {"subagents": [control.as_json(row) for row in rows]}


async def subagents_info(call: Call, params: TargetParams) -> Json:
    """Returns one sub-agent."""
    control = _control(call)
    return {"subagent": control.as_json(await control.find(params.target))}


async def subagents_log(call: Call, params: LogParams) -> Json:
    """Returns the last messages of a sub-agent's session."""
    control = _control(call)
    row = await control.find(params.target)
    messages: list[Json] = [*await control.log(row.subagent, params.limit)]
    return {"subagent": control.as_json(row), "messages": messages}


async def subagents_send(call: Call, params: SendParams) -> Json:
    """Sends a message to a sub-agent; waits up to 30 s for the answer."""
    control = _control(call)
    result = await control.send(await control.find(params.target), params.message)
    if result is None:
        return {"status": "timeout"}
    if result.error is not None:
        return {"status": "error", "runId": result.run_id, "error": result.error.message}
    return {"status": "ok", "runId": result.run_id, "reply": "\n\n".join(result.payloads)}


async def subagents_kill(call: Call, params: KillParams) -> Json:
    """Stops a sub-agent, or all of a conversation; their reports are not announced."""
    control = _control(call)
    if (params.target is None) == (params.session_key is None):
        raise RefusedError("pass either target or sessionKey")
    rows: list[Row]
    if params.target is not None:
        rows = [await control.find(params.target)]
    else:
        rows = children(await control.rows(), call.session_key(params.session_key or "", None))
    stopped: list[Json] = [row.subagent.run_id for row in rows if control.kill(row.subagent)]
    return {"ok": True, "stopped": stopped}


def _control(call: Call) -> Control:
    runs = call.context.internal_runs
    if runs is None:
        raise RefusedError("this gateway runs no agents")
    return Control(runs.dispatch)


METHODS: Final = (
    Method("subagents.list", ListParams, subagents_list),
    Method("subagents.info", TargetParams, subagents_info),
    Method("subagents.log", LogParams, subagents_log),
    Method("subagents.send", SendParams, subagents_send),
    Method("subagents.kill", KillParams, subagents_kill),
)
