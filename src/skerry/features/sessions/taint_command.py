"""The command `/taint`: shows the reason for approvals in this conversation, and clears it."""

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.runtime import taint

_MAX_SOURCES = 10


def taint_command(desk: CommandDependencies) -> Command:
    """Returns `/taint`."""

    async def run(call: CommandCall) -> str:
        runtime, key = desk.dispatcher.runtime, str(call.key)
        match call.arguments.strip().lower():
            case "":
                state = await runtime.store.read(lambda reader: taint.look(reader, key))
                return as_text(state)
            case "clear":
                now = runtime.clock.now_ms()
                by = f"/taint on {call.channel}"
                state = await runtime.store.write(lambda unit: taint.clear(unit, key, now, by))
            case _:
                raise CommandError("Usage: /taint, or /taint clear")
        if state is None or not state.origins:
            return "This conversation has no text from others."
        origins = ", ".join(sorted(state.origins))
        return f"Cleared: the text so far ({origins}) no longer taints this conversation."

    return Command(
        "taint",
        "shows the text from others in this conversation; `clear` trusts it",
        run,
        accepts_arguments=True,
        arguments=(Argument("action", choices=("clear",)),),
        category="tools",
    )


def as_text(state: taint.Taint | None) -> str:
    """Returns the taint of a conversation in Markdown."""
    if state is None or not state.origins:
        return "This conversation has no text from others."
    origins = ", ".join(sorted(state.origins))
    lines = [f"This conversation has text from others ({origins}):"]
    for source in state.sources[-_MAX_SOURCES:]:
        source_name = f"`{source.tool}` `{source.call}`" if source.tool else "a message"
        if not source.seq:
            source_name = "a summary of earlier messages"
        lines.append(f"- {source.origin}: {source_name}")
    lines.append("Acts outside the sandbox need an approval. `/taint clear` ends that.")
    return "\n".join(lines)
