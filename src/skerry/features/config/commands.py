"""`/config`, `/debug` and `/restart`, for the owner; the first two are off unless switched on.

A change is checked; keys that are protected for clients are also protected here. `/debug` writes
nothing: its values end with the gateway.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from skerry.app.command_dependencies import CommandDependencies
from skerry.app.settings import Settings
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.config.expand import Expanded
from skerry.config.paths import MISSING, KeyPath, lookup, parse_key_path, replaced, show_key_path
from skerry.config.redact import public, redact, redact_config, unresolved
from skerry.config.reload_rules import needs_restart
from skerry.config.source import Source
from skerry.config.write import META, by_hand
from skerry.model.errors import ConfigError, ConfigInvalidError

_MAX_CHARACTERS: Final = 3000
"""Maximum length of a printed value, in characters."""


def commands(desk: CommandDependencies) -> list[Command]:
    """Returns `/config`, `/debug` and `/restart`."""
    does = _Changing(desk)
    return [
        Command(
            "config",
            "shows or changes the configuration file",
            does.config,
            accepts_arguments=True,
            arguments=(
                Argument("action", choices=("show", "get", "set", "unset")),
                Argument("path", "messages.queue.mode, and with set =value"),
            ),
            category="management",
            is_on=lambda: desk.config().commands.config,
        ),
        Command(
            "debug",
            "changes the configuration until the next start",
            does.debug,
            accepts_arguments=True,
            arguments=(
                Argument("action", choices=("show", "set", "unset", "reset")),
                Argument("path", "messages.queue.mode, and with set =value"),
            ),
            category="management",
            is_on=lambda: desk.config().commands.debug,
        ),
        Command(
            "restart",
            "restarts the gateway, after the present answers have ended",
            does.restart,
            category="management",
            is_on=lambda: desk.config().commands.restart,
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Changing:
    """Handlers of the commands."""

    desk: CommandDependencies

    @property
    def settings(self) -> Settings:
        """Returns the service of the configuration.

        Raises:
            CommandError: the gateway has no such service.
        """
        if self.desk.settings is None:
            raise CommandError("The configuration of this gateway cannot be changed.")
        return self.desk.settings

    async def config(self, call: CommandCall) -> str:
        """Answers `/config`."""
        action, _, operand = call.arguments.partition(" ")
        try:
            match action.lower():
                case "" | "show" | "get":
                    return self._show(operand.strip())
                case "set":
                    return await self._edit(*_assigned(operand))
                case "unset":
                    return await self._edit(_key_path(operand), MISSING)
        except ConfigError as error:
            raise CommandError(_refusal(error)) from error
        raise CommandError("/config takes show, get, set or unset: `/config set session.scope=…`.")

    async def debug(self, call: CommandCall) -> str:
        """Answers `/debug`."""
        action, _, operand = call.arguments.partition(" ")
        overrides = dict(self.settings.overrides)
        try:
            match action.lower():
                case "" | "show":
                    return _overridden(overrides)
                case "set":
                    path, value = _assigned(operand)
                    _refuse_start(path)
                    overrides[path] = value
                case "unset":
                    overrides.pop(_key_path(operand), None)
                case "reset":
                    overrides.clear()
                case _:
                    raise CommandError("/debug takes show, set, unset or reset.")
            await self.settings.override(overrides)
        except ConfigError as error:
            raise CommandError(_refusal(error)) from error
        return _overridden(overrides)

    async def restart(self, _: CommandCall) -> str:
        """Answers `/restart`; its run ends before the restart."""
        if self.desk.restart is None:
            raise CommandError("This gateway cannot restart itself.")
        self.desk.restart()
        return "⚙️ The gateway restarts."

    def _show(self, path: str) -> str:
        """Returns the keys that are set, or the effective value of a path with defaults."""
        expanded = self.settings.expanded
        if not path:
            tree_in_file = {key: value for key, value in expanded.merged.items() if key != META}
            tree: Any = public(unresolved(tree_in_file, expanded.used))
            if not tree:
                return (
                    "Nothing is set. `/config show messages.queue` shows a path's effective value."
                )
        else:
            tree = redact_config(self.desk.config(), expanded.used)
            key_path = _key_path(path)
            tree = lookup(tree, key_path)
            if tree is MISSING:
                raise CommandError(f"No value is set at `{show_key_path(key_path)}`.")
        return f"```json\n{_text(tree, indent=2)}\n```"

    async def _edit(self, key_path: KeyPath, value: Any) -> str:
        def edit(before: Source, _: Expanded) -> dict[str, Any]:
            tree: dict[str, Any] = replaced(before.parsed, key_path, value)
            return tree

        remedy = by_hand({show_key_path(key_path): None if value is MISSING else value})
        applied = await self.settings.edit(edit, "/config", remedy)
        if not applied.changed:
            return f"`{show_key_path(key_path)}` is so already."
        restart = needs_restart(applied.changed)
        when = "It needs a restart." if restart else "The change is in effect."
        effect = (
            "is removed" if value is MISSING else f"is {_text(_without_secret(key_path, value))}"
        )
        return f"`{show_key_path(key_path)}` {effect}. {when}"


def _refusal(error: ConfigError) -> str:
    """Returns the reason why nothing changed: the request was wrong, not the file."""
    if isinstance(error, ConfigInvalidError):
        return " ".join(["Nothing was changed.", *map(str, error.issues)])
    return f"{error} {error.remedy}".strip()


def _refuse_start(key_path: KeyPath) -> None:
    """Refuses keys that only apply at a start, which drops the values of `/debug`.

    Raises:
        CommandError: the key only applies at a start.
    """
    if needs_restart([key_path]):
        name = show_key_path(key_path)
        raise CommandError(
            f"`{name}` takes effect only at a start, and a start drops the values set by /debug."
        )


def _without_secret(key_path: KeyPath, value: Any) -> Any:
    """Returns the value without secrets, which the last key of the path identifies."""
    name = str(key_path[-1])
    hidden: Any = redact({name: value})
    return hidden[name]


def _overridden(overrides: dict[KeyPath, Any]) -> str:
    if not overrides:
        return "Nothing is overridden."
    lines = [
        f"- `{show_key_path(key_path)}`: {_text(_without_secret(key_path, value))}"
        for key_path, value in overrides.items()
    ]
    return "\n".join(["Until the next start:", *lines])


def _assigned(text: str) -> tuple[KeyPath, Any]:
    """Returns the path and the value of `a.b=value`: JSON, else a text."""
    path, equals, value = text.partition("=")
    if not equals:
        raise CommandError("Write it as path=value: `messages.queue.mode=steer`.")
    try:
        return _key_path(path), json.loads(value)
    except ValueError:
        return _key_path(path), value.strip()


def _key_path(text: str) -> KeyPath:
    if not text.strip():
        raise CommandError("Missing path, such as messages.queue.mode.")
    return parse_key_path(text.strip())


def _text(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return (
        text
        if len(text) <= _MAX_CHARACTERS
        else f"{text[:_MAX_CHARACTERS]}\n… (pass a longer path to see less)"
    )
