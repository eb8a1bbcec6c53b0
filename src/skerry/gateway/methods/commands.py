"""The method `commands.list`: the commands that a message may begin with."""

from typing import Final, Literal

from skerry.commands.table import Argument, Command
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.model.rights import Rights
from skerry.workspace.skill_commands import SkillCommand, skill_commands


class CommandsListParams(Params):
    """Parameters of `commands.list`; only the commands of skills differ between agents.

    The answer to `scope: "native"` is empty: no command exists only in the menu of a platform.
    """

    agent_id: Name | None = None
    provider: Name | None = None
    scope: Literal["text", "native", "both"] | None = None
    include_args: bool | None = None
    session_key: Name | None = None


async def commands_list(call: Call, params: CommandsListParams) -> dict[str, Json]:
    """Returns the commands that a message may begin with; those of skills are last."""
    if params.scope == "native":
        return {"commands": []}
    context, arguments = call.context, params.include_args is not False
    offered = context.commands.offered(Rights.OWNER)
    rows = [_command(command, arguments=arguments) for command in offered]
    if context.plugins is not None:
        agent = call.session_key(params.session_key, params.agent_id).agent
        skills = await context.plugins.skills.current(context.config(), agent)
        by_name = skill_commands(skills, context.commands.names) if skills.skills else {}
        rows += [_skill(command) for command in by_name.values()]
    return {"commands": rows}


def _skill(command: SkillCommand) -> Json:
    return {
        "name": command.name,
        "textAliases": [f"/{command.name}"],
        "description": command.description,
        "source": "skill",
        "scope": "text",
        "acceptsArgs": True,
    }


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
