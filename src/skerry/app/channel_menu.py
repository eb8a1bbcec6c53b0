"""The commands that a platform may show in a menu."""

from collections.abc import Callable, Iterable

from skerry.commands.table import Command, CommandTable
from skerry.config.root import Config
from skerry.model.rights import Rights
from skerry.sdk.channel_host import Menu, MenuCommand
from skerry.workspace.skill_catalogue import SkillCatalogue
from skerry.workspace.skill_commands import skill_commands


def menu_of(
    config: Callable[[], Config], table: CommandTable, skills: SkillCatalogue, channel: str
) -> Menu:
    """Returns the present commands for the menus of a platform; the owner's with skills."""
    present = config()
    commands = present.commands
    owners = [
        person
        for owner in commands.owner_allow_from
        for chat, _, person in (owner.partition(":"),)
        if chat.partition("/")[0].lower() == channel
    ]
    public, owner = table.offered(Rights.OPEN), table.offered(Rights.OWNER)
    is_native = commands.native is not False
    of_skills = _of_skills(present, table, skills) if commands.native_skills is not False else ()
    listed = (*_menu_commands(owner), *of_skills)
    return Menu(_menu_commands(public), listed, tuple(owners), is_native)


def _of_skills(
    config: Config, table: CommandTable, catalogue: SkillCatalogue
) -> tuple[MenuCommand, ...]:
    """Returns the commands of the default agent's skills."""
    agent = config.agents.default_id
    skills = catalogue.unchanged(config, agent, config.workspace(agent))
    if skills is None:
        skills = catalogue.load(config, agent)
    by_name = skill_commands(skills, table.names) if skills.skills else {}
    return tuple(
        MenuCommand(each.name, each.description, accepts_arguments=True)
        for each in by_name.values()
    )


def _menu_commands(commands: Iterable[Command]) -> tuple[MenuCommand, ...]:
    return tuple(
        MenuCommand(command.name, command.description, command.accepts_arguments)
        for command in commands
    )
