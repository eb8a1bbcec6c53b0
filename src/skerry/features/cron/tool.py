"""The tool `cron`: the owner's agent lists, adds, runs and removes jobs."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import ADMIN, READ, Verb
from skerry.policy.decide import Actor
from skerry.ports.tool import Tool, ToolContext
from skerry.sdk.arguments import named
from skerry.sdk.tool_host import ToolHost

_METHODS: Final = {
    "status": ("cron.status", READ),
    "list": ("cron.list", READ),
    "runs": ("cron.runs", READ),
    "add": ("cron.add", ADMIN),
    "update": ("cron.update", ADMIN),
    "remove": ("cron.remove", ADMIN),
    "run": ("cron.run", ADMIN),
}


class CronToolParams(BaseModel):
    """Parameters of `cron`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["status", "list", "runs", "add", "update", "remove", "run"]
    job: dict[str, Any] | None = Field(
        default=None,
        max_length=32,
        description=(
            'For add: {"name", "schedule": {"kind":"at","at":ISO} | {"kind":"every","everyMs"} |'
            ' {"kind":"cron","expr","tz"}, "payload": {"kind":"agentTurn","message"} |'
            ' {"kind":"systemEvent","text"}}'
        ),
    )
    jobId: str | None = Field(default=None, max_length=64)  # noqa: N815 - OpenClaw's name
    patch: dict[str, Any] | None = Field(default=None, max_length=32)


class CronTool:
    """Calls the methods of cron for the owner; only offered when the configuration names it."""

    verb: ClassVar[Verb] = Verb.USE
    spec: ClassVar[ToolSpec] = ToolSpec(
        "cron", "Schedule jobs and reminders.", CronToolParams.model_json_schema()
    )

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    def is_offered(self, caller: Caller) -> bool:
        """Returns true when the configuration enables the tool for the agent."""
        return self._host.is_chosen(caller.key.agent, self.spec.name)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the payload of the method as JSON."""
        aliases = {"job_id": "jobId", "id": "jobId"}
        params = CronToolParams.model_validate(named(arguments, aliases, ("action",)))
        caller = context.caller
        if caller is None or not Actor.of(caller).acts_for_owner:
            raise ToolError("Only the owner's conversations may schedule jobs.")
        method, scope = _METHODS[params.action]
        sent = _sent(params)
        if params.action == "add":
            sent.setdefault("agentId", caller.key.agent)
        payload = await self._host.call(method, sent, (scope,))
        origin = Origin.MEMORY if params.action == "runs" else Origin.LOCAL
        return ToolResult(msgspec.json.encode(payload).decode(), origin=origin)


def _sent(params: CronToolParams) -> dict[str, Any]:
    """Returns the parameters of the method.

    Raises:
        ToolError: a parameter is missing.
    """
    if params.action == "add":
        if params.job is None:
            raise ToolError("job required: name, schedule and payload.")
        return dict(params.job)
    if params.action in {"list", "runs", "status"}:
        job_filter = {"id": params.jobId} if params.jobId and params.action == "runs" else {}
        return {"includeDisabled": True} if params.action == "list" else job_filter
    if params.jobId is None:
        raise ToolError("jobId required; action list has the ids.")
    if params.action != "update":
        return {"id": params.jobId}
    if params.patch is None:
        raise ToolError("patch required: the properties to change.")
    return {"id": params.jobId, "patch": dict(params.patch)}


def make(host: ToolHost) -> Sequence[Tool]:
    """Returns the tool."""
    return (CronTool(host),)
