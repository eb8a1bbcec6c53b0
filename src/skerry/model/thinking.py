"""Reasoning effort of a model."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final


class ThinkingLevel(StrEnum):
    """Reasoning effort from none to the maximum; the values are those of OpenClaw."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


LEVELS: Final = tuple(ThinkingLevel)
"""Levels from the weakest to the strongest."""


def nearest(requested: ThinkingLevel, levels: Collection[ThinkingLevel]) -> ThinkingLevel:
    """Returns the highest of `levels` that is not above `requested`, else the lowest of them.

    Without levels it returns `off`.
    """
    present = [level for level in LEVELS if level in levels]
    below = [level for level in present if LEVELS.index(level) <= LEVELS.index(requested)]
    return (below[-1:] or present[:1] or [ThinkingLevel.OFF])[0]


_OTHER_WORDS: Final = {
    "none": ThinkingLevel.OFF,
    "min": ThinkingLevel.MINIMAL,
    "on": ThinkingLevel.LOW,
    "mid": ThinkingLevel.MEDIUM,
    "med": ThinkingLevel.MEDIUM,
    "highest": ThinkingLevel.HIGH,
    "max": ThinkingLevel.XHIGH,
    "x-high": ThinkingLevel.XHIGH,
}


def thinking_level(text: str) -> ThinkingLevel:
    """Returns the level with this name, ignoring case.

    Raises:
        ValueError: there is no such level; the message lists the levels.
    """
    word = text.strip().lower()
    try:
        return _OTHER_WORDS.get(word) or ThinkingLevel(word)
    except ValueError:
        levels = ", ".join(ThinkingLevel)
        message = f"{text!r} is not a thinking level; levels: {levels}"
        raise ValueError(message) from None
