"""Result of a check of an installation."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of the result."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Check:
    """Subject of a check, its level, a message, and the remedy or an empty text."""

    name: str
    level: Level
    message: str
    remedy: str = ""
