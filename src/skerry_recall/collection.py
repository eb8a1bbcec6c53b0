"""A searchable collection of passages in a folder."""

import json
import logging
import secrets
import threading
from collections.abc import Collection as Numbers
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from skerry_recall.arrays import DamagedError, load, on_disk, replace_file, save, verify
from skerry_recall.numbers import Floats
from skerry_recall.passage import Passage
from skerry_recall.postings import Postings, build
from skerry_recall.scores import Scores
from skerry_recall.segments import Removed, SegmentChange, SegmentParts, changed, compacted, purged
from skerry_recall.snapshot import Snapshot, snapshot
from skerry_recall.terms import shared
from skerry_recall.vectors import SizeError, VectorStore

logger: Final = logging.getLogger(__name__)

_FORMAT: Final = 2
"""Format of the files and of the terms in them; a folder of another format is rebuilt."""
_MANIFEST: Final = "collection.json"
_KINDS: Final = {
    "words": Postings,
    "recent_words": Postings,
    "removed": Removed,
    "vectors": VectorStore,
    "recent_vectors": VectorStore,
}
"""The parts; each has a file."""


class Collection:
    """Passages with their terms and vectors; the folder contains derived data only.

    It maps its files at first use. Missing and damaged data is treated as absent: `ids` and
    `embedded` return the remaining passages, and the caller adds the others again. Threads search
    the state before a change or after it, never between. One process writes a folder at a time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._state: _State | None = None

    def ids(self) -> frozenset[int]:
        """Returns the ids of its passages."""
        return frozenset(self._opened().snapshot.id.tolist())

    def embedded(self) -> frozenset[int]:
        """Returns the ids of the passages that have a vector."""
        snapshot = self._opened().snapshot
        ids = np.concatenate([vector.id for vector in snapshot.vectors])
        return frozenset(ids.tolist()) & frozenset(snapshot.id.tolist())

    @property
    def model(self) -> str:
        """Returns the model of the vectors; empty without any."""
        return self._opened().parts.model

    @property
    def stamp(self) -> str:
        """Returns the stamp of the last `refresh` or `mark`; empty for none."""
        return self._opened().stamp

    def refresh(
        self,
        *,
        added: Iterable[Passage] = (),
        removed: Iterable[int] = (),
        vectors: Mapping[int, Floats] | None = None,
        model: str | None = None,
        stamp: str = "",
    ) -> None:
        """Removes and adds passages, and sets vectors of passages, as one change.

        A passage with an existing id replaces the old one and keeps its vector. Vectors are scaled
        to length 1. A new `model` drops the vectors of the old one. `stamp` names the new state. A
        thousand passages at once take hardly longer than one: each change writes the small part,
        all passages since the last large change.

        Raises:
            ValueError: there are too many passages, a repeated id, or vectors of another size, of
                length 0 or not finite; nothing is changed.
            OSError: the folder cannot be written; nothing is changed.
        """
        with self._lock:
            state = self._state or self._load()
            new = build(added, shared())
            removed_ids = np.fromiter(removed, np.int64)
            parts = changed(state.parts, SegmentChange(new, removed_ids, vectors or {}, model))
            self._state = self._write(state, parts, stamp)

    def mark(self, stamp: str) -> None:
        """Sets the stamp of the present state.

        Raises:
            OSError: the folder cannot be written; nothing is changed.
        """
        with self._lock:
            state = self._state or self._load()
            if state.stamp != stamp and state.files:
                self._name(state.parts, state.files, stamp)
                state.stamp = stamp
            self._state = state

    def compact(self) -> None:
        """Rewrites all files into one large part, so that they contain no removed passage.

        Raises:
            OSError: the folder cannot be written; nothing is changed.
        """
        with self._lock:
            state = self._state or self._load()
            self._state = self._write(state, compacted(state.parts), state.stamp)

    def purge(self) -> None:
        """Rewrites only the files that contain removed passages.

        Raises:
            OSError: the folder cannot be written; nothing is changed.
        """
        with self._lock:
            state = self._state or self._load()
            self._state = self._write(state, purged(state.parts), state.stamp)

    def scores(
        self,
        terms: Mapping[str, float],
        vector: Floats | None = None,
        *,
        documents: Numbers[int] | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> Scores:
        """Returns the scores of each passage for the weighted terms and the vector of a question.

        The mask of the result limits hits to these documents, and to dates from `since` to before
        `until` in ms since 1970; a passage without a date is in no such range.

        Raises:
            SizeError: the vector has another size than those of the collection.
            DamagedError: a file is damaged; the collection is empty now, see `ids`.
        """
        state = self._opened()
        try:
            return state.snapshot.scores(
                terms, vector, documents=documents, since=since, until=until
            )
        except SizeError:
            raise
        except (IndexError, ValueError, OSError) as error:
            with self._lock:
                if self._state is state:
                    self._state = _State(SegmentParts())
            raise DamagedError("an index file is damaged") from error

    def _opened(self) -> "_State":
        state = self._state
        if state is None:
            with self._lock:
                state = self._state = self._state or self._load()
        return state

    def _load(self) -> "_State":
        try:
            return _verified(self._folder)
        except FileNotFoundError:
            return _State(SegmentParts())
        except (OSError, ValueError, LookupError, TypeError):
            logger.warning("the index in %s is damaged and is rebuilt", self._folder, exc_info=True)
            return _State(SegmentParts())

    def _write(self, state: "_State", parts: SegmentParts, stamp: str) -> "_State":
        """Writes the parts that differ from the state, then the manifest; returns the new state."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files: dict[str, str] = {}
        for name in _KINDS:
            new = getattr(parts, name)
            if name in state.files and getattr(state.parts, name) is new:
                files[name] = state.files[name]
            else:
                files[name] = f"{name}-{secrets.token_hex(8)}.idx"
                save(self._folder / files[name], new.arrays())
        self._name(parts, files, stamp)
        loaded = _loaded(self._folder)
        for path in self._folder.glob("*.idx*"):
            if path.name not in files.values():
                path.unlink(missing_ok=True)
        return loaded

    def _name(self, parts: SegmentParts, files: Mapping[str, str], stamp: str) -> None:
        manifest = {"format": _FORMAT, "model": parts.model, "files": files, "stamp": stamp}
        replace_file(self._folder / _MANIFEST, json.dumps(manifest).encode())


def _verified(folder: Path) -> "_State":
    """Loads the folder and verifies its checksums; raises as `_loaded`.

    The exact vectors, most of the data, are not verified: damage in them affects only the order of
    near passages.
    """
    loaded = _loaded(folder)
    for name in loaded.files.values():
        verify(folder / name, but="exact")
    return loaded


class _State:
    """Files of a collection, and their searchable form."""

    def __init__(
        self, parts: SegmentParts, files: Mapping[str, str] | None = None, stamp: str = ""
    ) -> None:
        self.parts = parts
        self.files = files or {}
        self.stamp = stamp
        self.snapshot: Snapshot = snapshot(parts)


def _loaded(folder: Path) -> _State:
    """Loads the folder.

    Raises:
        FileNotFoundError: the manifest is missing, or a file in it.
        OSError, ValueError, LookupError, TypeError: the folder is damaged, or of another format.
    """
    manifest = json.loads((folder / _MANIFEST).read_bytes())
    if manifest["format"] != _FORMAT:
        raise DamagedError(f"the format is {manifest['format']}, not {_FORMAT}")
    files = manifest["files"]
    parts = {name: kind(**load(folder / files[name])) for name, kind in _KINDS.items()}
    vectors = parts["vectors"]
    if isinstance(vectors, VectorStore) and len(vectors.bits):
        exact = on_disk(folder / files["vectors"], "exact")
        parts["vectors"] = replace(vectors, exact=exact)
    return _State(SegmentParts(**parts, model=manifest["model"]), files, manifest.get("stamp", ""))
