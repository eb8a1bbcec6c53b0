"""The checks of the doctor on the memory: its index, its backend, QMD."""

from pathlib import Path
from typing import Any

import pytest

from skerry.config.root import Config
from skerry.features.memory.checks import index, qmd, thorough
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryFallback
from skerry.ports.checks import Level
from skerry.testing.clock import FakeClock
from skerry.testing.memory import FakeBackend, hit
from tests.support.fake_qmd import FakeQmd
from tests.support.gateway import TOKEN, running_gateway
from tests.support.memory import memory_rig

MAIN = AgentId("main")


def config(folder: Path, **memory: Any) -> Config:
    tree = {"memory": memory, "state_dir": folder, "path": folder / "skerry.json"}
    return Config.model_validate(tree)


async def test_who_does_not_use_it_reads_nothing_of_it(tmp_path: Path) -> None:
    assert await qmd(config(tmp_path), {}) == []


async def test_an_index_without_tables_is_none_yet_and_not_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "memory/main.sqlite"
    path.parent.mkdir()
    path.touch()
    (check,) = await index(config(tmp_path), MAIN)
    assert (check.level, check.message.split(";")[0]) == (Level.OK, "not indexed yet")
    path.write_bytes(b"no database" * 100)
    (check,) = await index(config(tmp_path), MAIN)
    assert (check.level, "is damaged" in check.message) == (Level.FAILURE, True)


async def test_the_program_and_its_node_are_named(tmp_path: Path) -> None:
    fake = FakeQmd(tmp_path)
    configuration = config(tmp_path, backend="qmd", qmd={"command": str(fake.command)})
    (check,) = await qmd(configuration, fake.environ)
    assert (check.level, check.message) == (Level.OK, f"{fake.command}, Node 24.1.0")
    assert fake.calls() == [], "it is looked at, not run"


@pytest.mark.parametrize(
    ("version", "command", "text", "remedy"),
    [
        ("v20.1.0", "", "needs Node 22", "Install Node 22"),
        ("v24.1.0", "no-such-qmd", "not installed", "npm install -g @tobilu/qmd"),
    ],
)
async def test_what_is_missing_is_said_with_the_remedy(
    tmp_path: Path, version: str, command: str, text: str, remedy: str
) -> None:
    fake = FakeQmd(tmp_path, node=version)
    configuration = config(tmp_path, backend="qmd", qmd={"command": command or str(fake.command)})
    (check,) = await qmd(configuration, fake.environ)
    assert check.level is Level.WARNING
    assert text in check.message
    assert remedy in check.remedy


def indexed(folder: Path) -> tuple[Config, Path]:
    """Returns a configuration without a model, and an index of one of two files of its agent."""
    search = {"defaults": {"memorySearch": {"provider": "none"}}}
    tree = {"agents": search, "state_dir": folder, "path": folder / "skerry.json"}
    config = Config.model_validate(tree)
    notes = config.workspace(MAIN) / "memory"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("- The boat is blue.\n")
    (notes / "bad.md").write_bytes(b"a\0b")
    path = folder / "memory" / "main.sqlite"
    made = Index(path, IndexSettings(MemoryPaths(config.workspace(MAIN))), FakeClock())
    made.sync()
    made.close()
    return config, path


def nowhere(folder: Path) -> dict[str, str]:
    """Returns an environment in which no gateway runs."""
    return {"SKERRY_STATE_DIR": str(folder), "SKERRY_GATEWAY_URL": "ws://127.0.0.1:1"}


async def test_files_that_cannot_be_indexed_or_changed_since_are_named(tmp_path: Path) -> None:
    config, _ = indexed(tmp_path)
    told = {check.name: check for check in await thorough(config, nowhere(tmp_path), MAIN)}
    assert told["memory watcher"].message == "up to date; no gateway runs."
    assert told["memory model"].message == "none: only words are searched."
    first, failed = await index(config, MAIN)
    assert (first.level, first.message) == (Level.OK, "1 file, 1 passage, 0 with a vector")
    assert (failed.level, "memory/bad.md: it has a zero byte" in failed.message) == (
        Level.WARNING,
        True,
    )
    (config.workspace(MAIN) / "memory" / "a.md").write_text("- The boat is green now.\n")
    (config.workspace(MAIN) / "MEMORY.md").write_text("new\n")
    told = {check.name: check for check in await thorough(config, nowhere(tmp_path), MAIN)}
    assert "2 files changed" in told["memory watcher"].message
    assert "skerry memory index" in told["memory watcher"].remedy


async def test_links_and_files_that_are_no_utf_8_are_named(tmp_path: Path) -> None:
    config, path = indexed(tmp_path)
    notes = config.workspace(MAIN) / "memory"
    (notes / "bad.md").unlink()
    (notes / "far.md").symlink_to(tmp_path / "elsewhere.md")
    (notes / "old.md").write_bytes("Grüße an Käthe.\n".encode("cp1252"))
    again = Index(path, IndexSettings(MemoryPaths(config.workspace(MAIN))), FakeClock())
    again.sync()
    again.close()
    _, read, linked = await index(config, MAIN)
    assert (read.level, "memory/old.md as Windows-1252" in read.message) == (Level.OK, True)
    assert linked.level is Level.WARNING
    assert f"memory/far.md: it is a link to {tmp_path / 'elsewhere.md'}" in linked.message
    assert "memorySearch.extraPaths" in linked.message


async def test_a_damaged_index_is_said_with_what_mends_it(tmp_path: Path) -> None:
    config, path = indexed(tmp_path)
    data = bytearray(path.read_bytes())
    data[4096:9000] = b"x" * 4904
    path.write_bytes(data)
    damaged, *_ = await thorough(config, nowhere(tmp_path), MAIN)
    assert (damaged.level, "damaged" in damaged.message) == (Level.FAILURE, True)
    assert "skerry memory index --force" in damaged.remedy
    path.unlink()
    (fresh,) = await index(config, MAIN)
    assert "not indexed yet" in fresh.message


async def test_a_running_gateway_says_who_answers_and_what_fell_back(tmp_path: Path) -> None:
    fallback = MemoryFallback("qmd", "it is away")
    memory = memory_rig(tmp_path / "home", FakeBackend([hit()], fallback=fallback))
    async with running_gateway(tmp_path, memory=memory.service) as rig:
        environ = {
            "SKERRY_GATEWAY_URL": rig.url,
            "SKERRY_GATEWAY_TOKEN": TOKEN,
            "SKERRY_STATE_DIR": str(tmp_path),
        }
        told = {check.name: check for check in await thorough(config(tmp_path), environ, MAIN)}
    assert told["memory answers"].message.startswith("fake, by words")
    assert "it is away" in told["memory fallback"].message
    assert told["memory fallback"].level is Level.WARNING
