"""Our own commands: what the gateway can say of itself without a model."""

from dataclasses import replace

from skerry import __version__
from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.ports.model import Models, ModelState


def builtin_commands(models: Models) -> CommandTable:
    """Return a table with `/help`, `/commands`, `/status` and `/whoami`."""
    table = CommandTable()

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
    for one in ours:
        table.add(replace(one, category="status"))
    return table
