"""What waits for a vector costs a search nothing, however much it is."""

from pathlib import Path

import numpy as np

from skerry.features.memory.collection_sync import EMBEDDED_WITH, SIZE
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.missing_vectors import Lacking, lacking
from skerry.infra.clock import SystemClock

MODEL = "test/count"


def steps(index: Index) -> tuple[int, Lacking]:
    """Returns the steps of SQLite for finding missing vectors, and these."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    with index.tables() as tables:
        tables._db.set_progress_handler(step, 1)
        found = lacking(tables, MODEL, 4)
        tables._db.set_progress_handler(None, 1)
    return count, found


def talk(index: Index, folder: Path, count: int) -> None:
    """Lets the index have so many more passages that are said to be of conversations."""
    before = len(list(folder.iterdir()))
    for number in range(before, before + count):
        (folder / f"{number}.md").write_text(f"Boat {number}.")
    index.sync()
    with index.database.writing() as tables:
        tables._db.execute("UPDATE chunks SET source = 'sessions' WHERE model = ''")


def test_what_conversations_lack_costs_a_search_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / "memory"
    folder.mkdir(parents=True)
    (folder / "note.md").write_text("A note.")
    index = Index(
        tmp_path / "main.sqlite", IndexSettings(MemoryPaths(folder.parent)), SystemClock()
    )
    index.sync()
    with index.tables() as tables:
        ((number, *_),) = tables.lacking("memory", "test", "count", 9, (0, 0))
    index.embed(MODEL, [(number, np.ones(4, np.float32).tobytes())])
    talk(index, folder, 10)
    with index.database.writing() as tables:
        tables.note(EMBEDDED_WITH, MODEL)
        tables.note(SIZE, "4")
        tables.refuse("test", "count", [("torn", "too long")], 1)
        tables._db.execute("UPDATE chunks SET hash = 'torn' WHERE id = ?", (number + 1,))
    before, _ = steps(index)
    talk(index, folder, 200)
    after, found = steps(index)
    assert after <= before + 20
    assert found.is_compared
    assert found.fallback is not None
    assert found.fallback.reason.startswith("1 passage has no vector")
    assert found.notes == ()
    index.close()
