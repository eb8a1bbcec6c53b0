"""Skills: folders with instructions for one kind of work, which a model reads when needed."""

from pathlib import Path
from typing import Final

from msgspec import Struct

SKILL_MD: Final = "SKILL.md"
"""File in the folder of a skill, with its front matter and its instructions."""


class Skill(Struct, frozen=True):
    """One skill, from its SKILL.md."""

    name: str
    description: str
    folder: Path
    """Absolute path without links."""
    plugin: str
    """Id of its plugin."""
    homepage: str = ""
    emoji: str = ""
    is_listed: bool = True
    """False for a skill that no prompt lists."""
    is_always: bool = False
    """True if its requirements are not checked."""
    requires: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Requirements by kind: `bins`, `anyBins`, `env`, `config`, `os`."""
    unmet: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Requirements that this machine does not meet, by kind."""

    @property
    def is_offered(self) -> bool:
        """Returns whether prompts list the skill."""
        return self.is_listed and not self.unmet

    @property
    def location(self) -> Path:
        """Returns the path of its instructions."""
        return self.folder / SKILL_MD
