"""`/subagents`: the sub-agents of a conversation, for its owner."""

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.features.subagents.control import Control, Row, children
from skerry.features.subagents.tables import SubagentState
from skerry.model.errors import RequestError

_ACTIONS = ("list", "info", "log", "send", "kill")
_USAGE = "Usage: /subagents list | info ID | log ID | send ID MESSAGE | kill ID|all"
_LOG = 10
"""Number of messages of a log in a chat."""


def commands(desk: CommandDependencies) -> tuple[Command, ...]:
    """Returns `/subagents`."""

    async def subagents(call: CommandCall) -> str:
        control = Control(desk.dispatcher)
        action, _, arguments = call.arguments.strip().partition(" ")
        target, _, text = arguments.strip().partition(" ")
        if action in {"", "list"}:
            return _listed(await control.rows(str(call.key)))
        if action not in _ACTIONS or not target:
            raise CommandError(_USAGE)
        if action == "kill" and target == "all":
            rows = children(await control.rows(), call.key)
            stopped = sum(control.kill(row.subagent) for row in rows)
            return f"Stopped {stopped} sub-agent{'s' * (stopped != 1)}."
        try:
            row = await control.find(target, str(call.key))
        except RequestError as error:
            raise CommandError(f"{error} {error.remedy}") from error
        return await _of_one(control, action, row, text.strip())

    return (
        Command(
            "subagents",
            "lists, addresses and stops the sub-agents of this conversation",
            subagents,
            accepts_arguments=True,
            at_once=True,
            arguments=(
                Argument("action", choices=_ACTIONS),
                Argument("id", "number in the list, beginning of the id, or label"),
                Argument("message"),
            ),
            category="management",
        ),
    )


async def _of_one(control: Control, action: str, row: Row, text: str) -> str:
    if action == "info":
        return _info(control, row)
    if action == "log":
        return _log(await control.log(row.subagent, _LOG))
    if action == "kill":
        stopped = control.kill(row.subagent)
        return f"Stopped {_name(row)}." if stopped else f"{_name(row)} is not running."
    return await _send(control, row, text)


def _listed(rows: list[Row]) -> str:
    if not rows:
        return "This conversation has started no sub-agent in the last day."
    lines = [f"{number}. {_line(row)}" for number, row in enumerate(rows, 1)]
    return "\n".join(lines)


def _line(row: Row) -> str:
    subagent = row.subagent
    state = "running" if subagent.state is SubagentState.RUNNING else subagent.status
    return f"{_name(row)} ({state}): {row.task}"


def _name(row: Row) -> str:
    short = row.subagent.key.scope[-1][:8]
    return f"`{short}` {row.subagent.label}".strip()


def _info(control: Control, row: Row) -> str:
    row_json = control.as_json(row)
    facts = ("key", "state", "status", "model", "inputTokens", "outputTokens", "transcript")
    lines = [f"- {name}: {row_json[name]}" for name in facts if row_json.get(name) is not None]
    return "\n".join((_line(row), *lines))


def _log(messages: list[dict[str, object]]) -> str:
    lines = []
    for message in messages:
        tools = message.get("tools")
        called = f" [{', '.join(map(str, tools))}]" if isinstance(tools, list) else ""
        lines.append(f"**{message['role']}**{called}: {message['text']}")
    return "\n\n".join(lines) or "Its session has no message."


async def _send(control: Control, row: Row, text: str) -> str:
    if not text:
        raise CommandError(_USAGE)
    result = await control.send(row, text)
    if result is None:
        return f"{_name(row)} received the message; the answer takes longer: /subagents log."
    if result.error is not None:
        raise CommandError(f"{_name(row)} could not answer: {result.error.message}")
    return "\n\n".join(result.payloads) or f"{_name(row)} returned no text."
