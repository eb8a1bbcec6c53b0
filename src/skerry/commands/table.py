"""The table of commands such as `/status`, which the gateway answers without a model.

The same table serves typed messages, the completion in the page and the terminal, and the menus of
platforms: a command declares its arguments and the rights that it needs.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.commands.directives import NAMES, directives, sole_directives
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
"""Limit on an answer, in characters; a longer one is cut."""
_PUNCTUATION: Final = " \t\n.!…。"
"""Characters that may surround a command without a slash."""
_SPARE: Final = 8
"""Number of such characters that a message may have."""
_MISSING: Final = re.compile(rf"/({NAME.pattern})(?:\s|\Z)")
_TYPED: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_-]{0,31})(?::|\s+|$)(.*)", re.DOTALL)


class CommandError(SkerryError):
    """A command failed; the message of the error is the answer that the person reads."""

    code = "command.failed"


class CommandCall(Struct, frozen=True):
    """One command with its arguments and its sender."""

    name: str
    arguments: str
    """Text after the name, without surrounding white space."""
    key: SessionKey
    """The conversation in which it was given."""
    channel: str
    """Name of the platform, or `webchat`."""
    is_owner: bool
    """True for a client of the gateway, and for a sender named in `commands.ownerAllowFrom`."""
    model: str | None = None
    """The model chosen for this conversation, or None."""
    opening: SessionOpening | None = None
    """Effect of the message on the conversation before the command ran."""
    compact: Callable[[str], Awaitable[str]] | None = None
    """Summarises the conversation as the text asks, and returns the answer; raises
    `CommandError` if there is nothing to summarise."""
    run_id: RunId | None = None
    """The run that answers it."""
    rights: Rights | None = None
    """Rights of the sender; None means all for the owner, and those of everybody for others."""
    scopes: tuple[str, ...] | None = None
    """Scopes of the client's connection; None for a message of a platform."""

    @property
    def may(self) -> Rights:
        """Returns the rights of the sender."""
        return self.rights or (Rights.OWNER if self.is_owner else Rights.OPEN)

    @property
    def actor(self) -> Actor:
        """Returns the sender with rights and scopes."""
        return Actor(rights=self.may, scopes=self.scopes)


class Argument(Struct, frozen=True):
    """An argument of a command."""

    name: str
    description: str = ""
    choices: tuple[str, ...] = ()
    """Allowed values; empty allows any text."""


def always() -> bool:
    """Returns True: the command is always enabled."""
    return True


class Command(Struct, frozen=True):
    """One command. `run` returns the answer in Markdown."""

    name: str
    description: str
    run: Callable[[CommandCall], Awaitable[str]]
    accepts_arguments: bool = False
    owner_only: bool = True
    """Restricts the command to the owner; otherwise anyone with the right to write may give it."""
    plugin: str = ""
    """The plugin that registered it; empty for a command of Skerry."""
    at_once: bool = False
    """Answers the command even during a run; then it is not stored in the transcript."""
    listed: bool = False
    """Also allows an owner's command to the senders in `commands.allowFrom`."""
    breaks_silence: bool = False
    """Sends the answer also if replies are muted, to any sender with the right to give it."""
    aliases: tuple[str, ...] = ()
    """Other names; `add` refuses a name that is in use."""
    words: frozenset[str] = frozenset()
    """Lower-case messages that give the command without a slash."""
    arguments: tuple[Argument, ...] = ()
    category: str = ""
    """Category in menus: `session`, `options`, `status`, `management`, `tools`, or none."""
    is_on: Callable[[], bool] = always
    """Function that returns whether `commands.<name>` of the configuration enables it."""
    scope: str = ""
    """The scope that a client needs. If empty, `policy.access.COMMANDS` has it; a plugin's command
    needs the admin scope, or the write scope if it is not only for the owner."""

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
        """Returns whether the actor may give the command."""
        return decide(Request(actor, Verb.GIVE, self.name, self.need))

    def permits(self, rights: Rights) -> bool:
        """Returns whether a sender with these rights may give the command; ignores scopes."""
        return self.decide(Actor(rights=rights)).allowed


class CommandTable:
    """Commands by name.

    Skerry's own commands are loaded at the first use, by the function given to `provide`.
    """

    def __init__(self) -> None:
        self._load_builtin: Callable[[], Iterable[Command]] | None = None
        self._commands: dict[str, Command] = {}
        self._names: dict[str, Command] = {}
        self._words: dict[str, Command] = {}
        self._longest = 0

    def __iter__(self) -> Iterator[Command]:
        self._fill()
        return iter(sorted(self._commands.values(), key=lambda command: command.name))

    def provide(self, load_builtin: Callable[[], Iterable[Command]]) -> None:
        """Sets the function that returns Skerry's own commands; it is called at the first use."""
        self._load_builtin = load_builtin

    def add(self, command: Command) -> None:
        """Adds the command.

        Raises:
            ValueError: the name is invalid or in use.
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
        """Returns the command with that name or alias."""
        self._fill()
        return self._names.get(name)

    @property
    def names(self) -> Iterable[str]:
        """Returns the names and aliases of all commands."""
        self._fill()
        return self._names.keys()

    def offered(self, rights: Rights) -> list[Command]:
        """Returns the commands shown to a caller with these rights: those enabled and permitted."""
        return [command for command in self if command.is_on() and command.permits(rights)]

    def match(self, text: str) -> tuple[Command, str] | None:
        r"""Returns the command in the text, and its arguments; None for an ordinary message.

        A command is at the start of the text; its name ends at a space, a colon or the end. A path
        is an ordinary message, and so are directives with other text. Several directives without
        other text are one command. An unknown name is refused with the similar names and not sent
        to a model; `//name` and `\name` send it as text.
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
            parsed = sole_directives(text)
            if not parsed and directives(text, lambda _: False):
                return None
            if len(parsed) > 1:
                named = [(self._names.get(directive.name), directive.level) for directive in parsed]
                return _in_turn([(each, level) for each, level in named if each is not None]), text
        return (command, arguments) if command.accepts_arguments or not arguments else None

    def command_in(self, request: RunRequest) -> tuple[Command, str] | None:
        """Returns the command in a request, and its arguments.

        Only messages of people contain commands. A word without a slash is a command only if the
        sender has the right to give it.
        """
        if request.purpose is not Purpose.MESSAGE or request.skill is not None:
            return None
        if request.reply_to is None and request.may is Rights.NONE:
            return None  # the client has sent the text for the model
        text = request.command
        command = self.match(text)
        if command is None or text.startswith("/") or command[0].permits(request.may):
            return command
        return None

    def _missing(self, name: str) -> Command:
        """Returns a command whose answer says that the name is unknown."""

        async def run(call: CommandCall) -> str:
            offered = self.offered(call.may)
            names = [name for command in offered for name in (command.name, *command.aliases)]
            near = spelt_like(name, names, limit=3)
            sentences = [f"Unknown command `/{name}`."]
            if near:
                sentences.append(f"Similar: {', '.join(f'`/{near_name}`' for near_name in near)}.")
            sentences.append("`/commands` lists all commands.")
            if call.may is Rights.OWNER:
                sentences.append("`skerry plugins list` shows which plugins failed to load.")
            sentences.append(f"To send it as text, write `//{name}`.")
            return " ".join(sentences)

        return Command(name, "", run, owner_only=False, at_once=True, scope=WRITE)

    def _fill(self) -> None:
        if self._load_builtin is not None:
            load, self._load_builtin = self._load_builtin, None
            for command in load():
                self.add(command)

    def _by_word(self, text: str) -> tuple[Command, str] | None:
        command = self._words.get(text.strip(_PUNCTUATION).lower())
        return (command, "") if command else None

    def _index(self) -> None:
        self._names, self._words = {}, {}
        for command in self._commands.values():
            self._names |= dict.fromkeys((command.name, *command.aliases), command)
            self._words |= dict.fromkeys(command.words, command)
        # A longer message cannot be one of the words, even with punctuation around it.
        self._longest = max(map(len, self._words), default=-_SPARE) + _SPARE


def _in_turn(parts: list[tuple[Command, str]]) -> Command:
    """Returns a command that runs each of the commands; a refused one does not stop the rest."""

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
    """Passes a command to the hook handlers of plugins, without waiting for them."""
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
        key = f"`commands.{command.name}`"
        return f"/{command.name} is disabled. Set {key} in skerry.json to enable it."
    try:
        text = await command.run(call)
    except CommandError as error:
        return f"⚠️ {error}"
    except Exception:
        logger.exception("command /%s failed", command.name)
        return f"⚠️ /{command.name} failed; the log has the error."
    return text[:MAX_ANSWER] or "Done."
