"""Finds a node for a tool, and runs a command on it."""

import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from skerry.model.errors import ToolError
from skerry.policy.access import ADMIN, READ, WRITE
from skerry.ports.tool import ApprovalSubject, ToolContext

Call = Callable[[str, Mapping[str, Any], tuple[str, ...]], Awaitable[Any]]
"""Calls a gateway method; see `sdk.tool_host.ToolHost.call`."""
MAX_NODES: Final = 100
MAX_COMMANDS: Final = 200
"""Limit of the listed commands of one node."""
MAX_PARAMS: Final = 65_536
"""Limit of the parameters of a command, in bytes of JSON."""
TIMEOUT_MS: Final = 30_000
LONGEST_MS: Final = 120_000
_NAME_LENGTH: Final = 40
_NOT_PLAIN: Final = re.compile(r"[^\w .'()-]", re.ASCII)
_COMMAND: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_SYSTEM: Final = "system."
_UNKNOWN: Final = ("timed out", "node not connected", "changed while invocation was active")
"""Error texts after which the command may have run."""


class NodeRow(Struct, frozen=True):
    """A paired node. Its name and platform are texts of the device, reduced to plain characters."""

    id: str
    name: str
    platform: str
    is_connected: bool
    commands: tuple[str, ...]

    def listed(self) -> dict[str, Any]:
        """Returns the node for a model."""
        return {
            "node": self.id,
            "name": self.name,
            "platform": self.platform,
            "connected": self.is_connected,
            "commands": self.commands[:MAX_COMMANDS],
        }


async def all_nodes(call: Call) -> list[NodeRow]:
    """Returns the paired nodes."""
    rows = (await call("node.list", {}, (READ,)))["nodes"]
    return [_row(row) for row in rows]


def _row(row: Mapping[str, Any]) -> NodeRow:
    return NodeRow(
        row["nodeId"],
        _plain(row.get("displayName")) or row["nodeId"][:12],
        _plain(row.get("platform")),
        bool(row["connected"]),
        tuple(command for command in row["commands"] if _COMMAND.fullmatch(command)),
    )


def _plain(text: object) -> str:
    return _NOT_PLAIN.sub("", text)[:_NAME_LENGTH] if isinstance(text, str) else ""


async def find(call: Call, wanted: str | None, command: str) -> NodeRow:
    """Returns the connected node that has the command.

    A node chooses its name itself, so that a name which two paired nodes have names neither.

    Args:
        call: Calls a gateway method.
        wanted: Id or name of the node; None means the only connected node with the command.
        command: The command.

    Raises:
        ToolError: no such node is connected, it does not have the command, or several match.
    """
    rows = await all_nodes(call)
    if wanted is None:
        return _only(rows, command)
    named = [row for row in rows if row.id == wanted] or [row for row in rows if row.name == wanted]
    if len(named) > 1:
        ids = ", ".join(row.id for row in named)
        raise ToolError(f"{len(named)} nodes are named {wanted!r}. Pass an id: {ids}.")
    if not named or not named[0].is_connected:
        names = ", ".join(row.name for row in rows if row.is_connected) or "none"
        raise ToolError(f"The node {wanted[:80]!r} is not connected. Connected nodes: {names}.")
    if command not in named[0].commands:
        has = ", ".join(named[0].commands[:MAX_COMMANDS]) or "none"
        raise ToolError(f"The node {named[0].name} has no command {command!r}. It has: {has}.")
    return named[0]


def _only(rows: list[NodeRow], command: str) -> NodeRow:
    matching = [row for row in rows if row.is_connected and command in row.commands]
    if not matching:
        raise ToolError(f"No connected node has the command {command!r}. Use action list.")
    if len(matching) > 1:
        names = ", ".join(f"{row.name} ({row.id})" for row in matching[:MAX_NODES])
        raise ToolError(f"Several nodes have the command {command}: {names}. Pass node.")
    return matching[0]


class NodeCommand(Struct, frozen=True):
    """One command for a node."""

    node: NodeRow
    command: str
    params: Mapping[str, Any]
    timeout_ms: int = TIMEOUT_MS
    address: str = ""
    """Address that the node gets as `url` instead of that of `params`; no person sees it."""

    def subject(self) -> ApprovalSubject:
        """Returns the description for the person who approves the command, bound to the device.

        Raises:
            ToolError: the parameters are too long.
        """
        text = msgspec.json.encode(self.params, order="sorted").decode()
        if len(text) > MAX_PARAMS:
            raise ToolError(f"The parameters have more than {MAX_PARAMS} bytes. Pass less.")
        content = f"{self.node.id}\0{self.command}\0{text}".encode()
        shown = f"{self.node.name} ({self.node.id[:12]}): {self.command} {text}"
        return ApprovalSubject(shown, host="node", binding=hashlib.sha256(content).digest())


async def run_on(call: Call, request: NodeCommand, context: ToolContext) -> Any:
    """Returns the payload of the node, which is not validated.

    Raises:
        ToolError: the node failed or did not answer; or it is another one than a person approved.
    """
    assessed = context.assessment.subject if context.assessment else None
    if assessed is not None and assessed.binding != request.subject().binding:
        raise ToolError("The node of this name changed meanwhile. Call the tool again.")
    scope = ADMIN if request.command.startswith(_SYSTEM) else WRITE
    params = {
        "nodeId": request.node.id,
        "command": request.command,
        "params": {**request.params, "url": request.address} if request.address else request.params,
        "timeoutMs": request.timeout_ms,
        "idempotencyKey": f"nodes-{secrets.token_hex(12)}",
    }
    try:
        answer = await call("node.invoke", params, (scope,))
    except ToolError as error:
        doubt = ""
        if any(words in str(error) for words in _UNKNOWN):
            doubt = " The node may have run the command: look before you repeat it."
        name = request.node.name
        raise ToolError(f"{request.command} failed on {name}: {error}.{doubt}") from error
    return answer.get("payload")
