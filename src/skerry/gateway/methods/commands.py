"""The method `commands.list`: the commands that a message may begin with."""

from typing import Final, Literal

from skerry.commands.table import Argument, Command
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.model.rights import Rights


class CommandsListParams(Params):
    """Parameters of `commands.list`; every command is the same for all agents and platforms.

    `scope: "native"` asks for those that a platform has in a menu of its own, of which there are
    none: a command begins a text.
    """

    agent_id: Name | None = None
    provider: Name | None = None
    scope: Literal["text", "native", "both"] | None = None
    include_args: bool | None = None
    session_key: Name | None = None


def commands_list(call: Call, params: CommandsListParams) -> dict[str, Json]:
    """Returns the commands that a message may begin with."""
    offered = call.context.commands.offered(Rights.OWNER) if params.scope != "native" else ()
    arguments = params.include_args is not False
    return {"commands": [_command(command, arguments=arguments) for command in offered]}


def _command(command: Command, *, arguments: bool) -> Json:
    row: dict[str, Json] = {
        "name": command.name,
        "textAliases": [f"/{name}" for name in (command.name, *command.aliases)],
        "description": command.description,
        "source": "plugin" if command.plugin else "native",
        "scope": "text",
        "acceptsArgs": command.accepts_arguments,
    }
    if command.category:
        row["category"] = command.category
    if command.arguments and arguments:
        row["args"] = [_argument(argument) for argument in command.arguments]
    return row


def _argument(argument: Argument) -> Json:
    row: dict[str, Json] = {
        "name": argument.name,
        "description": argument.description,
        "type": "string",
    }
    if argument.choices:
        row["choices"] = [{"value": choice, "label": choice} for choice in argument.choices]
    return row


METHODS: Final = (Method("commands.list", CommandsListParams, commands_list),)
