"""Runs commands on a node: a paired machine that executes `system.run` of `node.invoke`."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from skerry.features.exec.output import Output
from skerry.model.errors import ToolError
from skerry.model.tool import ToolResult
from skerry.policy.access import ADMIN, READ

Call = Callable[[str, Mapping[str, Any], tuple[str, ...]], Awaitable[Any]]
"""Calls a gateway method; see `sdk.tool_host.ToolHost.call`."""
RUN: Final = "system.run"
SHELL: Final = ("/bin/sh", "-c")
MAX_SECONDS: Final = 590.0
"""Maximum duration of one command in seconds; `node.invoke` waits at most ten minutes."""
_GRACE_MS: Final = 5_000
"""Milliseconds for the response after the command's time limit."""
RESULT_CHARS: Final = 30_000
_LATE: Final = "timed out"
_DISCONNECTED: Final = ("node not connected", "changed while invocation was active")
"""Error texts after which the command may have run: the node disconnected during the call."""


class ExecNode(Struct, frozen=True):
    """A connected node that runs commands."""

    id: str
    name: str


class NodeCommand(Struct, frozen=True):
    """One command for a node."""

    text: str
    agent: str
    session: str
    run_id: str
    folder: str | None
    """Working directory on the node; None means the node's default."""
    seconds: float
    is_approved: bool
    """True when a person approved this command for this node."""


async def find(call: Call, name: str | None) -> ExecNode:
    """Returns the connected node that runs commands.

    A node chooses its name itself, so that a name which two paired nodes have names neither, also
    while one of them is not connected.

    Args:
        call: Calls a gateway method.
        name: Id or name of the node; None means the only connected node.

    Raises:
        ToolError: no such node is connected, or several are.
    """
    rows = (await call("node.list", {}, (READ,)))["nodes"]
    paired: dict[str, str] = {
        row["nodeId"]: str(row.get("displayName") or row["nodeId"][:12]) for row in rows
    }
    named = [key for key in paired if name in {None, key}]
    named = named or [key for key in paired if name == paired[key]]
    if name is not None and len(named) > 1:
        raise ToolError(
            f"{len(named)} paired nodes call themselves {name!r}, and tools.exec.node names one by"
            f" its id: {', '.join(named)}. Ask your owner."
        )
    nodes = [
        ExecNode(row["nodeId"], paired[row["nodeId"]])
        for row in rows
        if row["connected"] and RUN in row["commands"]
    ]
    matching = [node for node in nodes if node.id in named]
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(node.name for node in nodes) or "none"
    if name is not None:
        raise ToolError(f"The node {name!r} is not connected. Connected nodes: {names}.")
    if not matching:
        raise ToolError("No node that runs commands is connected.")
    raise ToolError(f"Several nodes are connected: {names}. tools.exec.node names none of them.")


async def run_on(call: Call, node: ExecNode, command: NodeCommand) -> ToolResult:
    """Returns the output of the command; an unknown outcome is an error result.

    Raises:
        ToolError: the node did not begin the command.
    """
    milliseconds = int(min(command.seconds, MAX_SECONDS) * 1000)
    approved: dict[str, Any] = (
        {"approved": True, "approvalDecision": "allow-once"} if command.is_approved else {}
    )
    request = {
        "command": [*SHELL, command.text],
        "rawCommand": command.text,
        "cwd": command.folder,
        "timeoutMs": milliseconds,
        "agentId": command.agent,
        "sessionKey": command.session,
        "runId": command.run_id,
        **approved,
    }
    params = {
        "nodeId": node.id,
        "command": RUN,
        "params": {key: value for key, value in request.items() if value is not None},
        "timeoutMs": milliseconds + _GRACE_MS,
        "idempotencyKey": f"exec-{secrets.token_hex(12)}",
    }
    try:
        answer = await call("node.invoke", params, (ADMIN,))
    except ToolError as error:
        if not any(words in str(error) for words in (_LATE, *_DISCONNECTED)):
            raise ToolError(f"The node {node.name} did not run the command: {error}.") from error
        failure = "did not answer in time" if _LATE in str(error) else "disconnected"
        text = (
            f"The node {node.name} {failure} after it received the command. The outcome is"
            " unknown, and it is not repeated. Look at what it has done before anything else."
        )
        details = {"status": "unknown", "host": "node", "node": node.name}
        return ToolResult(text, is_error=True, details=details)
    return _result(node, command, answer.get("payload"))


def _result(node: ExecNode, command: NodeCommand, payload: object) -> ToolResult:
    """Converts a node's response, which is not validated, to a result."""
    answer = payload if isinstance(payload, dict) else {}
    code, error = answer.get("exitCode"), answer.get("error")
    output = Output()
    for part in ("stdout", "stderr"):
        if isinstance(answer.get(part), str):
            output.add(answer[part].encode("utf-8", "replace"))
    output.end()
    text = output.brief(RESULT_CHARS).rstrip("\n") or "(no output)"
    is_number = isinstance(code, int) and not isinstance(code, bool)
    details = {
        "status": "completed" if is_number else "failed",
        "exitCode": code if is_number else None,
        "host": "node",
        "node": node.name,
        "command": command.text[:2000],
        "cwd": command.folder,
    }
    if answer.get("timedOut") is True:
        ending = f"(The command took longer than {command.seconds:g} s and was killed.)"
        return ToolResult(f"{text}\n\n{ending}", is_error=True, details=details)
    if not is_number:
        reason = error if isinstance(error, str) and error else "the node reported no exit code"
        return ToolResult(f"{text}\n\n({reason[:2000]})", is_error=True, details=details)
    note = f"\n\n(Command exited with code {code})" if code else ""
    return ToolResult(f"{text}{note}", details=details)
