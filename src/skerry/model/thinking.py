"""How much a model is to think before it answers."""

from enum import StrEnum


class ThinkingLevel(StrEnum):
    """From not at all to as much as it can; the words of OpenClaw."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
