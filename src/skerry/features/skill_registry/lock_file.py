"""The lock file of installed skills: `<state>/skills/.lock.json`.

It is written before a folder is exchanged, with the entry that it replaces: after a kill at any
moment the hash of the folder tells which of the two is installed.
"""

from pathlib import Path
from typing import Final

import msgspec

from skerry.features.skill_registry.errors import SkillError
from skerry.infra.atomic import write_atomic

FILE: Final = ".lock.json"
_FORMAT: Final = 1


class LockedSkill(msgspec.Struct, frozen=True, rename="camel"):
    """One installed skill."""

    version: str
    sha256: str
    """Hash of its files (`content.content_hash`)."""
    registry: str
    """Address of the registry."""
    installed_at: int
    """Milliseconds since 1970."""
    name: str
    """Name in its front matter."""
    owner: str = ""
    """Handle of its publisher."""
    previous: "LockedSkill | None" = None
    """Entry that this one replaces; its folder may still be installed."""


class _Document(msgspec.Struct):
    version: int
    skills: dict[str, LockedSkill]


def read_lock(folder: Path) -> dict[str, LockedSkill]:
    """Returns the installed skills by slug; empty without a lock file.

    Raises:
        SkillError: the file is damaged.
    """
    path = folder / FILE
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, OSError) as error:
        raise SkillError(
            f"The list of installed skills {path} cannot be read: {error}",
            "Restore it from a backup, or remove it: the folders then count as your own.",
        ) from error
    if document.version != _FORMAT:
        raise SkillError(
            f"{path} has the format {document.version}; this program reads {_FORMAT}.",
            "Use the newer program.",
        )
    return document.skills


def write_lock(folder: Path, skills: dict[str, LockedSkill]) -> None:
    """Replaces the lock file atomically."""
    document = _Document(_FORMAT, dict(sorted(skills.items())))
    data = msgspec.json.format(msgspec.json.encode(document), indent=2)
    write_atomic(folder / FILE, data + b"\n")
