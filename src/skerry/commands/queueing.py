"""The options of `/queue`, as a command and as a directive (pure)."""

import re
from collections.abc import Callable
from typing import Any, Final

from skerry.commands.table import CommandError
from skerry.config.messages import MAX_CAP, MAX_DEBOUNCE_MS
from skerry.model.queue import CHOICES, DropPolicy, queue_mode

_RESET: Final = {
    "queue_mode": None,
    "queue_debounce_ms": None,
    "queue_cap": None,
    "queue_drop": None,
}
_DURATION: Final = re.compile(r"(\d{1,6})(ms|s|m)?")
_FACTORS: Final = {"ms": 1, "s": 1000, "m": 60_000}
_USAGE: Final = (
    f"Write `/queue`, one of {', '.join(f'`{choice}`' for choice in CHOICES)} or `default`, and"
    " optionally `debounce:2s`, `cap:25`, `drop:old`, `drop:new` or `drop:summarize`."
)


def parse(arguments: str) -> dict[str, Any]:
    """Returns the settings that the options of `/queue` change; None resets a setting.

    Raises:
        CommandError: an option is unknown or its value is invalid.
    """
    changes: dict[str, Any] = {}
    for word in arguments.lower().split():
        name, _, value = word.partition(":")
        if word in {"default", "reset"}:
            changes |= _RESET
        elif not value:
            changes["queue_mode"] = _read(queue_mode, word)
        elif name == "debounce":
            changes["queue_debounce_ms"] = _within(_milliseconds(value), 0, MAX_DEBOUNCE_MS, word)
        elif name == "cap":
            changes["queue_cap"] = _within(_read(int, value), 1, MAX_CAP, word)
        elif name == "drop":
            changes["queue_drop"] = _read(DropPolicy, value)
        else:
            raise CommandError(f"Unknown /queue option `{word}`. {_USAGE}")
    return changes


def _read(reader: Callable[[str], Any], word: str) -> Any:
    try:
        return reader(word)
    except ValueError:
        raise CommandError(f"Unknown /queue option `{word}`. {_USAGE}") from None


def _milliseconds(text: str) -> int:
    duration = _DURATION.fullmatch(text)
    if duration is None:
        raise CommandError(f"Invalid time `{text}`: write `500ms`, `2s` or `1m`.")
    return int(duration[1]) * _FACTORS[duration[2] or "ms"]


def _within(number: int, minimum: int, maximum: int, word: str) -> int:
    if not minimum <= number <= maximum:
        raise CommandError(f"Invalid value `{word}`: it must be from {minimum} to {maximum}.")
    return number
