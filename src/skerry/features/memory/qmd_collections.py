"""Collections that QMD searches for an agent, and the changes to register (pure)."""

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
_MAX_NAME_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class QmdCollection:
    """A named folder; the files that match the pattern are searched."""

    name: str
    root: Path
    """Absolute path without links."""
    mask: str
    source: MemorySource = MemorySource.MEMORY


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes that make QMD's collections those of the agent."""

    remove: Sequence[str]
    add: Sequence[QmdCollection]


def configured(
    config: QmdConfig, workspace: Path, sessions: Path | None
) -> tuple[list[QmdCollection], list[str]]:
    """Returns the collections of an agent, and the reasons why configured ones were refused.

    A relative path must stay in the workspace after resolving links. A missing folder is refused,
    because QMD would silently find nothing. `sessions` is the folder of the exported
    conversations; None if there are none.
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

    Collections that Skerry did not register are kept, unless the agent needs their names.

    Args:
        collections: The collections of the agent.
        listed: The names that QMD lists.
        record: Folder and pattern with which Skerry registered each collection.
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
    """Parses the names from the text output of `qmd collection list`."""
    return _LISTED.findall(text)


def sanitised(name: str) -> str:
    """Returns the name in lower-case letters, digits and hyphens; "" if it has none of them."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_MAX_NAME_CHARS].rstrip("-")


def unique(name: str, used: set[str]) -> str:
    """Returns the name, with a suffix `-2`, `-3` and so on if it is in use."""
    candidate, number = name, 2
    while candidate in used:
        candidate, number = f"{name}-{number}", number + 1
    return candidate


def _custom(entry: QmdPath, default: str, workspace: Path, used: set[str]) -> QmdCollection:
    configured = Path(entry.path).expanduser()
    path = (workspace / configured).resolve()
    if not configured.is_absolute() and not path.is_relative_to(workspace):
        raise ValueError("the path is outside the workspace")
    name = unique(sanitised(entry.name or "") or default, used | {SESSIONS})
    if path.is_dir():
        return QmdCollection(name, path, entry.pattern)
    if path.is_file() and path.suffix.lower() == ".md":
        return QmdCollection(name, path.parent, _literal(path.name))
    raise ValueError("the path is neither a folder nor a Markdown file")


def _literal(name: str) -> str:
    """Returns the pattern that matches only this file name."""
    return re.sub(r"([\\*?\[\]{}()!@+|,])", r"\\\1", name)
