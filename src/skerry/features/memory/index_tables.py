"""Every SQL statement of the index, except those about vectors."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from skerry.features.memory.document_rows import as_json, chunk, columns, passage
from skerry.features.memory.documents import Document, DocumentPassage, Resume, Stamp
from skerry.features.memory.vector_rows import VectorRows
from skerry.model.memory import MemorySource
from skerry_recall.passage import Passage

LINKS: Final = "links"
"""Key in `meta` of the links that are not followed."""
SCANNED: Final = "scanned"
"""Key in `meta` of the digest of the indexed files; a trigger deletes it when a row of a file
changes."""
ENCODINGS: Final = "encodings"
"""Key in `meta` of the files that are not UTF-8, with their encodings."""
_SELECT_DOCUMENT: Final = (
    "SELECT id, path, hash, size, mtime, ctime, settled, chunk_count, at, error, session,"
    " block, block_place, block_line FROM files"
)
_PASSAGES: Final = (
    "SELECT id, file_id, place, content, start_line, end_line, at FROM chunks"
    " WHERE ? IS NULL OR id IN (SELECT value FROM json_each(?)) ORDER BY file_id, place"
)


class IndexedDocument(Struct, frozen=True, gc=False):
    """A row of `files`."""

    id: int
    path: str
    hash: str
    stamp: Stamp
    chunks: int
    at: int | None = None
    error: str | None = None
    session: str | None = None
    resume: Resume | None = None


@dataclass(slots=True)
class IndexChange:
    """Passages added and removed by a write."""

    added: list[Passage] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)

    def join(self, change: "IndexChange") -> None:
        """Merges the change of a later write into this one."""
        removed_ids = set(change.removed)
        self.removed += change.removed
        remaining = [passage for passage in self.added if passage.id not in removed_ids]
        self.added = remaining + change.added

    def __bool__(self) -> bool:
        """Returns whether anything changed."""
        return bool(self.added or self.removed)


@dataclass(frozen=True, slots=True)
class Row:
    """A passage with its path, source and session, for an answer."""

    passage: Passage
    path: str
    source: MemorySource
    session: str | None


def _documents(rows: Iterable[tuple[Any, ...]]) -> dict[str, IndexedDocument]:
    return {path: _document(key, path, *columns) for key, path, *columns in rows}


def _document(*row: Any) -> IndexedDocument:
    key, path, sha, size, mtime, ctime, settled, count, at, error, session, *end = row
    stamp = Stamp(size, mtime, ctime, bool(settled))
    resume = None if end[0] is None else Resume(*end)
    return IndexedDocument(key, path, sha, stamp, count, at, error, session, resume)


class Tables(VectorRows):
    """The tables of one connection. The caller begins and ends the transaction."""

    __slots__ = ()

    # meta

    def meta(self, key: str) -> str | None:
        """Returns the value of a key of `meta`; None if it is not set."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def note(self, key: str, value: str) -> None:
        """Sets a key of `meta`."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def drop_note(self, key: str) -> None:
        """Deletes a key of `meta`."""
        self._db.execute("DELETE FROM meta WHERE key = ?", (key,))

    def note_links(self, links: Sequence[tuple[str, str]]) -> None:
        """Stores the links that are not followed, each with the remedy."""
        self.note(LINKS, json.dumps(list(links)))

    def note_encodings(self, encodings: Mapping[str, str]) -> None:
        """Stores the encodings of files that were read; pass UTF-8 for deleted files."""
        before = self.encodings()
        now = {
            path: encoding
            for path, encoding in {**before, **encodings}.items()
            if encoding != "UTF-8"
        }
        if now != before:
            self.note(ENCODINGS, json.dumps(now))

    def encodings(self) -> dict[str, str]:
        """Returns the encodings of files that are not UTF-8, by path."""
        encodings: dict[str, str] = json.loads(self.meta(ENCODINGS) or "{}")
        return encodings

    # files

    def documents_of(self, source: MemorySource) -> dict[str, IndexedDocument]:
        """Returns the files of a source by path."""
        return _documents(self._db.execute(f"{_SELECT_DOCUMENT} WHERE source = ?", (source.value,)))

    def documents_at(self, paths: Iterable[str]) -> dict[str, IndexedDocument]:
        """Returns the indexed files at these paths."""
        condition = "WHERE path IN (SELECT value FROM json_each(?)) AND source = ?"
        parameters = (json.dumps(list(paths)), MemorySource.MEMORY.value)
        return _documents(self._db.execute(f"{_SELECT_DOCUMENT} {condition}", parameters))

    def documents_with(self, ids: Iterable[int]) -> list[IndexedDocument]:
        """Returns the files and conversations with these row numbers."""
        condition = "WHERE id IN (SELECT value FROM json_each(?))"
        rows = self._db.execute(f"{_SELECT_DOCUMENT} {condition}", (as_json(ids),))
        return list(_documents(rows).values())

    def add(self, documents: Sequence[tuple[Document, Sequence[DocumentPassage]]]) -> IndexChange:
        """Adds documents with new paths."""
        first = self._next("files")
        number = self._next("chunks")
        change = IndexChange()
        files: list[tuple[object, ...]] = []
        chunks: list[tuple[object, ...]] = []
        for key, (document, parts) in enumerate(documents, first):
            files.append((key, *columns(document), len(parts)))
            for part in parts:
                change.added.append(passage(number, key, part))
                chunks.append(chunk(number, key, document, part))
                number += 1
        self._db.executemany(
            "INSERT INTO files (id, path, source, hash, size, mtime, ctime, settled, at, session,"
            " chunk_count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            files,
        )
        self._insert(chunks)
        return change

    def update(
        self,
        row: IndexedDocument,
        document: Document,
        parts: Sequence[DocumentPassage],
        first: int = 0,
    ) -> IndexChange:
        """Rewrites a document from its passage number `first` on.

        Unchanged passages at the same position keep their row numbers.
        """
        rows = self._db.execute(
            "SELECT id, place, hash, start_line, end_line, at FROM chunks"
            " WHERE file_id = ? AND place >= ?",
            (row.id, first),
        ).fetchall()
        old = {row[1:]: row[0] for row in rows}
        fresh = [
            part
            for part in parts
            if old.pop((part.position, part.hash, part.start_line, part.end_line, part.at), None)
            is None
        ]
        change = IndexChange(removed=list(old.values()))
        self._delete(change.removed)
        number = self._next("chunks")
        chunks = []
        for id_, part in enumerate(fresh, number):
            change.added.append(passage(id_, row.id, part))
            chunks.append(chunk(id_, row.id, document, part))
        self._insert(chunks)
        self._db.execute(
            "UPDATE files SET path = ?, source = ?, hash = ?, size = ?, mtime = ?, ctime = ?,"
            " settled = ?, at = ?, session = ?, chunk_count = ?, error = NULL WHERE id = ?",
            (*columns(document), first + len(parts), row.id),
        )
        return change

    def note_resume(self, path: str, resume: Resume) -> None:
        """Stores the position from which a conversation is read when it has grown."""
        self._db.execute(
            "UPDATE files SET block = ?, block_place = ?, block_line = ? WHERE path = ?",
            (resume.block, resume.position, resume.line, path),
        )

    def touch(self, row: IndexedDocument, stamp: Stamp) -> None:
        """Stores the stamp of a file that was written without a change of its text."""
        self._db.execute(
            "UPDATE files SET size = ?, mtime = ?, ctime = ?, settled = ? WHERE id = ?",
            (stamp.size, stamp.mtime, stamp.ctime, stamp.settled, row.id),
        )

    def move(self, row: IndexedDocument, path: str, stamp: Stamp) -> None:
        """Gives a file that was moved its new path; its passages stay."""
        self._db.execute("UPDATE files SET path = ? WHERE id = ?", (path, row.id))
        self._db.execute("UPDATE chunks SET path = ? WHERE file_id = ?", (path, row.id))
        self.touch(row, stamp)

    def fail(
        self, path: str, source: MemorySource, stamp: Stamp, error: str, row: IndexedDocument | None
    ) -> IndexChange:
        """Records that a file cannot be read, and removes its passages."""
        change = self.remove([row]) if row is not None else IndexChange()
        self._db.execute(
            "INSERT INTO files (path, source, hash, size, mtime, ctime, settled, error)"
            " VALUES (?, ?, '', ?, ?, ?, ?, ?)",
            (path, source.value, stamp.size, stamp.mtime, stamp.ctime, stamp.settled, error),
        )
        return change

    def remove(self, files: Iterable[IndexedDocument]) -> IndexChange:
        """Removes files with their passages and vectors."""
        change = IndexChange()
        keys = [(file.id,) for file in files]
        for key in keys:
            rows = self._db.execute("SELECT id FROM chunks WHERE file_id = ?", key)
            change.removed += [number for (number,) in rows.fetchall()]
        self._delete(change.removed)
        self._db.executemany("DELETE FROM files WHERE id = ?", keys)
        return change

    def failed(self) -> list[tuple[str, str]]:
        """Returns the files that could not be read, and links, with the reasons."""
        links: list[list[str]] = json.loads(self.meta(LINKS) or "[]")
        return [*self.failed_files(), *((path, reason) for path, reason in links)]

    def failed_files(self) -> list[tuple[str, str]]:
        """Returns the files that could not be read, with the reasons."""
        return self._db.execute(
            "SELECT path, error FROM files WHERE error IS NOT NULL ORDER BY path"
        ).fetchall()

    def counts(self) -> list[tuple[str, int, int]]:
        """Returns each source with its numbers of files and passages."""
        return self._db.execute(
            "SELECT source, count(*), sum(chunk_count) FROM files WHERE error IS NULL"
            " GROUP BY source ORDER BY source"
        ).fetchall()

    def sessions(self) -> list[str]:
        """Returns the keys of the conversations."""
        rows = self._db.execute(
            "SELECT DISTINCT session FROM files WHERE source = ? AND session IS NOT NULL",
            (MemorySource.SESSIONS.value,),
        )
        return [key for (key,) in rows]

    def documents(
        self,
        sources: Iterable[MemorySource],
        path: str | None,
        session: str | None,
        sessions: Iterable[str] | None = None,
    ) -> set[int]:
        """Returns the row numbers of the files to search; `path` ends with `/` for a folder.

        `session` and `sessions` limit the conversations.
        """
        # With a path, the index on `path` is the best; the plus keeps SQLite from using another.
        among = "source IN (SELECT value FROM json_each(?))"
        conditions = [among if path is None else f"+{among}"]
        parameters: list[object] = [json.dumps([source.value for source in sources])]
        if path is not None and path.endswith("/"):
            conditions.append("path >= ? AND path < ?")  # a range of its index
            parameters += [path, f"{path[:-1]}{chr(ord('/') + 1)}"]
        elif path is not None:
            conditions.append("path = ?")
            parameters.append(path)
        if session is not None:
            conditions.append("session = ?")
            parameters.append(session)
        if sessions is not None:
            conditions.append("(source <> ? OR session IN (SELECT value FROM json_each(?)))")
            parameters += [MemorySource.SESSIONS.value, json.dumps(list(sessions))]
        query = f"SELECT id FROM files WHERE {' AND '.join(conditions)}"  # noqa: S608 - built from constants
        rows = self._db.execute(query, parameters)
        return {key for (key,) in rows}

    # passages

    def ids(self) -> set[int]:
        """Returns the number of every passage."""
        return {key for (key,) in self._db.execute("SELECT id FROM chunks")}

    def passages(self, ids: Iterable[int] | None = None) -> Iterator[Passage]:
        """Yields the passages with these ids, or all, in the order of their documents."""
        among = None if ids is None else as_json(ids)
        for row in self._db.execute(_PASSAGES, (among, among)):
            yield Passage(*row)

    def suspects(self, needles: Iterable[str]) -> Iterator[tuple[int, int, str]]:
        """Yields number, document and text of passages that may contain one of the words.

        SQLite compares ASCII passages, ignoring case; all other passages are yielded.
        """
        plain = [needle for needle in needles if needle.isascii()]
        like = " OR ".join(["instr(lower(content), ?)"] * len(plain)) or "0"
        yield from self._db.execute(
            "SELECT id, file_id, content FROM chunks"  # noqa: S608 - built from constants
            f" WHERE {like} OR length(content) <> length(CAST(content AS BLOB))",
            [word.lower() for word in plain],
        )

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Returns the texts of passages by number, without deleted ones."""
        rows = self._db.execute(
            "SELECT id, content FROM chunks WHERE id IN (SELECT value FROM json_each(?))",
            (as_json(ids),),
        )
        return dict(rows.fetchall())

    def rows(self, ids: Iterable[int]) -> dict[int, Row]:
        """Returns passages by number with their paths, without deleted ones."""
        rows = self._db.execute(
            "SELECT c.id, file_id, place, content, start_line, end_line, c.at, c.path, c.source,"
            " session FROM chunks c JOIN files f ON f.id = file_id"
            " WHERE c.id IN (SELECT value FROM json_each(?))",
            (as_json(ids),),
        )
        return {
            row[0]: Row(Passage(*row[:7]), row[7], MemorySource(row[8]), row[9]) for row in rows
        }

    def matching(self, expression: str, limit: int) -> list[int]:
        """Returns the passages that match an expression of FTS5, the best first."""
        rows = self._db.execute(
            "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank, rowid LIMIT ?",
            (expression, limit),
        )
        return [key for (key,) in rows]

    def merge_text(self) -> None:
        """Rewrites the full-text index without deleted entries."""
        self._db.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")

    def _insert(self, chunks: list[tuple[object, ...]]) -> None:
        self._db.executemany(
            "INSERT INTO chunks (id, file_id, path, source, place, content, start_line, end_line,"
            " token_count, hash, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            chunks,
        )
        self._db.executemany(
            "INSERT INTO chunks_fts (rowid, content) VALUES (?, ?)",
            [(chunk[0], chunk[5]) for chunk in chunks],
        )

    def _delete(self, ids: Sequence[int]) -> None:
        some = (as_json(ids),)
        self._db.execute(
            "INSERT INTO chunks_fts (chunks_fts, rowid, content) SELECT 'delete', id, content"
            " FROM chunks WHERE id IN (SELECT value FROM json_each(?))",
            some,
        )
        self._db.execute(
            "DELETE FROM chunks_vec WHERE chunk_id IN (SELECT value FROM json_each(?))", some
        )
        self._db.execute("DELETE FROM chunks WHERE id IN (SELECT value FROM json_each(?))", some)

    def _next(self, table: str) -> int:
        """Returns the next row number; numbers are never reused."""
        rows = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        row = rows.fetchone()
        return 1 if row is None else int(row[0]) + 1

    def number_after(self, predecessor: "Tables") -> None:
        """Continues the row numbers of another index. The tables must be empty."""
        rows = predecessor._db.execute("SELECT name, seq FROM sqlite_sequence").fetchall()  # noqa: SLF001 - another instance of this class
        self._db.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", rows)

    def carry_over(self) -> None:
        """Copies cached vectors of the same texts from the attached database `old`."""
        self._db.execute(
            "INSERT INTO embedding_cache SELECT * FROM old.embedding_cache"
            " WHERE content_hash IN (SELECT hash FROM chunks)"
        )
