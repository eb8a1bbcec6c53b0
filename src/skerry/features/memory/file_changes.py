"""Finds changed files: by checking all of them, or only those that a watch reports."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skerry.features.memory.documents import Stamp
from skerry.features.memory.folder_watch import Watch
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.markdown_files import FileScan, scan, scan_some

LINUX: Final = sys.platform == "linux"
WATCHED: Final = 500
"""Number of files from which a watch replaces the full check, which would take too long."""


@dataclass(frozen=True, slots=True)
class LookResult:
    """Files to index."""

    scan: FileScan
    only: Sequence[str] | None
    """The checked paths; None if all were checked."""


class FileChangeTracker:
    """Tracks the files of one index since they were last indexed. Not thread-safe."""

    def __init__(self) -> None:
        self._indexed: dict[str, Stamp] = {}
        self._failed: list[tuple[str, str]] = []
        self._watch = Watch()
        self._watched: MemoryPaths | None = None
        """Paths whose files were all indexed, except for the changes that the watch reports."""
        self._looked: MemoryPaths | None = None
        """Paths of the last full check."""
        self._waiting: set[str] = set()
        """Paths that the watch reported and that are not indexed yet."""

    def look(self, paths: MemoryPaths) -> LookResult | None:
        """Returns the files to index; None if nothing changed."""
        if self._indexed and paths == self._watched:
            named = self._watch.changed()
            if named is not None:
                self._waiting |= named
                some = scan_some(paths, self._waiting, self._indexed)
                if some is not None:
                    return LookResult(*some) if some[1] else None
        self._watched = None
        self._waiting = set()
        present = scan(paths)
        if len(present.stamps) < WATCHED or present.failed:
            self._watch.close()
        elif self._watch.cover(present.folders):
            present = scan(paths)  # what changed before it was watched
        self._looked = paths
        if present.stamps == self._indexed and present.failed == self._failed:
            self._watched = paths
            return None
        return LookResult(present, None)

    def record_all(self, stamps: dict[str, Stamp], failed: list[tuple[str, str]]) -> None:
        """Records that all files were indexed."""
        self._indexed, self._failed, self._waiting = stamps, failed, set()
        self._watched = self._looked  # only now: after a failure all files are checked again

    def record_some(self, paths: Sequence[str], stamps: Mapping[str, Stamp]) -> None:
        """Records that these paths were indexed; paths without a stamp were deleted."""
        for path in paths:
            if path in stamps:
                self._indexed[path] = stamps[path]
            else:
                self._indexed.pop(path, None)
        self._waiting = set()

    def forget(self) -> None:
        """Makes the next call of `look` check all files."""
        self._indexed, self._watched, self._waiting = {}, None, set()
        self._looked = None

    def close(self) -> None:
        """Ends the watch."""
        self.forget()
        self._watch.close()


class FileChangeDetector:
    """Detects that files changed, without naming them. Not thread-safe."""

    def __init__(self) -> None:
        self._watch = Watch()
        self._paths: MemoryPaths | None = None
        self._state: object = None

    def look(self, paths: MemoryPaths) -> object:
        """Returns the state of the files; it is equal if nothing changed.

        Costs 4 us per file, and almost nothing for a large watched tree without changes.
        """
        if paths == self._paths and self._watch.is_quiet():
            return self._state
        present = scan(paths)
        if len(present.stamps) < WATCHED or present.failed:
            self._watch.close()
        elif self._watch.cover(present.folders):
            present = scan(paths)  # what changed before it was watched
        self._paths, self._state = paths, (present.digest(), present.failed, present.linked)
        return self._state

    def close(self) -> None:
        """Ends the watch."""
        self._watch.close()
        self._paths = None
