"""The commands that a platform may show in a menu."""

from collections.abc import Callable, Iterable

from skerry.commands.table import Command, CommandTable
from skerry.config.root import Config
from skerry.model.rights import Rights
from skerry.sdk.channel_host import Menu, MenuCommand


def menu_of(config: Callable[[], Config], table: CommandTable, channel: str) -> Menu:
    """Returns the present commands for the menus of a platform."""
    commands = config().commands
    owners = [
        person
        for owner in commands.owner_allow_from
        for chat, _, person in (owner.partition(":"),)
        if chat.partition("/")[0].lower() == channel
    ]
    public, owner = table.offered(Rights.OPEN), table.offered(Rights.OWNER)
    is_native = commands.native is not False
    return Menu(_menu_commands(public), _menu_commands(owner), tuple(owners), is_native)


def _menu_commands(commands: Iterable[Command]) -> tuple[MenuCommand, ...]:
    return tuple(
        MenuCommand(command.name, command.description, command.accepts_arguments)
        for command in commands
    )
