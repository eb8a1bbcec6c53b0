"""The index under faults: killed at any point, a full disk, rot, asked while it is made."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.index import Index
from skerry.features.memory.index_keeper import IndexKeeper
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryBackendError, MemoryQuestion

INDEXER = """
import os, signal, sys
from pathlib import Path
from skerry.infra.clock import SystemClock
from skerry.features.memory import indexer
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.index import Index

home, wanted, after = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
indexer.BATCH_FILES = 5
seen = 0

def reach(point):
    global seen
    seen += point == wanted
    if point == wanted and seen > after:
        os.kill(os.getpid(), signal.SIGKILL)

settings = indexer.IndexSettings(MemoryPaths(home / "workspace"))
index = Index(home / "main.sqlite", settings, SystemClock(), reach)
index.sync(force=sys.argv[4] == "force")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "memory"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"{number}.md").write_text(f"Boat number {number} lies in Faro.\n")
    return tmp_path


def opened(home: Path) -> BuiltinMemory:
    index = Index(
        home / "main.sqlite", IndexSettings(MemoryPaths(home / "workspace")), SystemClock()
    )
    return BuiltinMemory(AgentId("main"), index, SystemClock())


async def paths_for(memory: BuiltinMemory, text: str = "boat", limit: int = 50) -> set[str]:
    answer = await memory.search(MemoryQuestion(text, limit=limit))
    return {hit.path for hit in answer.hits}


def killed(home: Path, point: str, after: int, how: str) -> None:
    command = [sys.executable, "-c", INDEXER, str(home), point, str(after), how]
    completed = subprocess.run(command, check=False, timeout=60)
    assert completed.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("point", "after"),
    [("index.commit", 1), ("index.commit", 4), ("index.committed", 3)],
    ids=["before the first batch is written", "in the fourth", "after the third"],
)
async def test_killed_while_indexing_it_goes_on_where_it_was(
    home: Path, point: str, after: int
) -> None:
    killed(home, point, after, "grow")
    memory = opened(home)
    report = await memory.sync()
    assert report.unchanged == 5 * (after - 1 + (point == "index.committed"))
    assert len(await paths_for(memory)) == 30
    memory.close()


@pytest.mark.requirement("memory-atomic-swap")
@pytest.mark.parametrize("point", ["swap.built", "swap.synced", "swap.closed", "swap.renamed"])
async def test_killed_in_the_swap_one_index_or_the_other_is_whole(home: Path, point: str) -> None:
    memory = opened(home)
    await memory.sync()
    memory.close()
    killed(home, point, 0, "force")
    memory = opened(home)
    with memory._index.tables() as tables:
        assert len(tables.ids()) == 30
    assert memory._index.notes == []
    assert (await memory.sync()).unchanged == 30
    assert len(await paths_for(memory)) == 30
    assert not list(home.glob("main.sqlite.new*"))
    memory.close()


async def test_twenty_searches_during_a_full_index_find_everything(home: Path) -> None:
    memory = opened(home)
    await memory.sync()
    answers: list[set[str]] = []

    async def ask() -> None:
        answers.append(await paths_for(memory))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(lambda: memory.sync(force=True))
            for _ in range(20):
                tasks.start_soon(ask)
    assert [len(answer) for answer in answers] == [30] * 20
    memory.close()


async def test_rotten_derived_files_are_rebuilt(home: Path) -> None:
    memory = opened(home)
    assert len(await paths_for(memory)) == 30
    memory.close()
    derived = [path for path in (home / "main.derived").rglob("*") if path.is_file()]
    assert derived
    for one in derived:
        one.write_bytes(b"rot")
    memory = opened(home)
    assert len(await paths_for(memory)) == 30
    memory.close()


async def test_an_index_cut_short_is_rebuilt_while_it_is_in_use(home: Path) -> None:
    memory = opened(home)
    await memory.sync()
    path = home / "main.sqlite"
    memory.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    memory = opened(home)
    answer = await memory.search(MemoryQuestion("boat", limit=50))
    assert len({hit.path for hit in answer.hits}) == 30
    assert "rebuilt" in answer.notes[0]
    memory.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    home = tmp_path / "disk"
    home.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", str(home)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"this system lets nobody mount: {mounted.stderr.decode()}")
    yield home
    subprocess.run(["umount", "-l", str(home)], check=True)


async def test_on_a_full_disk_what_is_indexed_is_found_and_the_rest_once_there_is_room(
    home: Path, disk: Path
) -> None:
    index = Index(
        disk / "main.sqlite", IndexSettings(MemoryPaths(home / "workspace")), SystemClock()
    )
    memory = BuiltinMemory(AgentId("main"), index, SystemClock())
    await memory.sync()
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    (home / "workspace" / "memory.md").write_text("A new boat.\n" * 20_000)
    with pytest.raises(MemoryBackendError, match=r"full|space"):
        await memory.sync()
    answer = await memory.search(MemoryQuestion("boat", limit=50))
    assert len({hit.path for hit in answer.hits}) == 30
    assert answer.notes
    ballast.unlink()
    assert "memory.md" in await paths_for(memory, "new boat")
    memory.close()


def test_what_is_left_of_a_copy_is_removed(home: Path) -> None:
    (home / "main.sqlite.new").write_bytes(b"half")
    index = Index(
        home / "main.sqlite", IndexSettings(MemoryPaths(home / "workspace")), SystemClock()
    )
    index.sync()
    assert not (home / "main.sqlite.new").exists()
    index.close()
    shutil.rmtree(home / "main.derived", ignore_errors=True)


async def test_a_place_that_cannot_be_written_is_told_and_kept_from_the_gateway(home: Path) -> None:
    """As a disk that turned read-only does, before the index was first opened."""
    path = home / "place"
    path.write_text("a file where the folder would be")
    index = Index(
        path / "main.sqlite", IndexSettings(MemoryPaths(home / "workspace")), SystemClock()
    )
    memory = BuiltinMemory(AgentId("main"), index, SystemClock())
    with pytest.raises(MemoryBackendError, match="index cannot be used"):
        await memory.sync()
    keeper = IndexKeeper(lambda: memory, lambda: None, lambda: False)
    assert not await keeper._sync()
    path.unlink()
    assert await keeper._sync()
    assert len(await paths_for(memory)) == 30
