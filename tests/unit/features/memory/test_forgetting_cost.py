"""To forget costs what goes, not what stays; and searches go on beside it."""

import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.database import no_fault
from skerry.features.memory.index import PURGING, Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.index_tables import IndexChange, Tables
from skerry.features.memory.indexer import IndexSettings
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryQuestion
from skerry.model.redaction import Redaction

FILES = 300
FACT = "The code of my locker is zebra quokka.\n"
REDACTION = Redaction(["zebra quokka"])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "memory"
    folder.mkdir(parents=True)
    for number in range(FILES):
        (folder / f"{number}.md").write_text(f"The boat {number} is blue.\n" * 20)
    (folder / "7.md").write_text(f"Tea is good.\n{FACT}")
    return folder.parent


def opened(tmp_path: Path, workspace: Path, reach: Callable[[str], None] = no_fault) -> Index:
    path = tmp_path / "index" / "main.sqlite"
    return Index(path, IndexSettings(MemoryPaths(workspace)), SystemClock(), reach)


def cleaned(workspace: Path) -> None:
    (workspace / "memory" / "7.md").write_text("Tea is good.\n")


def holding(folder: Path) -> list[str]:
    files = (
        path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm")
    )
    return [file.name for file in files if b"quokka" in file.read_bytes().lower()]


def test_one_word_of_one_file_is_erased_without_rewriting_the_index(
    tmp_path: Path, workspace: Path
) -> None:
    reached: list[str] = []
    index = opened(tmp_path, workspace, reached.append)
    index.sync()
    cleaned(workspace)
    assert index.forget(REDACTION).removed == 1
    assert "index.rewriting" not in reached
    assert reached[-1] == "index.committed"
    assert "index.purged" in reached
    assert holding(tmp_path / "index") == []
    index.close()
    assert holding(tmp_path / "index") == []


def test_a_forgetting_that_was_interrupted_after_the_rows_rewrites_the_index(
    tmp_path: Path, workspace: Path
) -> None:
    def dies(point: str) -> None:
        if point == "forget.unindexed":
            raise KeyboardInterrupt

    index = opened(tmp_path, workspace, dies)
    index.sync()
    cleaned(workspace)
    with pytest.raises(KeyboardInterrupt):
        index.forget(REDACTION)
    index.close()
    reached: list[str] = []
    again = opened(tmp_path, workspace, reached.append)
    again.forget(REDACTION)
    assert "index.rewriting" in reached
    with again.tables() as tables:
        assert tables.meta(PURGING) is None
    reached.clear()
    again.forget(REDACTION)
    assert "index.rewriting" not in reached
    again.close()
    assert holding(tmp_path / "index") == []


@pytest.mark.parametrize("point", ["index.rewriting", "index.purged"])
async def test_a_search_is_answered_while_the_files_are_purged(
    tmp_path: Path, workspace: Path, point: str
) -> None:
    held, go_on = threading.Event(), threading.Event()

    def reach(name: str) -> None:
        if name == point:
            held.set()
            go_on.wait(60)

    index = opened(tmp_path, workspace, reach)
    memory = BuiltinMemory(AgentId("main"), index, SystemClock())
    await memory.sync()
    cleaned(workspace)
    index.write(_unfinished)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.forget, REDACTION)
            await anyio.to_thread.run_sync(held.wait)
            try:
                answer = await memory.search(MemoryQuestion("boat 12", 3))
                assert [hit.path for hit in answer.hits][:1] == ["memory/12.md"]
                answer = await memory.search(MemoryQuestion("quokka", 3))
                assert not any("quokka" in hit.text for hit in answer.hits)
            finally:
                go_on.set()
    memory.close()
    assert holding(tmp_path / "index") == []


def _unfinished(tables: Tables) -> IndexChange:
    tables.note(PURGING, "1")
    return IndexChange()
