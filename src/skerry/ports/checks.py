"""What a check of an installation says."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what was found, and what to do."""

    name: str
    level: Level
    message: str
    remedy: str = ""
