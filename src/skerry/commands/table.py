"""The table of commands: `/status` and its like, answered by the gateway without a model.

One table serves a typed message, the completion of the page and, later, the menus of platforms.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from skerry.hooks.events import CommandGiven
from skerry.hooks.hooks import Hooks
from skerry.model.errors import SkerryError
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.run import Opening

logger = logging.getLogger(__name__)

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
MAX_ANSWER: Final = 65_536
"""Characters of an answer; what is longer is cut."""
_TYPED: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_-]{0,31})(?::|\s+|$)(.*)", re.DOTALL)


class CommandError(SkerryError):
    """A command cannot do what it was asked; its message is the answer that the person reads."""

    code = "command.failed"


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One command, as somebody gave it."""

    name: str
    arguments: str
    """What follows the name, without the space around it."""
    key: SessionKey
    """The conversation in which it was given."""
    channel: str
    """The platform that it came over, or `webchat`."""
    is_owner: bool
    """Whether it came from a client of the gateway, or from somebody whom
    `commands.ownerAllowFrom` names."""
    model: str | None = None
    """The model that was chosen for this conversation alone, or None."""
    opening: Opening | None = None
    """What the message did to the conversation before the command was asked."""
    compact: Callable[[str], Awaitable[str]] | None = None
    """Summarises the conversation as the text asks, and returns what to tell; raises
    `CommandError` where there is nothing to summarise."""
    run_id: RunId | None = None
    """The run that answers it."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `run` returns the answer in Markdown."""

    name: str
    description: str
    run: Callable[[CommandCall], Awaitable[str]]
    accepts_arguments: bool = False
    owner_only: bool = True
    plugin: str = ""
    """The plugin that brought it; empty for our own."""
    at_once: bool = False
    """Whether it is answered even while a run is on; then the transcript has nothing of it."""


class CommandTable:
    """Commands by name."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}

    def __iter__(self) -> Iterator[Command]:
        return iter(sorted(self._commands.values(), key=lambda one: one.name))

    def add(self, command: Command) -> None:
        """Make the command known.

        Raises:
            ValueError: the name is none, or is taken.
        """
        if NAME.fullmatch(command.name) is None:
            raise ValueError(f"{command.name!r} is no name of a command: {NAME.pattern}.")
        if command.name in self._commands:
            by = self._commands[command.name].plugin or "Skerry"
            raise ValueError(f"There is a command /{command.name} already, of {by}.")
        self._commands[command.name] = command

    def remove(self, plugin: str) -> None:
        """Forget every command of the plugin."""
        self._commands = {name: one for name, one in self._commands.items() if one.plugin != plugin}

    def match(self, text: str) -> tuple[Command, str] | None:
        """Return the command that the text gives, and its arguments; None is an ordinary message.

        A command stands at the begin; its name ends at a space, a colon or the end. A text that
        begins with another name, such as a path, is an ordinary message.
        """
        if not text.startswith("/"):
            return None
        typed = _TYPED.match(text)
        if typed is None:
            return None
        command = self._commands.get(typed[1].lower())
        if command is None:
            return None
        arguments = typed[2].strip()
        if arguments and not command.accepts_arguments:
            return None
        return command, arguments


def tell_command(hooks: Hooks, call: CommandCall, session_id: SessionId | None = None) -> None:
    """Tell plugins of a command; nothing waits for them."""
    if hooks.command.handlers:
        hooks.command.start(
            CommandGiven(
                name=call.name,
                agent_id=call.key.agent,
                session_key=str(call.key),
                session_id=session_id,
                arguments=call.arguments,
                channel=call.channel,
                is_owner=call.is_owner,
            )
        )


async def answer(command: Command, call: CommandCall) -> str:
    """Return what the person reads; whatever goes wrong is an answer too."""
    if command.owner_only and not call.is_owner:
        return f"Only the owner may use /{command.name}."
    try:
        text = await command.run(call)
    except CommandError as error:
        return f"⚠️ {error}"
    except Exception:
        logger.exception("command /%s failed", command.name)
        return f"⚠️ /{command.name} failed; the log says why."
    return text[:MAX_ANSWER] or "Done."
