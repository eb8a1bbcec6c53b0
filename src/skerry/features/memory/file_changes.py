"""Looks what changed in the files: at all of them, or where a watch is kept at what it names."""

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
"""Files from which on a look takes so long that a watch is kept instead."""


@dataclass(frozen=True, slots=True)
class LookResult:
    """Files to index."""

    scan: FileScan
    only: Sequence[str] | None
    """The paths that were looked at; None is all."""


class Lookout:
    """The files of one index as they were when they were last brought in. For one thread."""

    def __init__(self) -> None:
        self._seen: dict[str, Stamp] = {}
        self._failed: list[tuple[str, str]] = []
        self._watch = Watch()
        self._watched: MemoryPaths | None = None
        """Places whose files were all indexed, except for the changes that the watch reports."""
        self._looked: MemoryPaths | None = None
        """Places of the last full check."""
        self._waiting: set[str] = set()
        """Paths that the watch named and that are not brought in yet."""

    def look(self, paths: MemoryPaths) -> LookResult | None:
        """Returns the files to index; None if nothing changed."""
        if self._seen and paths == self._watched:
            named = self._watch.changed()
            if named is not None:
                self._waiting |= named
                some = scan_some(paths, self._waiting, self._seen)
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
        if present.stamps == self._seen and present.failed == self._failed:
            self._watched = paths
            return None
        return LookResult(present, None)

    def seen_all(self, stamps: dict[str, Stamp], failed: list[tuple[str, str]]) -> None:
        """Notes that all was brought in."""
        self._seen, self._failed, self._waiting = stamps, failed, set()
        self._watched = self._looked  # only now: what fails to be brought in is looked at again

    def seen_some(self, paths: Sequence[str], stamps: Mapping[str, Stamp]) -> None:
        """Notes that these paths were brought in; those without a stamp are gone."""
        for path in paths:
            if path in stamps:
                self._seen[path] = stamps[path]
            else:
                self._seen.pop(path, None)
        self._waiting = set()

    def forget(self) -> None:
        """Looks at all the next time."""
        self._seen, self._watched, self._waiting = {}, None, set()
        self._looked = None

    def close(self) -> None:
        """Watches nothing."""
        self.forget()
        self._watch.close()


class Glance:
    """Tells whether files changed, for whoever does not want to know which. For one thread."""

    def __init__(self) -> None:
        self._watch = Watch()
        self._places: MemoryPaths | None = None
        self._seen: object = None

    def look(self, paths: MemoryPaths) -> object:
        """Returns the state of the files, equal where nothing changed.

        Costs 4 us a file, and hardly anything where a large tree is watched and at rest.
        """
        if paths == self._places and self._watch.is_quiet():
            return self._seen
        present = scan(paths)
        if len(present.stamps) < WATCHED or present.failed:
            self._watch.close()
        elif self._watch.cover(present.folders):
            present = scan(paths)  # what changed before it was watched
        self._places, self._seen = paths, (present.digest(), present.failed, present.linked)
        return self._seen

    def close(self) -> None:
        """Watches nothing."""
        self._watch.close()
        self._places = None
