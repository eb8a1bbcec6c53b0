"""Classifies files of a workspace by the gateway's use of them, from the opened object (pure)."""

import unicodedata
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.infra.rooted_fs import Opened
from skerry.model.memory import FOLDER, LONG_TERM, UNVERIFIED
from skerry.model.origin import Origin

INSTRUCTIONS: Final = frozenset(
    {
        "agents.md",
        "boot.md",
        "bootstrap.md",
        "heartbeat.md",
        "identity.md",
        "soul.md",
        "tools.md",
        "user.md",
    }
)
"""Files at the top of a workspace that a prompt, a boot or a heartbeat reads, in folded case."""
LOADED: Final = frozenset({"hooks", "plugins", "skills"})
"""Directories at the top of a workspace from which code or instructions are loaded."""
_LONG_TERM: Final = frozenset(name.casefold() for name in LONG_TERM)


class FileKind(StrEnum):
    """Use of a file by the gateway."""

    INSTRUCTIONS = "instructions"
    """Read by a prompt, a boot or a heartbeat."""
    LOADED = "loaded"
    """Loaded as a hook, a plugin or a skill."""
    MEMORY = "memory"
    """Memory with notes of the owner."""
    UNVERIFIED = "unverified"
    """Memory with notes that the owner has not confirmed."""
    PLAIN = "plain"
    """Not used by the gateway."""


LASTING: Final = frozenset(FileKind) - {FileKind.PLAIN}
"""Kinds that later runs read for any actor; only the owner may change them."""


class FileSubject(Struct, frozen=True):
    """A file as it was opened, and its record."""

    kind: FileKind
    path: str
    """Canonical absolute path."""
    closed: str = ""
    """Reason why the file is closed to tools; empty if it is not."""
    taint: frozenset[Origin] = frozenset()
    """Recorded origins of the text that it may contain."""
    is_foreign: bool = False
    """True if the file does not belong to the user of the machine who owns the workspace."""


def kind_of(opened: Opened, workspaces: frozenset[Path]) -> FileKind:
    """Returns the kind of an opened file.

    Its folder is recognised by device and inode of the opened directories, so that a second name of
    the workspace or of `memory/` has no effect; by names if a directory does not exist yet.
    """
    kinds = {_of(names) for names in _relative_names(opened, workspaces)}
    return next((kind for kind in FileKind if kind in kinds), FileKind.PLAIN)


def _relative_names(opened: Opened, workspaces: frozenset[Path]) -> list[tuple[str, ...]]:
    """Returns the path of the file relative to each workspace that contains it."""
    names = opened.path.parts
    steps = [
        names[len(root.parts) :] for root in workspaces if names[: len(root.parts)] == root.parts
    ]
    roots = [(root, root_id) for root in workspaces if (root_id := identity(root)) is not None]
    for root, mark in roots:
        names_by_folder = {mark: (), identity(root / FOLDER): (FOLDER,)}
        for index, folder in enumerate(opened.folders):
            if folder in names_by_folder:
                below = names[len(names) - (len(opened.folders) - index) :]
                steps.append((*names_by_folder[folder], *below))
    return steps


def identity(path: Path) -> tuple[int, int] | None:
    """Returns device and inode of a directory; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _of(names: tuple[str, ...]) -> FileKind:
    folded = tuple(unicodedata.normalize("NFKC", name).casefold() for name in names)
    if not folded:
        return FileKind.PLAIN
    if len(folded) == 1:
        if folded[0] in INSTRUCTIONS:
            return FileKind.INSTRUCTIONS
        return FileKind.MEMORY if folded[0] in _LONG_TERM else FileKind.PLAIN
    if folded[0] in LOADED:
        return FileKind.LOADED
    if folded[0] != FOLDER or not folded[-1].endswith(".md"):
        return FileKind.PLAIN
    return FileKind.UNVERIFIED if folded[1] == UNVERIFIED else FileKind.MEMORY
