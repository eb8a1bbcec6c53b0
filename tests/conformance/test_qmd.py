"""The memory `qmd` over the real QMD 2.8, offline: it compares words."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from skerry.config.memory_qmd import QmdConfig
from skerry.features.memory.qmd import QmdMemory
from skerry.features.memory.qmd_daemon import QmdDaemon
from skerry.features.memory.qmd_program import QmdHome
from skerry.infra.clock import SystemClock
from skerry.model.ids import agent_id
from skerry.model.memory import MemoryMode, MemoryQuestion

pytestmark = pytest.mark.full("QMD")

CONFORMANCE = Path(__file__).parent
NAMES = ("2026-01-01.md", "Grüße.md", "sub/My Notes (x) v1.2 & more.md")
SECONDS = 120
"""For each wait: a test machine may have other work."""


def memory(folder: Path, daemon: QmdDaemon | None = None, **config: object) -> QmdMemory:
    qmd, node = (CONFORMANCE / f"{one}/node_modules/.bin/{one}" for one in ("qmd", "node"))
    assert qmd.exists(), "make test-all installs it"
    fields = {"command": str(qmd), "limits": {"timeoutMs": 60_000}} | config
    read = QmdConfig.model_validate(fields)
    return QmdMemory(
        agent_id("main"),
        lambda: read,
        workspace=folder / "workspace",
        home=QmdHome(folder / "agents/main/qmd"),
        clock=SystemClock(),
        daemon=daemon,
        environ={"PATH": f"{node.parent}:{os.environ['PATH']}", "HOME": str(folder)},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workspace/memory/sub").mkdir(parents=True)
    (tmp_path / "workspace/MEMORY.md").write_text("# Facts\nThe cat is called Momo.\n", "utf-8")
    for name in NAMES:
        text = f"# Day\n\nThe harbour opens at seven ({len(name)}).\n\n"
        (tmp_path / "workspace/memory" / name).write_text(text, "utf-8")
    return tmp_path


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[tuple[QmdMemory, QmdDaemon]]:
    """Runs the memory, and its server; no other process of QMD is there when it is given."""
    daemon = QmdDaemon(SystemClock())
    running = memory(folder, daemon, update={"onBoot": False})
    await running.sync()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.run)
        with anyio.fail_after(SECONDS):
            while not daemon.ready:  # a start of it that took too long is tried once more
                await running.search(MemoryQuestion("harbour"))
                await anyio.sleep(0.05)
        yield running, daemon
        tasks.cancel_scope.cancel()


async def until(happened: Callable[[], object]) -> None:
    with anyio.fail_after(SECONDS):
        while not happened():  # noqa: ASYNC110 - another process does it, and tells nobody
            await anyio.sleep(0.05)


def processes(word: str) -> list[int]:
    """Returns the processes that have the word in their command line or environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            told = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if word.encode() in told:
            found.append(int(path.name))
    return found


@pytest.mark.requirement("qmd-commands")
@pytest.mark.requirement("qmd-result-paths")
@pytest.mark.requirement("qmd-result-fields")
async def test_it_finds_passages_with_their_lines_whatever_a_file_is_called(folder: Path) -> None:
    one = memory(folder)
    await one.sync()
    answer = await one.search(MemoryQuestion("When does the harbour open, please?"))
    assert answer.mode is MemoryMode.TEXT
    assert {hit.path: hit.text for hit in answer.hits} == {
        f"qmd/memory-dir/memory/{name}": f"The harbour opens at seven ({len(name)})."
        for name in NAMES
    }
    assert {(hit.start_line, hit.end_line) for hit in answer.hits} == {(3, 3)}
    (cat,) = (await one.search(MemoryQuestion("What is our cat's name?"))).hits
    assert (cat.path, cat.start_line) == ("qmd/memory-root/MEMORY.md", 1)
    assert "Momo" in cat.text


async def test_it_follows_what_happens_to_files_and_collections(folder: Path) -> None:
    one = memory(folder)
    first = await one.sync()
    assert first.unchanged == 4
    (folder / "workspace/memory/2026-01-01.md").unlink()
    (folder / "workspace/memory/new.md").write_text("# Lamp\n\nA lighthouse keeper.\n", "utf-8")
    report = await one.sync()
    assert (report.added, report.removed, report.unchanged) == (1, 1, 3)
    assert len((await one.search(MemoryQuestion("lighthouse"))).hits) == 1
    (folder / "other").mkdir()
    (folder / "other/x.md").write_text("A lighthouse too.\n", "utf-8")
    paths = [{"path": str(folder / "other"), "name": "Other"}]
    two = memory(folder, paths=paths)
    await two.sync()
    hits = (await two.search(MemoryQuestion("lighthouse"))).hits
    assert {hit.path for hit in hits} == {
        "qmd/memory-dir/memory/new.md",
        "qmd/other/x.md",
    }
    paths[0]["pattern"] = "none*.md"
    three = memory(folder, paths=paths)
    await three.sync()
    assert len((await three.search(MemoryQuestion("lighthouse"))).hits) == 1


async def test_its_server_finds_the_same_and_leaves_no_process(folder: Path) -> None:
    alone = memory(folder)
    await alone.sync()
    questions = [MemoryQuestion(text) for text in ("harbour", '"cat" -Momo', "opens at seven")]
    expected = [await alone.search(question) for question in questions]
    async with served(folder) as (running, daemon):
        assert [await running.search(question) for question in questions] == expected
        assert daemon.ready
        assert processes(str(folder))
    await until(lambda: not processes(str(folder)))


@pytest.mark.requirement("qmd-fallback-manager")
async def test_when_its_server_is_killed_the_next_query_is_answered(folder: Path) -> None:
    async with served(folder) as (running, daemon):
        for pid in processes(str(folder)):
            with suppress(ProcessLookupError):  # one of them ended when another was killed
                os.kill(pid, 9)
        assert (await running.search(MemoryQuestion("harbour"))).hits
        await until(lambda: not daemon.ready)
    await until(lambda: not processes(str(folder)))


async def test_an_embedding_job_that_would_wait_for_the_network_is_not_begun(folder: Path) -> None:
    one = memory(folder)
    with anyio.fail_after(SECONDS):
        await one.sync(force=True)
    assert "qmd pull" in (await one.status()).notes[0]
