"""The tool `nodes`: the owner's agent uses the commands of paired devices."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import anyio.to_thread
import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from skerry.features.nodes.calls import (
    LONGEST_MS,
    MAX_NODES,
    TIMEOUT_MS,
    NodeCommand,
    all_nodes,
    find,
    run_on,
)
from skerry.features.nodes.canvas_tool import CanvasTool
from skerry.features.nodes.command_rules import HARMLESS, ruling
from skerry.features.nodes.config import NodesConfig
from skerry.features.nodes.node_result import Recording, converted
from skerry.infra.rooted_fs import EscapeError
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import READ, Verb
from skerry.policy.effect import ToolEffect
from skerry.policy.file_gate import FileGate
from skerry.ports.tool import Assessment, Tool, ToolContext
from skerry.sdk.arguments import named
from skerry.sdk.tool_host import ToolHost

FOLDER: Final = "node-media"
"""Folder of the workspace for recordings."""
_ALIASES: Final = {
    "nodeId": "node",
    "node_id": "node",
    "invokeCommand": "command",
    "invokeParams": "params",
    "timeout_ms": "timeoutMs",
    "invokeTimeoutMs": "timeoutMs",
}
_DESCRIBED: Final = ("deviceFamily", "modelIdentifier", "version", "caps", "permissions")
"""Facts of a node, beside those of the list, which `describe` returns as the device sent them."""
_PAGES: Final = frozenset({"canvas.navigate", "canvas.present"})
_UNFIT: Final = re.compile(r"[^a-z0-9]+")

_Short = Annotated[str, Field(min_length=1, max_length=200)]


class NodesToolParams(BaseModel):
    """Parameters of `nodes`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["status", "list", "describe", "invoke"]
    node: _Short | None = Field(default=None, description="Id or name of the node.")
    command: _Short | None = Field(default=None, description="For invoke, such as camera.snap.")
    params: dict[str, Any] | None = Field(
        default=None, max_length=64, description="Parameters of the command."
    )
    timeoutMs: int = Field(  # noqa: N815 - OpenClaw's name
        default=TIMEOUT_MS, ge=1, le=LONGEST_MS
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.action == "invoke" and self.command is None:
            message = "command required: a command of the node; action list has them"
            raise ValueError(message)
        if self.action == "describe" and self.node is None:
            message = "node required: id or name of the node"
            raise ValueError(message)
        return self


class NodesTool:
    """Lists and uses paired devices for the owner; only offered when the configuration names it."""

    verb: ClassVar[Verb] = Verb.USE
    spec: ClassVar[ToolSpec] = ToolSpec(
        "nodes",
        "Use your owner's paired devices: list them, and invoke commands that they have.",
        NodesToolParams.model_json_schema(),
    )

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    def is_offered(self, caller: Caller) -> bool:
        """Returns true when the configuration enables the tool for the agent."""
        return self._host.is_chosen(caller.key.agent, self.spec.name)

    def reads(self, arguments: dict[str, Any]) -> bool:
        """Returns true for a call that only describes nodes; false if it is not valid."""
        try:
            params = _parsed(arguments)
        except (ToolError, ValidationError):
            return False
        return params.action != "invoke" or params.command in HARMLESS

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Returns whether the command may run, or needs an approval.

        Raises:
            ToolError: the node is not connected, or does not have the command.
        """
        params = _parsed(arguments)
        if not context.actor.acts_for_owner:
            reason = "only the owner's conversations may use nodes"
            return Assessment(ToolEffect.DENY, "nodes-owner", reason)
        if params.command is None or params.action != "invoke":
            return Assessment(ToolEffect.ALLOW, "nodes-read")
        if params.command in _PAGES:
            reason = "the tool canvas shows pages, and checks their addresses"
            return Assessment(ToolEffect.DENY, "nodes-canvas", reason)
        settings = self._host.config().gateway.section(NodesConfig)
        decision = ruling(settings, params.command)
        if decision.effect is ToolEffect.DENY:
            return Assessment(decision.effect, decision.rule, decision.reason)
        subject = (await self._command(params)).subject()
        return Assessment(decision.effect, decision.rule, decision.reason, subject)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the nodes, or the result of the command.

        Raises:
            ToolError: the node is not connected, or failed.
        """
        params = _parsed(arguments)
        if not context.actor.acts_for_owner:
            raise ToolError("Only the owner's conversations may use nodes.")
        match params.action:
            case "status" | "list":
                return await self._list()
            case "describe":
                return await self._describe(params.node or "")
            case "invoke":
                return await self._invoke(params, context)

    async def _list(self) -> ToolResult:
        rows = (await all_nodes(self._host.call))[:MAX_NODES]
        text = msgspec.json.encode({"nodes": [row.listed() for row in rows]}).decode()
        return ToolResult(text, origin=Origin.LOCAL)  # reduced to plain names

    async def _describe(self, wanted: str) -> ToolResult:
        rows = await all_nodes(self._host.call)
        row = next((row for row in rows if wanted in {row.id, row.name}), None)
        if row is None:
            raise ToolError(f"No node {wanted!r} is paired. Use action list.")
        raw = await self._host.call("node.describe", {"nodeId": row.id}, (READ,))
        facts = {key: raw[key] for key in _DESCRIBED if key in raw}
        settings = self._host.config().gateway.section(NodesConfig)
        uses = {command: ruling(settings, command).effect for command in row.commands}
        result = converted({**row.listed(), "commands": uses, **facts})
        return ToolResult(result.text)

    async def _command(self, params: NodesToolParams) -> NodeCommand:
        command = params.command or ""
        node = await find(self._host.call, params.node, command)
        return NodeCommand(node, command, params.params or {}, params.timeoutMs)

    async def _invoke(self, params: NodesToolParams, context: ToolContext) -> ToolResult:
        request = await self._command(params)
        payload = await run_on(self._host.call, request, context)
        result = await anyio.to_thread.run_sync(converted, payload)
        text = result.text
        for recording in result.recordings:
            now = self._host.clock.now_ms()
            path = await anyio.to_thread.run_sync(_stored, recording, request.command, now, context)
            text = f"{text}\nThe recording is in {path}."
        details = {"node": request.node.id, "command": request.command}
        return ToolResult(text, blocks=tuple(result.pictures), details=details)


def _parsed(arguments: dict[str, Any]) -> NodesToolParams:
    return NodesToolParams.model_validate(named(arguments, _ALIASES, ("action",)))


def _stored(recording: Recording, command: str, now: int, context: ToolContext) -> str:
    """Writes the recording into the workspace, recorded as foreign; returns its path.

    Raises:
        ToolError: it cannot be written.
    """
    at = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d-%H%M%S-%f")
    name = _UNFIT.sub("-", command.lower())
    path = f"{FOLDER}/{name}-{at}.{recording.format}"
    workspace = context.workspace
    if isinstance(workspace.rules, FileGate):
        workspace = replace(workspace, rules=workspace.rules.carrying(Origin.TOOL))
    try:
        workspace.replace(path, lambda _: recording.data, max_bytes=0, whole=True)
    except (EscapeError, OSError) as error:
        reason = error.reason if isinstance(error, EscapeError) else error.strerror
        raise ToolError(f"{command} ran, but {path} cannot be written: {reason}.") from error
    return path


def make(host: ToolHost) -> Sequence[Tool]:
    """Returns the tools."""
    return (NodesTool(host), CanvasTool(host))
