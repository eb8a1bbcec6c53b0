"""Our own commands: what the gateway can say of itself without a model."""

from msgspec.structs import replace

from skerry import __version__
from skerry.app.command_config import config_commands
from skerry.app.command_context import context_commands
from skerry.app.command_models import model_commands
from skerry.app.command_prompt import prompt_commands
from skerry.app.command_queue import queue_commands
from skerry.app.command_replies import reply_commands
from skerry.app.command_retry import retry_command
from skerry.app.command_sessions import session_commands
from skerry.app.command_usage import Costs
from skerry.app.desk import Desk
from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.ports.model import Models, ModelState
from skerry.store import Store


def builtin_commands(models: Models, table: CommandTable) -> tuple[Command, ...]:
    """Return `/help`, `/commands`, `/status` and `/whoami`; the first two list what `table` has."""

    async def commands(call: CommandCall) -> str:
        return "\n".join(f"- `/{one.name}` {one.description}" for one in table.offered(call.may))

    async def status(call: CommandCall) -> str:
        found = await models.status()
        model = f"`{found.model.ref}`" if found.model else "none"
        if call.model is not None:
            model = f"`{call.model}`, chosen for this conversation (elsewhere {model})"
        lines = [f"Skerry {__version__}", f"Conversation: `{call.key}`", f"Model: {model}"]
        if found.state is not ModelState.READY:
            lines.append(f"{found.message} {found.remedy}".strip())
        return "\n\n".join(lines)

    async def whoami(call: CommandCall) -> str:
        who = "the owner" if call.is_owner else "a guest"
        return f"You are {who}, over {call.channel}, in `{call.key}`."

    ours = (
        Command("help", "says what you can write here", commands, owner_only=False),
        Command("commands", "lists the commands", commands, owner_only=False),
        Command("status", "says which model answers, and whether it can", status, listed=True),
        Command(
            "whoami", "says who you are to the gateway", whoami, owner_only=False, aliases=("id",)
        ),
    )
    return tuple(replace(one, category="status") for one in ours)


def every_command(
    models: Models, store: Store, desk: Desk, table: CommandTable
) -> tuple[Command, ...]:
    """Return all commands that are ours, for `table`."""
    return (
        *builtin_commands(models, table),
        *model_commands(models, store, desk.config),
        *prompt_commands(desk),
        *config_commands(desk),
        *context_commands(store),
        *session_commands(store),
        *reply_commands(store, Costs(store, desk.config).told),
        *queue_commands(store, desk),
        retry_command(table, store, lambda: desk.dispatcher),
    )
