"""Context of a command: its sender and conversation."""

from collections.abc import Awaitable, Callable

from skerry.commands.table import Command, CommandCall
from skerry.hooks.events import WEBCHAT
from skerry.lanes.running import ActiveRun
from skerry.model.origin import Origin


def command_call(
    active: ActiveRun,
    command: Command,
    arguments: str = "",
    compact: Callable[[str], Awaitable[str]] | None = None,
) -> CommandCall:
    """Returns it for the command that the run's message gives, or asks for beside what it says."""
    request, own = active.request, active.settings
    return CommandCall(
        command.name,
        arguments,
        request.key,
        request.reply_to.channel if request.reply_to else WEBCHAT,
        is_owner=request.origin is Origin.OWNER,
        model=own.model if own else None,
        opening=request.opening,
        compact=compact,
        run_id=request.run_id,
        rights=request.may,
        scopes=request.scopes,
    )
