"""Names what a file of a workspace is to the gateway, from the object as it was opened (pure)."""

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
"""Files at the top of a workspace that a prompt, a boot or a heartbeat reads, folded."""
LOADED: Final = frozenset({"hooks", "plugins", "skills"})
"""Directories at the top of a workspace from which code or instructions are loaded."""
_LONG_TERM: Final = frozenset(name.casefold() for name in LONG_TERM)


class FileKind(StrEnum):
    """Use that the gateway makes of a file by itself."""

    INSTRUCTIONS = "instructions"
    """A prompt, a boot or a heartbeat."""
    LOADED = "loaded"
    """The loader of hooks, plugins and skills."""
    MEMORY = "memory"
    """The memory, whose notes are the owner's."""
    UNVERIFIED = "unverified"
    """The memory, whose notes there nobody has confirmed."""
    PLAIN = "plain"
    """No use."""


LASTING: Final = frozenset(FileKind) - {FileKind.PLAIN}
"""Kinds that later runs read, whoever asks: the owner's to change."""


class FileSubject(Struct, frozen=True):
    """A file as it was opened, with what is recorded of it."""

    kind: FileKind
    path: str
    """Canonical and absolute."""
    closed: str = ""
    """Reason why the file is closed to tools; empty if it is not."""
    taint: frozenset[Origin] = frozenset()
    """Origins of the text that it may contain, as far as a record says so."""
    is_foreign: bool = False
    """True when the file belongs to another user of the machine than the workspace does."""


def kind_of(opened: Opened, workspaces: frozenset[Path]) -> FileKind:
    """Returns the kind of an opened file.

    Its place is told by the identities of the directories that were opened, so that a second name
    of the workspace or of `memory/` changes nothing; by names where a directory is not there yet.
    """
    kinds = {_of(names) for names in _relative_names(opened, workspaces)}
    return next((kind for kind in FileKind if kind in kinds), FileKind.PLAIN)


def _relative_names(opened: Opened, workspaces: frozenset[Path]) -> list[tuple[str, ...]]:
    """Returns the names of the file beneath each workspace that is around it."""
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
    """Returns device and inode of a directory; None where there is none."""
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
