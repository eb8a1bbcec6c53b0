"""Collections that QMD searches for an agent, and those to register again (pure)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skerry.config.memory_qmd import QmdConfig, QmdPath
from skerry.model.memory import MemorySource

DEFAULT: Final = (
    ("memory-root", "MEMORY.md"),
    ("memory-alt", "memory.md"),
    ("memory-dir", "memory/**/*.md"),
)
"""Collections of `includeDefaultMemory`. Source: seed 003, "Collections"."""
SESSIONS: Final = "sessions"
_LISTED: Final = re.compile(r"^(\S+) \(qmd://\1/\)", re.MULTILINE)
_LONGEST: Final = 64


@dataclass(frozen=True, slots=True)
class QmdCollection:
    """A folder whose files of one pattern are searched under a name."""

    name: str
    root: Path
    """Absolute, without links."""
    mask: str
    source: MemorySource = MemorySource.MEMORY


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes after which QMD has exactly the wanted collections."""

    remove: Sequence[str]
    add: Sequence[QmdCollection]


def configured(
    config: QmdConfig, workspace: Path, sessions: Path | None
) -> tuple[list[QmdCollection], list[str]]:
    """Returns the collections of an agent, and why others that are configured were refused.

    A relative path leads into the workspace and must stay there, links followed. A folder that is
    not there is refused too: QMD would not find anything, without a word. `sessions` is where
    conversations are written; None where they are not.
    """
    root = workspace.resolve()
    collections = [
        QmdCollection(name, root, mask) for name, mask in DEFAULT if config.include_default_memory
    ]
    refused = []
    for number, path in enumerate(config.paths, 1):
        try:
            collections.append(
                _custom(path, f"custom-{number}", root, {each.name for each in collections})
            )
        except ValueError as error:
            refused.append(f"memory.qmd.paths: {path.path} is not searched: {error}.")
    if config.sessions.enabled and sessions is not None:
        name = unique(SESSIONS, {each.name for each in collections})
        collections.append(QmdCollection(name, sessions.resolve(), "*.md", MemorySource.SESSIONS))
    return collections, refused


def changes(
    collections: Iterable[QmdCollection], listed: Iterable[str], record: Mapping[str, Sequence[str]]
) -> Changes:
    """Returns the changes to make.

    Whatever QMD lists and we did not register is left alone, but for a name that is wanted.

    Args:
        collections: The collections of the agent.
        listed: The names that QMD knows.
        record: With which folder and pattern we registered each.
    """
    present, by_name = set(listed), {collection.name: collection for collection in collections}
    same = {
        name
        for name, collection in by_name.items()
        if name in present and list(record.get(name, ())) == [str(collection.root), collection.mask]
    }
    stale = (present & (by_name.keys() | record.keys())) - same
    return Changes(
        sorted(stale), [collection for name, collection in by_name.items() if name not in same]
    )


def listed(text: str) -> list[str]:
    """Returns the names in what `qmd collection list` prints; it prints no JSON."""
    return _LISTED.findall(text)


def sanitised(name: str) -> str:
    """Returns the name in lower-case letters, digits and hyphens; empty where nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST].rstrip("-")


def unique(name: str, taken: set[str]) -> str:
    """Returns the name, or with `-2`, `-3` and so on behind it where it is taken."""
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}-{number}", number + 1
    return candidate


def _custom(entry: QmdPath, default: str, workspace: Path, taken: set[str]) -> QmdCollection:
    configured = Path(entry.path).expanduser()
    path = (workspace / configured).resolve()
    if not configured.is_absolute() and not path.is_relative_to(workspace):
        raise ValueError("it leads out of the workspace")
    name = unique(sanitised(entry.name or "") or default, taken | {SESSIONS})
    if path.is_dir():
        return QmdCollection(name, path, entry.pattern)
    if path.is_file() and path.suffix.lower() == ".md":
        return QmdCollection(name, path.parent, _literal(path.name))
    raise ValueError("it is neither a folder nor a Markdown file")


def _literal(name: str) -> str:
    """Returns the pattern of just this file name."""
    return re.sub(r"([\\*?\[\]{}()!@+|,])", r"\\\1", name)
