"""The commands on conversations: `/new`, `/reset`, `/resume`, `/recall`, `/compact`, `/retry`."""

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Command
from skerry.features.sessions.content import context_commands
from skerry.features.sessions.opening import session_commands
from skerry.features.sessions.retry import retry_command


def commands(desk: CommandDependencies) -> tuple[Command, ...]:
    """Returns the commands."""
    runtime = desk.dispatcher.runtime
    retry = retry_command(runtime.commands, runtime.store, lambda: desk.dispatcher)
    return (*context_commands(runtime.store), *session_commands(runtime.store), retry)
