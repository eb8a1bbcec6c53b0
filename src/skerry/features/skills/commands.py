"""`/skill`: lists the skills of a conversation; with a name, the gateway uses the skill."""

from typing import Final

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.runtime.skill_use import commands_of_skills
from skerry.workspace.skill_commands import SKILL

_NONE: Final = (
    "This agent has no skills that can be used. A skill is a folder with a SKILL.md in `skills` of"
    " its workspace; `skerry skills check` names the ones that are not used."
)


def commands(desk: CommandDependencies) -> tuple[Command, ...]:
    """Returns `/skill`."""

    async def skill(call: CommandCall) -> str:
        runtime = desk.dispatcher.runtime
        by_name = await commands_of_skills(runtime, desk.config(), call.key.agent)
        lines = [f"- `/{name}` {command.description}" for name, command in by_name.items()]
        if call.arguments:  # `runtime.skill_use` has not recognised the name
            word = call.arguments.split()[0]
            listed = ", ".join(f"`{command.skill.name}`" for command in by_name.values()) or "none"
            raise CommandError(f"Unknown skill `{word}`. Skills: {listed}.")
        return "\n".join(lines) or _NONE

    return (
        Command(
            SKILL,
            "lists the skills; with a name and a text, uses a skill",
            skill,
            accepts_arguments=True,
            listed=True,
            at_once=True,
            arguments=(Argument("name", "name of the skill"), Argument("text", "the request")),
            category="tools",
        ),
    )
