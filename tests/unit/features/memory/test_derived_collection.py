"""What is searched is made beside searches, survives restarts, and heals when it is lost."""

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import numpy as np
import pytest
from msgspec.structs import replace

from skerry.features.memory import derived_collection, file_changes
from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.collection_sync import STATE, Difference, difference
from skerry.features.memory.index import Index, no_report
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.index_tables import Tables
from skerry.features.memory.indexer import IndexSettings, StoppedError
from skerry.features.memory.markdown_files import scan
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryAnswer, MemoryQuestion, MemorySource
from skerry.model.redaction import Redaction
from skerry_recall.collection import Collection
from skerry_recall.embed import EmbeddingModel, Kind
from skerry_recall.numbers import Floats
from skerry_recall.passage import Passage

COUNT = 12


class Counted:
    """An embedding model that counts its texts."""

    model = EmbeddingModel("test", "count")
    dims: int | None = 4
    bulk = 100
    local = True

    def __init__(self) -> None:
        self.asked = 0

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        self.asked += kind is Kind.PASSAGE and len(texts)
        return np.ones((len(texts), 4), np.float32)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "memory"
    folder.mkdir(parents=True)
    for number in range(COUNT):
        (folder / f"{number}.md").write_text(f"The boat number {number} is blue.")
    return folder.parent


def index(tmp_path: Path, reach: Callable[[str], None] = lambda _: None) -> Index:
    path = tmp_path / "index" / "main.sqlite"
    return Index(path, IndexSettings(MemoryPaths(tmp_path / "workspace")), SystemClock(), reach)


def memory(made: Index, embedder: Counted | None = None) -> BuiltinMemory:
    return BuiltinMemory(AgentId("main"), made, SystemClock(), embedder=lambda: embedder)


async def ask(found: BuiltinMemory, text: str = "boat 3") -> MemoryAnswer:
    return await found.search(MemoryQuestion(text, limit=50))


def folders(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "index" / "main.derived").iterdir())


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts what collections take in, by the name of the thread."""
    found: list[int] = []
    real = Collection.refresh

    def refresh(self: Collection, **fields: Any) -> None:
        added = list(fields.pop("added", ()))
        if added:
            found.append(len(added))
        real(self, added=added, **fields)

    monkeypatch.setattr(Collection, "refresh", refresh)
    return found


async def test_a_sync_ends_with_all_made_so_that_the_first_search_makes_nothing(
    tmp_path: Path, workspace: Path, refreshed: list[int]
) -> None:
    first = memory(index(tmp_path))
    await first.sync()
    first.close()
    assert refreshed == [COUNT]
    second = memory(index(tmp_path))
    assert len((await ask(second)).hits) == COUNT
    second.close()
    assert refreshed == [COUNT], workspace


async def test_another_sync_keeps_what_is_searched_as_it_is(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = memory(index(tmp_path))
    await here.sync()
    compared: list[object] = []

    def counted(collection: Collection, tables: Tables) -> Difference:
        compared.append(collection)
        return difference(collection, tables)

    monkeypatch.setattr(derived_collection, "difference", counted)
    await here.sync()
    assert len((await ask(here)).hits) == COUNT, workspace
    assert compared == []
    here.close()


async def test_much_that_was_lost_is_made_beside_the_searches_which_full_text_answers(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = memory(index(tmp_path))
    await first.sync()
    first.close()
    shutil.rmtree(tmp_path / "index" / "main.derived")
    monkeypatch.setattr(derived_collection, "SMALL", 3)
    go_on, real = threading.Event(), Collection.refresh

    def refresh(self: Collection, **fields: Any) -> None:
        assert go_on.wait(60)
        real(self, **fields)

    monkeypatch.setattr(Collection, "refresh", refresh)
    second = memory(index(tmp_path))
    for _ in range(2):
        answer = await ask(second)
        assert len(answer.hits) == COUNT, workspace
        assert answer.fallback is not None
        assert "being updated" in answer.fallback.reason
    go_on.set()
    with anyio.fail_after(60):
        while (await ask(second)).fallback is not None:  # noqa: ASYNC110 - a thread does it
            await anyio.sleep(0.01)
    assert len((await ask(second)).hits) == COUNT
    second.close()


async def test_who_searches_during_the_first_indexing_leaves_nothing_behind(
    tmp_path: Path, workspace: Path, refreshed: list[int]
) -> None:
    made: Index

    def reach(name: str) -> None:
        if name == "index.committed":
            with made.reading():
                pass

    made = index(tmp_path, reach)
    made.sync()
    made.close()
    (kept,) = folders(tmp_path)
    count = sum(refreshed)
    again = memory(index(tmp_path))
    assert len((await ask(again)).hits) == COUNT, workspace
    assert folders(tmp_path) == [kept]
    assert sum(refreshed) == count, "what was made is not thrown away by a restart"
    again.close()


async def test_stale_folders_are_removed_at_the_start(tmp_path: Path, workspace: Path) -> None:
    first = memory(index(tmp_path))
    await first.sync()
    first.close()
    (tmp_path / "index" / "main.derived" / "new").mkdir()
    second = memory(index(tmp_path))
    await ask(second)
    assert "new" not in folders(tmp_path), workspace
    second.close()


@pytest.mark.parametrize("changes", [False, True])
async def test_a_folder_that_is_removed_beneath_a_running_memory_is_recreated(
    tmp_path: Path, workspace: Path, *, changes: bool
) -> None:
    here = memory(index(tmp_path))
    await here.sync()
    assert len((await ask(here)).hits) == COUNT
    shutil.rmtree(tmp_path / "index" / "main.derived")
    if changes:
        (workspace / "memory" / "new.md").write_text("A boat without a number.")
    answer = await ask(here)
    assert len(answer.hits) == COUNT + changes
    assert answer.fallback is None
    await here.sync()
    assert len((await ask(here)).hits) == COUNT + changes
    assert len(folders(tmp_path)) == 1
    here.close()


def test_a_stop_does_not_wait_for_all_that_is_made(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = index(tmp_path)
    made.sync()
    monkeypatch.setattr(derived_collection, "PACE", 1)
    taken: list[int] = []

    def end() -> None:
        if len(taken) >= 3:
            raise StoppedError

    other = derived_collection.DerivedCollection(tmp_path / "other", end)

    def reading(work: Callable[[Tables], None]) -> None:
        with made.tables() as tables:
            real = tables.passages

            class Counting:
                def __getattr__(self, name: str) -> object:
                    return getattr(tables, name)

                def passages(self, ids: Iterable[int] | None = None) -> Iterator[Passage]:
                    for passage in real(ids):
                        taken.append(passage.id)
                        yield passage

            work(cast("Tables", Counting()))

    with pytest.raises(StoppedError):
        other.make("g", reading)
    assert len(taken) <= 4 < COUNT, workspace
    made.close()


@pytest.mark.skipif(not file_changes.LINUX, reason="inotify is of Linux")
async def test_of_a_large_tree_only_what_the_watch_names_is_looked_at(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_changes, "WATCHED", 3)
    here = memory(index(tmp_path))
    await here.sync()
    await ask(here)
    looks: list[str] = []
    known = Tables.documents_of

    def counted(places: MemoryPaths) -> object:
        looks.append("scan")
        return scan(places)

    def read(self: Tables, source: MemorySource) -> object:
        looks.append("documents_of")
        return known(self, source)

    monkeypatch.setattr(file_changes, "scan", counted)
    monkeypatch.setattr(Tables, "documents_of", read)
    notes = workspace / "memory"
    (notes / "3.md").write_text("A kayak.")
    assert [hit.path for hit in (await ask(here, "kayak")).hits] == ["memory/3.md"]
    (notes / "4.md").unlink()
    (notes / "5.md").rename(notes / "6.md")
    (notes / "made.md").write_text("A canoe.")
    (workspace / "other.md").write_text("A canoe too, which is no note.")
    assert [hit.path for hit in (await ask(here, "canoe")).hits] == ["memory/made.md"]
    paths = {hit.path for hit in (await ask(here, "boat blue")).hits}
    assert not {"memory/3.md", "memory/4.md", "memory/5.md"} & paths
    assert "memory/6.md" in paths
    assert looks == []
    here.close()


async def test_after_a_forget_every_passage_has_its_vector_at_once(
    tmp_path: Path, workspace: Path
) -> None:
    whole = "\n\n".join(
        f"# Part {n}\n\n" + f"The hull number {n} is green. " * 30 for n in range(9)
    )
    (workspace / "MEMORY.md").write_text(f"{whole}\n\nzebra quokka\n")
    embedder = Counted()
    here = memory(index(tmp_path), embedder)
    await here.sync()
    count = embedder.asked
    (workspace / "MEMORY.md").write_text(whole)
    assert await here.forget(Redaction(["zebra quokka"])) == 1
    status = await here.status()
    assert status.chunks - status.vectors <= 1, "the passage that changed"
    assert embedder.asked == count
    assert (await ask(here)).mode.value == "hybrid"
    here.close()


def steps(made: Index, work: Callable[[Tables], object]) -> int:
    """Returns the number of steps that SQLite takes."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    with made.tables() as tables:
        tables._db.set_progress_handler(step, 1)
        work(tables)
        tables._db.set_progress_handler(None, 1)
    return count


def test_what_a_search_asks_the_tables_does_not_grow_with_them(
    tmp_path: Path, workspace: Path
) -> None:
    def every(tables: Tables) -> None:
        tables.vector_counts()
        tables.sessions()
        tables.documents([MemorySource.MEMORY], "memory/deep/", None)
        tables.documents([MemorySource.SESSIONS], None, "agent:main:x")

    made = index(tmp_path)
    made.sync()
    before = steps(made, every)
    for number in range(200):
        (workspace / "memory" / f"more{number}.md").write_text(f"Note {number}.")
    made.sync(report=no_report)
    with made.tables() as tables:
        assert tables.vector_counts() == (0, COUNT + 200)
        assert len(tables.documents([MemorySource.MEMORY], "memory/", None)) == COUNT + 200
    assert steps(made, every) <= before + 20
    made.close()


async def test_after_a_restart_neither_the_files_nor_the_passages_are_compared_one_by_one(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "memory" / "torn.md").write_bytes(b"\0\0")
    first = memory(index(tmp_path), Counted())
    await first.sync()
    await anyio.sleep(2.1)  # until then a file may be written again within the clock's grain
    (report, again) = (await first.sync(), await first.sync())
    assert report == again
    first.close()
    asked: list[str] = []
    for name in ("documents_of", "ids", "embedded"):
        monkeypatch.setattr(Tables, name, lambda *_, name=name: asked.append(name))
    second = memory(index(tmp_path), Counted())
    assert await second.read() == replace(report, embedded=0)
    assert len((await ask(second)).hits) == COUNT
    assert asked == []
    second.close()


async def test_what_changed_while_nobody_ran_is_found_after_a_restart(
    tmp_path: Path, workspace: Path
) -> None:
    first = memory(index(tmp_path))
    await first.sync()
    await anyio.sleep(2.1)  # as above
    await first.sync()
    first.close()
    (workspace / "memory" / "3.md").write_text("A kayak is red.")
    (workspace / "memory" / "4.md").unlink()
    second = memory(index(tmp_path))
    report = await second.read()
    assert (report.changed, report.removed, report.unchanged) == (1, 1, COUNT - 2)
    assert [hit.path for hit in (await ask(second, "kayak")).hits] == ["memory/3.md"]
    assert "memory/4.md" not in {hit.path for hit in (await ask(second, "boat blue")).hits}
    second.close()


async def test_a_change_that_the_end_of_the_process_kept_from_the_search_is_made_good(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = memory(index(tmp_path))
    await first.sync()
    monkeypatch.setattr(
        derived_collection.DerivedCollection, "apply", lambda *_: None
    )  # the process ends before it
    (workspace / "memory" / "3.md").write_text("A kayak is red.")
    await first.read()
    monkeypatch.undo()
    first.close()
    second = memory(index(tmp_path))
    assert [hit.path for hit in (await ask(second, "kayak")).hits] == ["memory/3.md"]
    second.close()


def test_two_changes_that_reach_the_search_in_the_other_order_are_not_taken_for_all(
    tmp_path: Path, workspace: Path
) -> None:
    made = index(tmp_path)
    made.sync()
    with made.reading() as (tables, collection, _):
        assert collection is not None, workspace
        old = tables.meta(STATE) or ""
    made._deriving.apply(lambda rows, stamp: rows.refresh(removed=[1], stamp=stamp), 1, ("b", "c"))
    assert collection.stamp == ""
    made._deriving.apply(lambda rows, stamp: rows.refresh(removed=[2], stamp=stamp), 1, (old, "b"))
    assert collection.stamp == ""
    made.close()
