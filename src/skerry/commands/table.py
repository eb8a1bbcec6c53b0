"""The table of commands: `/status` and its like, answered by the gateway without a model.

One table serves a typed message, the completion of the page and the terminal, and the menus of
platforms: a command says what it takes, and to whom it answers.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.commands.directives import NAMES, alone, directives
from skerry.hooks.events import CommandGiven
from skerry.hooks.hooks import Hooks
from skerry.infra.spelling import spelt_like
from skerry.model.errors import SkerryError
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.rights import Rights
from skerry.model.run import Purpose, RunRequest, SessionOpening
from skerry.policy.access import ADMIN, WRITE, Need, Verb, command_scope, strongest
from skerry.policy.decide import Actor, Decision, Request, decide

logger = logging.getLogger(__name__)

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
MAX_ANSWER: Final = 65_536
"""Characters of an answer; what is longer is cut."""
_AROUND: Final = " \t\n.!…。"
_SPARE: Final = 8
"""Characters that may surround a word which is a command."""
_MISSING: Final = re.compile(rf"/({NAME.pattern})(?:\s|\Z)")
_TYPED: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_-]{0,31})(?::|\s+|$)(.*)", re.DOTALL)


class CommandError(SkerryError):
    """A command cannot do what it was asked; its message is the answer that the person reads."""

    code = "command.failed"


class CommandCall(Struct, frozen=True):
    """One command, as it was given."""

    name: str
    arguments: str
    """Text after the name, without the space around it."""
    key: SessionKey
    """The conversation in which it was given."""
    channel: str
    """The platform that it came over, or `webchat`."""
    is_owner: bool
    """True when it came from a client of the gateway, or from a sender that
    `commands.ownerAllowFrom` names."""
    model: str | None = None
    """The model that was chosen for this conversation alone, or None."""
    opening: SessionOpening | None = None
    """Effect of the message on the conversation before the command ran."""
    compact: Callable[[str], Awaitable[str]] | None = None
    """Summarises the conversation as the text asks, and returns the answer; raises
    `CommandError` where there is nothing to summarise."""
    run_id: RunId | None = None
    """The run that answers it."""
    rights: Rights | None = None
    """Commands that the sender may give; None allows all to the owner, else those for all."""
    scopes: tuple[str, ...] | None = None
    """Scopes of the client's connection that gave it; None over a platform."""

    @property
    def may(self) -> Rights:
        """Returns which commands whoever gave it may give."""
        return self.rights or (Rights.OWNER if self.is_owner else Rights.OPEN)

    @property
    def actor(self) -> Actor:
        """Returns whoever gave it."""
        return Actor(rights=self.may, scopes=self.scopes)


class Argument(Struct, frozen=True):
    """One thing that may follow a command's name."""

    name: str
    description: str = ""
    choices: tuple[str, ...] = ()
    """Values that it may have; empty allows any text."""


def always() -> bool:
    """Returns that a command is on."""
    return True


class Command(Struct, frozen=True):
    """One command. `run` returns the answer in Markdown."""

    name: str
    description: str
    run: Callable[[CommandCall], Awaitable[str]]
    accepts_arguments: bool = False
    owner_only: bool = True
    """Restricts the command to the owner; otherwise everybody who may write may give it."""
    plugin: str = ""
    """The plugin that brought it; empty for our own."""
    at_once: bool = False
    """Answers the command even during a run; then it is not stored in the transcript."""
    listed: bool = False
    """Allows an owner's command to senders that `commands.allowFrom` names too."""
    breaks_silence: bool = False
    """Sends its answer also where replies are muted, to any sender who may give it."""
    aliases: tuple[str, ...] = ()
    """Other names; `add` wants them free."""
    words: frozenset[str] = frozenset()
    """Messages in small letters that mean it without a slash."""
    arguments: tuple[Argument, ...] = ()
    category: str = ""
    """Category in menus: `session`, `options`, `status`, `management`, `tools`, or none."""
    is_on: Callable[[], bool] = always
    """Function that returns whether `commands.<name>` of the configuration enables it."""
    scope: str = ""
    """The scope that a client needs; empty is what `policy.access.COMMANDS` has for ours, and for a
    plugin's the admin scope, or writing where it is for everybody."""

    @property
    def need(self) -> Need:
        """Returns the need that a caller must meet."""
        rights = Rights.OPEN
        if self.owner_only:
            rights = Rights.LISTED if self.listed else Rights.OWNER
        scope = self.scope or command_scope(self.name)
        if not scope:
            scope = WRITE if self.plugin and not self.owner_only else ADMIN
        return Need(None, scope, rights)

    def decide(self, actor: Actor) -> Decision:
        """Returns whether somebody may give it."""
        return decide(Request(actor, Verb.GIVE, self.name, self.need))

    def permits(self, rights: Rights) -> bool:
        """Returns whether somebody with these rights may give it, whatever the scopes."""
        return self.decide(Actor(rights=rights)).allowed


class CommandTable:
    """Commands by name.

    `ours` returns the commands of Skerry itself; it is called when the table is first used.
    """

    def __init__(self) -> None:
        self._ours: Callable[[], Iterable[Command]] | None = None
        self._commands: dict[str, Command] = {}
        self._names: dict[str, Command] = {}
        self._words: dict[str, Command] = {}
        self._longest = 0

    def __iter__(self) -> Iterator[Command]:
        self._fill()
        return iter(sorted(self._commands.values(), key=lambda command: command.name))

    def provide(self, ours: Callable[[], Iterable[Command]]) -> None:
        """Sets the function that returns our own commands; it is called at the first use."""
        self._ours = ours

    def add(self, command: Command) -> None:
        """Adds the command.

        Raises:
            ValueError: the name is none, or is taken.
        """
        if NAME.fullmatch(command.name) is None:
            raise ValueError(f"{command.name!r} is not a valid command name: {NAME.pattern}.")
        self._fill()
        for name in (command.name, *command.aliases):
            if name in self._names:
                by = self._names[name].plugin or "Skerry"
                raise ValueError(f"Command /{name} already exists, registered by {by}.")
        self._commands[command.name] = command
        self._index()

    def remove(self, plugin: str) -> None:
        """Removes every command of the plugin."""
        self._fill()
        self._commands = {
            name: command for name, command in self._commands.items() if command.plugin != plugin
        }
        self._index()

    def find(self, name: str) -> Command | None:
        """Returns the command of that name or alias."""
        self._fill()
        return self._names.get(name)

    def offered(self, rights: Rights) -> list[Command]:
        """Returns the commands shown to a caller with these rights: those enabled and permitted."""
        return [command for command in self if command.is_on() and command.permits(rights)]

    def match(self, text: str) -> tuple[Command, str] | None:
        r"""Returns the command that the text gives, and its arguments; None is an ordinary message.

        A command begins the text; its name ends at a space, a colon or the end. A path is an
        ordinary message, and so is a text that has more than the directives within it. Several
        directives alone are one command. A name that no command has is refused with those near it,
        and not sent to a model; `//name` and `\name` send it as text.
        """
        self._fill()
        if not text.startswith("/"):
            return self._by_word(text) if len(text) <= self._longest else None
        typed = _TYPED.match(text)
        name = typed[1].lower() if typed else ""
        # Menus of platforms have no `-` in names.
        command = self._names.get(name) or self._names.get(name.replace("_", "-"))
        if typed is None or command is None:
            missing = _MISSING.match(text)
            return (self._missing(missing[1]), "") if missing else None
        arguments = typed[2].strip()
        if arguments and command.name in NAMES:
            several = alone(text)
            if not several and directives(text, lambda _: False):
                return None
            if len(several) > 1:
                named = [
                    (self._names.get(directive.name), directive.level) for directive in several
                ]
                return _in_turn([(each, level) for each, level in named if each is not None]), text
        return (command, arguments) if command.accepts_arguments or not arguments else None

    def command_in(self, request: RunRequest) -> tuple[Command, str] | None:
        """Returns the command that a request gives, and its arguments.

        A run that no person asked for gives none. A word without a slash is a command only of those
        who may give it.
        """
        if request.purpose is not Purpose.MESSAGE:
            return None
        text = request.command
        command = self.match(text)
        if command is None or text.startswith("/") or command[0].permits(request.may):
            return command
        return None

    def _missing(self, name: str) -> Command:
        """Returns the command that answers that a name is unknown."""

        async def run(call: CommandCall) -> str:
            offered = self.offered(call.may)
            names = [name for command in offered for name in (command.name, *command.aliases)]
            near = spelt_like(name, names, limit=3)
            sentences = [f"Unknown command `/{name}`."]
            if near:
                sentences.append(f"Near: {', '.join(f'`/{near_name}`' for near_name in near)}.")
            sentences.append("`/commands` lists all.")
            if call.may is Rights.OWNER:
                sentences.append("`skerry plugins list` shows which plugins failed to load.")
            sentences.append(f"To send it as text, write `//{name}`.")
            return " ".join(sentences)

        return Command(name, "", run, owner_only=False, at_once=True, scope=WRITE)

    def _fill(self) -> None:
        if self._ours is not None:
            ours, self._ours = self._ours, None
            for command in ours():
                self.add(command)

    def _by_word(self, text: str) -> tuple[Command, str] | None:
        command = self._words.get(text.strip(_AROUND).lower())
        return (command, "") if command else None

    def _index(self) -> None:
        self._names, self._words = {}, {}
        for command in self._commands.values():
            self._names |= dict.fromkeys((command.name, *command.aliases), command)
            self._words |= dict.fromkeys(command.words, command)
        # A message longer than any word with its surroundings is not compared with the words.
        self._longest = max(map(len, self._words), default=-_SPARE) + _SPARE


def _in_turn(parts: list[tuple[Command, str]]) -> Command:
    """Returns a command that runs each; a refused one does not stop the others."""

    async def run(call: CommandCall) -> str:
        answers = [
            await answer(command, replace(call, name=command.name, arguments=level))
            for command, level in parts
        ]
        return "\n\n".join(answers)

    return Command(
        "directives",
        "",
        run,
        scope=strongest(command.need.scope or ADMIN for command, _ in parts),
        accepts_arguments=True,
        owner_only=any(command.owner_only for command, _ in parts),
        listed=all(command.listed or not command.owner_only for command, _ in parts),
        at_once=all(command.at_once for command, _ in parts),
    )


def tell_command(hooks: Hooks, call: CommandCall, session_id: SessionId | None = None) -> None:
    """Passes a command to plugins, without waiting for them."""
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
    """Returns the answer for the person; every failure is an answer too."""
    decision = command.decide(call.actor)
    if not decision.allowed:
        return decision.reason
    if not command.is_on():
        return f"/{command.name} is off. `commands.{command.name}` in skerry.json switches it on."
    try:
        text = await command.run(call)
    except CommandError as error:
        return f"⚠️ {error}"
    except Exception:
        logger.exception("command /%s failed", command.name)
        return f"⚠️ /{command.name} failed; the log has the error."
    return text[:MAX_ANSWER] or "Done."
