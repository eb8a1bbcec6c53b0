"""The built-in chat commands `/help`, `/commands`, `/status` and `/whoami`."""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from skerry import __version__
from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.model.rights import Rights
from skerry.ports.model import Models, ModelState
from skerry.runtime import skill_use
from skerry.sdk.features import registered
from skerry.store import Store, runs


async def _no_lines(_: CommandCall) -> list[str]:
    return []


def builtin_commands(
    models: Models,
    table: CommandTable,
    work: Callable[[CommandCall], str] = lambda _: "",
    state_lines: Callable[[CommandCall], Awaitable[list[str]]] = _no_lines,
    skill_lines: Callable[[CommandCall], Awaitable[list[str]]] = _no_lines,
) -> tuple[Command, ...]:
    """Returns `/help`, `/commands`, `/status` and `/whoami`; the first two list `table`.

    `work` returns the present activity of a conversation, `state_lines` further lines of its
    status, `skill_lines` the commands of skills. All are answered during a run too, since a person
    who waits for it may ask.
    """

    async def commands(call: CommandCall) -> str:
        lines = [
            f"- `/{command.name}` {command.description}" for command in table.offered(call.may)
        ]
        return "\n".join([*lines, *await skill_lines(call)])

    async def status(call: CommandCall) -> str:
        model_status = await models.status()
        model = f"`{model_status.model.ref}`" if model_status.model else "none"
        if call.model is not None:
            model = f"`{call.model}`, chosen for this conversation (elsewhere {model})"
        lines = [f"Skerry {__version__}", f"Conversation: `{call.key}`", f"Model: {model}"]
        if model_status.state is not ModelState.READY:
            lines.append(f"{model_status.message} {model_status.remedy}".strip())
        if activity := work(call):
            lines.append(f"Now: {activity}")
        lines += await state_lines(call)
        return "\n\n".join(lines)

    async def whoami(call: CommandCall) -> str:
        role = "the owner" if call.is_owner else "a guest"
        return f"You are {role}, over {call.channel}, in `{call.key}`."

    entries = (
        Command("help", "lists the commands", commands, owner_only=False),
        Command("commands", "lists the commands", commands, owner_only=False),
        Command(
            "status",
            "shows the model, its state, and the queue",
            status,
            listed=True,
        ),
        Command(
            "whoami",
            "shows your identity at the gateway",
            whoami,
            owner_only=False,
            aliases=("id",),
        ),
    )
    return tuple(replace(entry, category="status", at_once=True) for entry in entries)


def activity_text(desk: CommandDependencies, call: CommandCall) -> str:
    """Returns a text about the active and waiting runs of the conversation; empty for none."""
    queue = {session.key: session for session in desk.dispatcher.queue().sessions}.get(
        str(call.key)
    )
    if queue is None or queue.run_id == call.run_id:
        return ""
    now = desk.dispatcher.runtime.clock.now_ms()
    is_on = "" if queue.since is None else f" has been on for {max(0, now - queue.since) // 1000} s"
    runs = f"a run{is_on or ' waits for its place'}"
    return f"{runs}, {queue.waiting} waiting, `{queue.mode}`"


async def state_lines(store: Store, desk: CommandDependencies, call: CommandCall) -> list[str]:
    """Returns lines about failed models of the last run, and about the used limits."""
    ended = await store.read(lambda reader: runs.last_ended(reader, str(call.key), 1))
    failure = ended[0].result.error if ended else None
    lines = []
    if failure is not None and failure.attempts:
        failed = "\n".join(f"- {attempt}" for attempt in failure.attempts)
        lines.append(f"The last message was not answered. These were tried:\n\n{failed}")
    if call.is_owner:
        meter = desk.dispatcher.runtime.ledger.meter
        lines.append(f"Limits: {meter.summary(call.key.agent)}")
    return lines


async def skill_lines(desk: CommandDependencies, call: CommandCall) -> list[str]:
    """Returns a line for the command of each skill, for a sender with further rights only."""
    if not call.may.covers(Rights.LISTED):
        return []
    runtime = desk.dispatcher.runtime
    by_name = await skill_use.commands_of_skills(runtime, desk.config(), call.key.agent)
    return [f"- `/{name}` (skill) {command.description}" for name, command in by_name.items()]


def every_command(desk: CommandDependencies) -> tuple[Command, ...]:
    """Returns all built-in commands: of the kernel, then of features."""
    runtime = desk.dispatcher.runtime
    store, features = runtime.store, registered()
    return (
        *builtin_commands(
            runtime.models,
            runtime.commands,
            partial(activity_text, desk),
            partial(state_lines, store, desk),
            partial(skill_lines, desk),
        ),
        *(command for load in features.commands for command in load()(desk)),
        *(
            command
            for registered in features.registrations.values()
            for command in registered.commands
        ),
    )
