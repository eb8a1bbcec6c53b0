"""Every SQL statement of the index about vectors, their cache, and missing ones."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from skerry.features.memory.document_rows import as_json
from skerry.model.memory import MemorySource


class VectorRows:
    """The part of `index_tables.Tables` that is about vectors."""

    __slots__ = ("_db",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def lacking(
        self, source: str, provider: str, model: str, limit: int, times: tuple[int, int]
    ) -> list[tuple[int, str, str]]:
        """Returns passages of a source without a vector: number, hash and text.

        `times` are two times in ms since 1970. Texts that the model refused at the first or later
        are left out, and so is the last passage of a conversation with a message at the second or
        later, since it may still grow.
        """
        refused, grows = times
        return self._db.execute(
            "SELECT chunks.id, chunks.hash, content FROM chunks JOIN files ON files.id = file_id"
            " WHERE model = '' AND chunks.source = ? AND chunks.hash NOT IN"
            " (SELECT content_hash FROM refusals WHERE provider = ? AND model = ? AND at >= ?)"
            " AND (chunks.source <> 'sessions' OR place < chunk_count - 1 OR mtime < ?)"
            " ORDER BY chunks.id LIMIT ?",
            (source, provider, model, refused, grows, limit),
        ).fetchall()

    def lacks_of_files(self) -> dict[int, int]:
        """Returns the number of passages without a vector for each file."""
        return dict(
            self._db.execute(
                "SELECT file_id, count(*) FROM chunks WHERE model = '' GROUP BY file_id"
            ).fetchall()
        )

    def lacks(self, provider: str, model: str) -> list[tuple[str, int, int]]:
        """Returns per source the numbers of passages without a vector, and of refused ones."""
        return self._db.execute(
            "SELECT source, count(*), count(reason) FROM chunks LEFT JOIN refusals"
            " ON content_hash = hash AND provider = ? AND refusals.model = ?"
            " WHERE chunks.model = '' GROUP BY source ORDER BY source",
            (provider, model),
        ).fetchall()

    def notes_waiting(self, provider: str, model: str) -> int:
        """Returns the number of passages of notes without a vector, except refused ones."""
        (count,) = self._db.execute(
            "SELECT count(*) - count(reason) FROM chunks LEFT JOIN refusals"
            " ON content_hash = hash AND provider = ? AND refusals.model = ?"
            " WHERE chunks.model = '' AND source = ?",
            (provider, model, MemorySource.MEMORY.value),
        ).fetchone()
        return int(count)

    def refused(self, provider: str, model: str) -> list[tuple[str, int]]:
        """Returns the reasons of refusals, with the number of passages for each.

        The query scans the refusals, not the passages without a vector, which may be many.
        """
        return self._db.execute(
            "SELECT reason, count(*) FROM refusals CROSS JOIN chunks ON hash = content_hash"
            " WHERE chunks.model = '' AND provider = ? AND refusals.model = ?"
            " GROUP BY reason ORDER BY count(*) DESC, reason",
            (provider, model),
        ).fetchall()

    def refuse(self, provider: str, model: str, rows: Iterable[tuple[str, str]], at: int) -> None:
        """Records refused texts by hash, each with the reason, at a time in ms."""
        self._db.executemany(
            "INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?, ?)",
            [(provider, model, sha, reason, at) for sha, reason in rows],
        )

    def size_of(self, provider: str, model: str) -> int | None:
        """Returns the most frequent size of the model's cached vectors; None without any."""
        row = self._db.execute(
            "SELECT length(embedding) / 4 FROM embedding_cache"
            " WHERE provider = ? AND substr(model, 1, ?) = ?"
            " GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
            (provider, len(model) + 1, f"{model}@"),
        ).fetchone()
        return None if row is None else int(row[0])

    def cached(
        self, provider: str, model: str, size: int, limit: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, bytes]]:
        """Returns passages without a vector, among these or all, with their cached vectors."""
        among_json = None if among is None else as_json(among)
        return self._db.execute(
            "SELECT id, embedding FROM (SELECT id, hash FROM chunks WHERE model = ''"
            " AND (? IS NULL OR id IN (SELECT value FROM json_each(?))))"
            " CROSS JOIN embedding_cache ON content_hash = hash AND provider = ? AND model = ?"
            " LIMIT ?",
            (among_json, among_json, provider, f"{model}@{size}", limit),
        ).fetchall()

    def cache(self, provider: str, model: str, rows: Sequence[tuple[str, bytes]]) -> None:
        """Caches vectors by the hash of their texts."""
        self._db.executemany(
            "INSERT OR REPLACE INTO embedding_cache VALUES (?, ?, ?, ?)",
            [(provider, f"{model}@{len(blob) // 4}", sha, blob) for sha, blob in rows],
        )
        self._db.executemany(
            "DELETE FROM refusals WHERE provider = ? AND model = ? AND content_hash = ?",
            [(provider, model, sha) for sha, _ in rows],
        )

    def uncache(self, provider: str, model: str, size: int, ids: Iterable[int]) -> None:
        """Removes the cached vectors of these passages' texts."""
        self._db.execute(
            "DELETE FROM embedding_cache WHERE provider = ? AND model = ? AND content_hash IN"
            " (SELECT hash FROM chunks WHERE id IN (SELECT value FROM json_each(?)))",
            (provider, f"{model}@{size}", as_json(ids)),
        )

    def embed(self, label: str, rows: Sequence[tuple[int, bytes]]) -> None:
        """Stores the vectors of passages that still exist; `label` is the model."""
        self._db.executemany(
            "UPDATE chunks SET model = ? WHERE id = ?", [(label, key) for key, _ in rows]
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO chunks_vec SELECT id, ? FROM chunks WHERE id = ?",
            [(blob, key) for key, blob in rows],
        )

    def unembed(self) -> None:
        """Removes all vectors of passages; the cache keeps them."""
        self._db.execute("DELETE FROM chunks_vec")
        self._db.execute("UPDATE chunks SET model = '' WHERE model <> ''")

    def embedded(self) -> set[int]:
        """Returns the number of every passage that has a vector."""
        rows = self._db.execute(
            "SELECT id FROM chunks WHERE id NOT IN (SELECT id FROM chunks WHERE model = '')"
        )
        return {key for (key,) in rows}

    def vectors(self, ids: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Yields the vectors of passages."""
        yield from self._db.execute(
            "SELECT chunk_id, embedding FROM chunks_vec"
            " WHERE chunk_id IN (SELECT value FROM json_each(?))",
            (as_json(ids),),
        )

    def vector_counts(self) -> tuple[int, int]:
        """Returns the number of passages with a vector, and the number of all passages."""
        rows = dict(self._db.execute("SELECT name, rows FROM totals").fetchall())
        return rows["passages"] - rows["lacking"], rows["passages"]

    def prune_cache(self, limit: int) -> None:
        """Removes cached vectors of deleted texts, if there are more than `limit` vectors."""
        self._db.execute("DELETE FROM refusals WHERE content_hash NOT IN (SELECT hash FROM chunks)")
        (rows,) = self._db.execute("SELECT count(*) FROM embedding_cache").fetchone()
        if rows > limit:
            self._db.execute(
                "DELETE FROM embedding_cache WHERE content_hash NOT IN (SELECT hash FROM chunks)"
            )
