"""The tables that the seeds name, and how little is written when little changed."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skerry.features.memory.documents import date_of
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.infra.clock import SystemClock


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "memory"
    folder.mkdir(parents=True)
    for number in range(5):
        (folder / f"2026-05-0{number + 1}.md").write_text(f"On day {number} we sailed.\n")
    return folder.parent


@pytest.fixture
def index(tmp_path: Path, workspace: Path) -> Iterator[Index]:
    made = Index(tmp_path / "main.sqlite", IndexSettings(MemoryPaths(workspace)), SystemClock())
    yield made
    made.close()


def columns(index: Index, table: str) -> dict[str, str]:
    """Returns the columns of a table with their types; that of a key ends in `KEY`."""
    index.sync()
    with closing(sqlite3.connect(index.database.path)) as connection:
        rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
        return {row[1]: f"{row[2]} KEY" if row[5] else row[2] for row in rows}


@pytest.mark.requirement("memory-table-files")
def test_files_has_the_columns_of_the_seed(index: Index) -> None:
    seed = {"id": "INTEGER KEY", "path": "TEXT", "hash": "TEXT", "mtime": "INTEGER"}
    assert (seed | {"chunk_count": "INTEGER"}).items() <= columns(index, "files").items()


@pytest.mark.requirement("memory-table-chunks")
def test_chunks_has_the_columns_of_both_seeds(index: Index) -> None:
    numbers = dict.fromkeys(("file_id", "start_line", "end_line", "token_count"), "INTEGER")
    texts = dict.fromkeys(("content", "path", "source", "hash", "model"), "TEXT")
    seeds = {"id": "INTEGER KEY", **numbers, **texts}
    assert seeds.items() <= columns(index, "chunks").items()


@pytest.mark.requirement("memory-table-embedding-cache")
def test_the_cache_is_keyed_by_provider_model_and_hash(index: Index) -> None:
    names = ["provider", "model", "content_hash", "embedding"]
    assert list(columns(index, "embedding_cache")) == names
    with closing(sqlite3.connect(index.database.path)) as connection:
        keys = [
            row[1] for row in connection.execute("PRAGMA table_info(embedding_cache)") if row[5]
        ]
    assert keys == ["provider", "model", "content_hash"]


@pytest.mark.requirement("memory-table-embedding-cache")
def test_a_vector_is_kept_by_the_sha_256_of_its_text_for_its_provider(index: Index) -> None:
    index.sync()
    with index.database.writing() as tables:
        passages = list(tables.passages())
        sums = {
            passage.id: hashlib.sha256(passage.text.encode()).hexdigest() for passage in passages
        }
        assert len(sums) == 5
        tables.cache("one", "m", [(one, bytes(8)) for one in sums.values()])
        assert {key for key, _ in tables.cached("one", "m", 2, 9)} == sums.keys()
        assert tables.cached("two", "m", 2, 9) == []
        tables.cache("two", "m", [(next(iter(sums.values())), bytes(8))])
        assert (len(tables.cached("one", "m", 2, 9)), len(tables.cached("two", "m", 2, 9))) == (
            5,
            1,
        )


@pytest.mark.requirement("memory-table-chunks-fts")
def test_the_full_text_index_uses_the_texts_of_the_passages(index: Index) -> None:
    index.sync()
    with closing(sqlite3.connect(index.database.path)) as connection:
        (key,) = connection.execute(
            "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY bm25(chunks_fts)",
            ('"day 3"',),
        ).fetchone()
        (text,) = connection.execute("SELECT content FROM chunks WHERE id = ?", (key,)).fetchone()
        (made,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'chunks_fts'"
        ).fetchone()
    assert text == "On day 3 we sailed."
    assert "content=chunks, content_rowid=id" in made, "it has texts of its own"


@pytest.mark.requirement("memory-table-chunks-vec")
def test_vectors_are_blobs_by_passage(index: Index) -> None:
    assert columns(index, "chunks_vec") == {"chunk_id": "INTEGER KEY", "embedding": "BLOB"}


@pytest.mark.requirement("memory-diff-indexing")
def test_only_what_changed_is_cut_again(index: Index, workspace: Path) -> None:
    index.sync()
    (workspace / "memory" / "2026-05-03.md").write_text("We stayed ashore.\n")
    (workspace / "memory" / "2026-05-04.md").touch()
    report = index.sync()
    assert (report.changed, report.unchanged, report.chunks) == (1, 4, 1)


@pytest.mark.requirement("memory-daily-log-indexed")
def test_a_daily_log_has_the_date_of_its_name(index: Index) -> None:
    index.sync()
    with index.tables() as tables:
        rows = tables.rows(tables.ids()).values()
        dates = {row.path: row.passage.at for row in rows}
    day = int(datetime(2026, 5, 3, tzinfo=UTC).timestamp() * 1000)
    assert dates["memory/2026-05-03.md"] == day


@pytest.mark.parametrize(
    "path", ["MEMORY.md", "memory/boats.md", "2026-05-08.md", "memory/2026-02-31.md"]
)
def test_other_files_have_no_date(path: str) -> None:
    assert date_of(path) is None


def test_an_index_that_is_cut_otherwise_is_rebuilt(
    tmp_path: Path, index: Index, workspace: Path
) -> None:
    (workspace / "MEMORY.md").write_text("We sailed on and on. " * 40)
    index.sync()
    index.close()
    other = Index(
        tmp_path / "main.sqlite",
        IndexSettings(MemoryPaths(workspace), size=64, overlap=8),
        SystemClock(),
    )
    assert other.sync().added == 6
    other.close()
