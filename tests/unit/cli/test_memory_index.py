"""`skerry memory status` and `index`, without a gateway and with one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from skerry.cli.memory_bar import bar
from skerry.model.memory import MemoryProgress
from skerry.testing.gateway import running_gateway


def skerry(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "SKERRY_STATE_DIR": str(home)}
    command = [sys.executable, "-m", "skerry", "memory", *words]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.requirement("memory-db-location")
def test_without_a_gateway_it_works_on_the_files(tmp_path: Path) -> None:
    notes = tmp_path / "workspace" / "memory"
    notes.mkdir(parents=True)
    assert "Nothing is remembered yet" in skerry(tmp_path, "status").stdout
    (notes / "boat.md").write_text("The boat is blue.\n")
    (notes / "bad.md").write_bytes(b"a\0b")
    done = skerry(tmp_path, "index")
    assert done.returncode == 0
    assert "1 new" in done.stdout
    assert "bad.md: it has a zero byte" in done.stderr
    found = json.loads(skerry(tmp_path, "status", "--json").stdout)
    assert (found["files"], found["chunks"]) == (1, 1)
    assert Path(found["database"]) == tmp_path / "memory" / "main.sqlite"


def test_an_agent_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    done = skerry(tmp_path, "index", "--agent", "nobody")
    assert done.returncode == 1
    assert "main" in done.stderr


async def test_with_a_gateway_it_asks_that(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        workspace = tmp_path / "workspace"
        (workspace / "MEMORY.md").write_text("The boat is blue.\n")

        def ask(*words: str) -> object:
            done = skerry(tmp_path, *words, "--json")
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        report = await anyio.to_thread.run_sync(lambda: ask("index", "--force"))
        assert isinstance(report, dict)
        assert report["added"] == 1
        found = await anyio.to_thread.run_sync(lambda: ask("status"))
        assert isinstance(found, dict)
        assert found["files"] == 1
        assert await gateway.stop() == 0


def test_the_bar_says_how_fast_it_is_and_how_long_it_may_take() -> None:
    line = bar(MemoryProgress("embeddings", 250, 1000), 100, 50.0)
    assert line == "embeddings [######..................] 250/1000  2.0/s  0:06:15 left"
    assert bar(MemoryProgress("files", 0, 0), 0, 0.0).endswith("0/0")
