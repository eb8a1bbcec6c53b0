"""Our own commands: what the gateway can say of itself without a model."""

from collections.abc import Awaitable, Callable

from skerry import __version__
from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.ports.model import Models, ModelState

_Run = Callable[[CommandCall], Awaitable[str]]


def builtin_commands(models: Models) -> CommandTable:
    """Return a table with `/help`, `/commands`, `/status`, `/models` and `/whoami`."""
    table = CommandTable()

    async def commands(_: CommandCall) -> str:
        return "\n".join(f"- `/{one.name}` {one.description}" for one in table)

    async def status(call: CommandCall) -> str:
        found = await models.status()
        model = f"`{found.model.ref}`" if found.model else "none"
        if call.model is not None:
            model = f"`{call.model}`, chosen for this conversation (elsewhere {model})"
        lines = [f"Skerry {__version__}", f"Conversation: `{call.key}`", f"Model: {model}"]
        if found.state is not ModelState.READY:
            lines.append(f"{found.message} {found.remedy}".strip())
        return "\n\n".join(lines)

    async def listing(_: CommandCall) -> str:
        found = await models.listing()
        rows = [f"- `{one.ref}` {one.name}".rstrip() for one in found]
        return "\n".join(rows) or "No model can be used; `skerry models status` says why."

    async def whoami(call: CommandCall) -> str:
        who = "the owner" if call.is_owner else "a guest"
        return f"You are {who}, over {call.channel}, in `{call.key}`."

    ours: tuple[tuple[str, str, _Run, bool], ...] = (
        ("help", "says what you can write here", commands, False),
        ("commands", "lists the commands", commands, False),
        ("status", "says which model answers, and whether it can", status, True),
        ("models", "lists the models that can be used", listing, True),
        ("whoami", "says who you are to the gateway", whoami, False),
    )
    for name, description, run, owner_only in ours:
        table.add(Command(name, description, run, owner_only=owner_only))
    return table
