"""`/queue` and `/stop`: what becomes of messages that come during a run. Both work during one."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from skerry.app.dispatch import Dispatch
from skerry.commands.table import Command, CommandCall, CommandError
from skerry.config.messages import MAX_CAP, MAX_DEBOUNCE_MS
from skerry.config.root import Config
from skerry.model.queue import CHOICES, DropPolicy, queue_mode
from skerry.model.session import SessionSettings
from skerry.store import Reader, Store, Unit, archive, sessions

STOPPED_BY: Final = "stop"
_TAKEN_BACK: Final = {
    "queue_mode": None,
    "queue_debounce_ms": None,
    "queue_cap": None,
    "queue_drop": None,
}
_DURATION: Final = re.compile(r"(\d{1,6})(ms|s|m)?")
_FACTORS: Final = {"ms": 1, "s": 1000, "m": 60_000}
_USAGE: Final = (
    f"Write `/queue`, one of {', '.join(f'`{one}`' for one in CHOICES)} or `default`, and where you"
    " like `debounce:2s`, `cap:25`, `drop:old`, `drop:new` or `drop:summarize`."
)


@dataclass(slots=True)
class Desk:
    """What the commands ask; the dispatcher is made after them."""

    config: Callable[[], Config]
    dispatch: Dispatch | None = None

    @property
    def dispatcher(self) -> Dispatch:
        """Return the dispatcher.

        Raises:
            CommandError: the gateway has not started.
        """
        if self.dispatch is None:
            raise CommandError("The gateway is still starting.")
        return self.dispatch


def queue_commands(store: Store, desk: Desk) -> tuple[Command, ...]:
    """Return `/queue` and `/stop`."""

    async def queue(call: CommandCall) -> str:
        changes = parse(call.arguments)
        if changes:
            settings = await store.write(lambda unit: _change(unit, str(call.key), changes))
        else:
            settings = await store.read(lambda reader: _settings(reader, str(call.key)))
        rules = desk.config().messages.queue.rules(call.channel, settings)
        found = {one.key: one for one in desk.dispatcher.queue().sessions}.get(str(call.key))
        waiting = found.waiting if found else 0
        return (
            f"Queue: `{rules.mode}`, debounce {rules.debounce_ms} ms, cap {rules.cap}, drop"
            f" `{rules.drop}`. {waiting} waiting."
        )

    async def stop(call: CommandCall) -> str:
        if call.run_id is None:
            raise CommandError("There is nothing to stop here.")
        stopped = desk.dispatcher.stop(call.key, call.run_id, STOPPED_BY)
        if not stopped:
            return "Nothing is running."
        others = f" {len(stopped) - 1} waiting cleared." if len(stopped) > 1 else ""
        return f"⚙️ Agent was aborted.{others}"

    return (
        Command(
            "queue",
            "says or sets what a message does during a run",
            queue,
            accepts_arguments=True,
            at_once=True,
        ),
        Command(
            "stop",
            "stops the run and clears what waits",
            stop,
            owner_only=False,
            at_once=True,
        ),
    )


def parse(arguments: str) -> dict[str, Any]:
    """Return the settings that the words of `/queue` change; None takes one back.

    Raises:
        CommandError: a word means nothing; the message says what does.
    """
    changes: dict[str, Any] = {}
    for word in arguments.lower().split():
        name, _, value = word.partition(":")
        if word in {"default", "reset"}:
            changes |= _TAKEN_BACK
        elif not value:
            changes["queue_mode"] = _read(queue_mode, word)
        elif name == "debounce":
            changes["queue_debounce_ms"] = _within(_milliseconds(value), 0, MAX_DEBOUNCE_MS, word)
        elif name == "cap":
            changes["queue_cap"] = _within(_read(int, value), 1, MAX_CAP, word)
        elif name == "drop":
            changes["queue_drop"] = _read(DropPolicy, value)
        else:
            raise CommandError(f"`{word}` is nothing that /queue knows. {_USAGE}")
    return changes


def _read(reader: Callable[[str], Any], word: str) -> Any:
    try:
        return reader(word)
    except ValueError:
        raise CommandError(f"`{word}` is nothing that /queue knows. {_USAGE}") from None


def _milliseconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise CommandError(f"`{text}` is no time: write `500ms`, `2s` or `1m`.")
    return int(found[1]) * _FACTORS[found[2] or "ms"]


def _within(number: int, least: int, most: int, word: str) -> int:
    if not least <= number <= most:
        raise CommandError(f"`{word}` is outside {least} to {most}.")
    return number


def _settings(reader: Reader, key: str) -> SessionSettings:
    found = sessions.find(reader, key)
    return found.settings if found else SessionSettings()


def _change(unit: Unit, key: str, changes: dict[str, Any]) -> SessionSettings:
    """Write what holds for the key's present session, which this command's run has made."""
    found = sessions.find(unit, key)
    if found is None:
        return SessionSettings()
    settings = msgspec.structs.replace(found.settings, **changes)
    archive.change(unit, found.session_id, label=found.label, settings=settings)
    return settings
