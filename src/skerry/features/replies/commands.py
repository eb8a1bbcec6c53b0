"""The commands for the delivery of replies: `/usage`, `/reasoning`, `/verbose`, `/send`."""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.features.replies.spending import Spending
from skerry.model.session import SessionEntry, SessionSettings
from skerry.store import Store, Unit, archive, sessions


@dataclasses.dataclass(frozen=True, slots=True)
class _Choice:
    """A setting of the conversation that a command prints and changes."""

    name: str
    field: str
    description: str
    levels: tuple[str, ...]
    owner_only: bool = True
    aliases: tuple[str, ...] = ()
    breaks_silence: bool = False
    stored: dict[str, str | None] = dataclasses.field(default_factory=dict)
    """Stored value of a level, where it differs from the level."""

    def word(self, value: str | None) -> str:
        """Returns the level of a stored value."""
        if value is None:
            return "as configured"
        return next(
            (level for level, stored_word in self.stored.items() if stored_word == value), value
        )


_CHOICES: Final = (
    _Choice(
        "usage",
        "response_usage",
        "shows the usage below each answer on a platform: off, tokens, full; cost: the total",
        ("off", "tokens", "full"),
        owner_only=False,
    ),
    _Choice(
        "reasoning",
        "reasoning_level",
        "sends the model's reasoning to the platform: off, on, stream",
        ("off", "on", "stream"),
        aliases=("reason",),
    ),
    _Choice(
        "verbose",
        "verbose_level",
        "sends a message for each tool call to a direct chat: off, on, full",
        ("off", "on", "full"),
        aliases=("v",),
    ),
    _Choice(
        "send",
        "send_policy",
        "sends or mutes replies on the platform: on, off, inherit",
        ("on", "off", "inherit"),
        breaks_silence=True,  # a person who unmutes replies expects a confirmation
        stored={"on": "allow", "off": "deny", "inherit": None},
    ),
)


Costs = Callable[[CommandCall], Awaitable[str]]


def commands(desk: CommandDependencies) -> list[Command]:
    """Returns `/usage`, `/reasoning`, `/verbose` and `/send`."""
    store = desk.dispatcher.runtime.store
    return reply_commands(store, Spending(store, desk.config).report)


def reply_commands(store: Store, costs: Costs | None = None) -> list[Command]:
    """Returns `/usage`, `/reasoning`, `/verbose` and `/send`; `costs` answers `/usage cost`."""
    return [
        _command(store, choice, costs if choice.name == "usage" else None) for choice in _CHOICES
    ]


def _command(store: Store, choice: _Choice, costs: Costs | None) -> Command:
    takes = ", ".join(choice.levels if costs is None else (*choice.levels, "cost"))

    async def run(call: CommandCall) -> str:
        level = call.arguments.lower()
        if costs is not None and level == "cost":
            return await costs(call)
        if not level:
            session = await store.read(lambda reader: sessions.find(reader, str(call.key)))
            settings = session.settings if session else SessionSettings()
            present = choice.word(getattr(settings, choice.field))
            return f"/{choice.name} is {present}. Options: {takes}."
        if level not in choice.levels:
            raise CommandError(f"/{choice.name} takes {takes}.")

        value = choice.stored.get(level, level)

        def write(unit: Unit) -> None:
            session = _session(unit, call)
            settings = msgspec.structs.replace(session.settings, **{choice.field: value})
            archive.change(unit, session.session_id, label=session.label, settings=settings)

        await store.write(write)
        return f"/{choice.name} is {level} from the next message on."

    return Command(
        choice.name,
        choice.description,
        run,
        accepts_arguments=True,
        owner_only=choice.owner_only,
        listed=True,
        breaks_silence=choice.breaks_silence,
        aliases=choice.aliases,
        arguments=(Argument("level", choices=choice.levels),),
        category="options",
    )


def _session(unit: Unit, call: CommandCall) -> SessionEntry:
    session = sessions.find(unit, str(call.key))
    if session is None:
        raise CommandError("This conversation has just ended; write again.")
    return session
