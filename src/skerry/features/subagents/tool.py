"""The tool `sessions_spawn`: starts a sub-agent, whose report arrives later as a message."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from skerry.features.subagents.spawn import RefusedSpawn, SpawnParams, spawn
from skerry.features.subagents.watch import Watch
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.ports.tool import Tool, ToolContext
from skerry.sdk.arguments import named
from skerry.sdk.tool_host import ToolHost, is_chosen, names_subagents

_ALIASES: Final = {
    "agent_id": "agentId",
    "run_timeout_seconds": "runTimeoutSeconds",
    "timeoutSeconds": "runTimeoutSeconds",
}
_NOTE: Final = (
    "Its report arrives here as a message when it has ended. Do not wait for it and do not ask."
)
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "task": {"type": "string"},
        "label": {"type": "string"},
        "agentId": {"type": "string"},
        "model": {"type": "string"},
        "thinking": {"type": "string"},
        "runTimeoutSeconds": {"type": "number"},
        "cleanup": {"enum": ["keep", "delete"]},
    },
    "required": ["task"],
}
"""Short, because each first request to a model contains it; `SpawnParams` has the limits."""


def make(host: ToolHost) -> Sequence[Tool]:
    """Returns the tool."""
    return (SessionsSpawn(host),)


class SessionsSpawn:
    """Starts a sub-agent in a separate session and returns at once."""

    verb = Verb.USE
    spec = ToolSpec("sessions_spawn", "Give a task to a sub-agent; it reports later.", _SCHEMA)

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    def is_offered(self, caller: Caller) -> bool:
        """Returns true when the configuration enables the tool, or has settings of sub-agents."""
        config, agent = self._host.config(), caller.key.agent
        return names_subagents(config, agent) or is_chosen(config, agent, self.spec.name)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns `{status, childSessionKey, runId, note}` or `{status, error}` as JSON."""
        params = SpawnParams.model_validate(named(arguments, _ALIASES, ("task",)))
        host = self._host
        if host.internal_runs is None:
            raise ToolError("The tool needs a running gateway.")
        try:
            started = await spawn(host, params, context)
        except RefusedSpawn as refused:
            return _reply({"status": refused.status, "error": str(refused)}, is_error=True)
        run_id = started.subagent.run_id
        watch = Watch(host.internal_runs.dispatch)
        host.start(partial(watch.follow, run_id), f"sub-agent {run_id}")
        answer = {
            "status": "accepted",
            "childSessionKey": started.subagent.session_key,
            "runId": run_id,
            "note": _NOTE,
        }
        if params.model:
            answer["modelApplied"] = started.model
        return _reply(answer)


def _reply(value: dict[str, Any], *, is_error: bool = False) -> ToolResult:
    text = msgspec.json.encode(value).decode()
    return ToolResult(text, is_error, Origin.LOCAL, details=value)
