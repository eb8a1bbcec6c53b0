"""The commands for conversations, such as `/new`, `/resume`, `/compact`, `/retry`, `/taint`."""

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Command
from skerry.features.sessions.content import context_commands
from skerry.features.sessions.retry_command import retry_command
from skerry.features.sessions.session_opening import session_commands
from skerry.features.sessions.taint_command import taint_command


def commands(desk: CommandDependencies) -> tuple[Command, ...]:
    """Returns the commands."""
    runtime = desk.dispatcher.runtime
    retry = retry_command(runtime.commands, runtime.store, lambda: desk.dispatcher)
    return (
        *context_commands(runtime.store),
        *session_commands(runtime.store),
        retry,
        taint_command(desk),
    )
