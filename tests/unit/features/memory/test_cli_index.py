"""`skerry memory status` and `index`, without a gateway and with one."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, cast

import anyio
import anyio.to_thread
import pytest

from skerry.features.memory.cli_access import synced
from skerry.features.memory.cli_index import show_status, waiting
from skerry.features.memory.cli_progress import bar
from skerry.model.errors import GatewayRefusedError
from skerry.model.memory import MemoryProgress
from skerry.testing.gateway import running_gateway
from tests.support.cli import run_command_text

if TYPE_CHECKING:
    from skerry.client.client import GatewayClient


def skerry(home: Path, *words: str, group: tuple[str, ...] = ("memory",)) -> CompletedProcess[str]:
    environ = {**os.environ, "SKERRY_STATE_DIR": str(home)}
    return run_command_text(*group, *words, environ=environ)


@pytest.mark.requirement("memory-db-location")
def test_without_a_gateway_it_works_on_the_files(tmp_path: Path) -> None:
    notes = tmp_path / "workspace" / "memory"
    notes.mkdir(parents=True)
    assert "The memory is empty" in skerry(tmp_path, "status").stdout
    (notes / "boat.md").write_text("The boat is blue.\n")
    (notes / "bad.md").write_bytes(b"a\0b")
    completed = skerry(tmp_path, "index")
    assert completed.returncode == 0
    assert "1 new" in completed.stdout
    assert "bad.md: it has a zero byte" in completed.stderr
    report = json.loads(skerry(tmp_path, "status", "--json").stdout)
    assert (report["files"], report["chunks"]) == (1, 1)
    assert Path(report["database"]) == tmp_path / "memory" / "main.sqlite"


def test_an_agent_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    completed = skerry(tmp_path, "index", "--agent", "nobody")
    assert completed.returncode == 1
    assert "main" in completed.stderr


async def test_with_a_gateway_it_asks_that(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        workspace = tmp_path / "workspace"
        (workspace / "MEMORY.md").write_text("The boat is blue.\n")

        def skerry_(*words: str) -> CompletedProcess[str]:
            return skerry(tmp_path, *words, group=())

        def ask(*words: str) -> object:
            completed = skerry(tmp_path, *words, "--json")
            assert completed.returncode == 0, completed.stderr
            return json.loads(completed.stdout)

        report = await anyio.to_thread.run_sync(lambda: ask("index", "--force"))
        assert isinstance(report, dict)
        assert report["added"] == 1
        called = await anyio.to_thread.run_sync(lambda: skerry_("gateway", "call", "memory.sync"))
        assert json.loads(called.stdout)["unchanged"] == 1
        found = await anyio.to_thread.run_sync(lambda: ask("status"))
        assert isinstance(found, dict)
        assert found["files"] == 1
        assert await gateway.stop() == 0


class Slow:
    """A gateway that answers a sync when its progress was asked for twice."""

    def __init__(self, error: Exception | None = None) -> None:
        self.limits: list[float | None] = []
        self.looks = 0
        self._error = error
        self._done = anyio.Event()

    async def request(self, method: str, params: object, *, timeout: float | None) -> object:  # noqa: ASYNC109 - as the client has it
        del params
        self.limits.append(timeout)
        if method == "memory.status":
            self.looks += 1
            if self.looks == 2:
                self._done.set()
            return {"progress": {"stage": "embeddings", "done": self.looks, "total": 3}}
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return {"embedded": 3}


async def test_a_sync_that_takes_long_is_waited_for_and_tells_how_far_it_is() -> None:
    gateway, told = Slow(), list[MemoryProgress]()
    with anyio.fail_after(60):
        report = await synced(cast("GatewayClient", gateway), {"force": True}, told.append)
    assert report == {"embedded": 3}
    assert [memory_progress.done for memory_progress in told][:1] == [1]
    assert all(limit is not None and limit > 3600 for limit in gateway.limits)


async def test_a_sync_that_is_refused_says_so_as_any_request_does() -> None:
    refused = GatewayRefusedError("no", "no")
    with anyio.fail_after(60), pytest.raises(GatewayRefusedError, match="no"):
        await synced(cast("GatewayClient", Slow(refused)), {}, lambda _: None)


def test_what_waits_for_its_vectors_is_told_with_about_how_long() -> None:
    assert waiting({"notes": 2, "said": 100, "seconds": 12_500.0}) == (
        "  without a vector: 2 in notes and 100 in conversations;"
        " computed in about 3 h 28 min. Index now: skerry memory index"
    )
    assert "get no vectors" in waiting({"notes": 0, "said": 1, "seconds": None})


def test_the_memory_of_a_plugin_has_no_row_of_an_index_and_is_not_called_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = "memory-memwal works: it has 1 memory."
    show_status({"agentId": "main", "backend": "memory-memwal", "files": 0, "notes": [note]}, "")
    assert capsys.readouterr().out == f"agent    main\nbackend  memory-memwal\n{note}\n"


def test_the_bar_says_how_fast_it_is_and_how_long_it_may_take() -> None:
    line = bar(MemoryProgress("embeddings", 250, 1000), 100, 50.0)
    assert line == "embeddings [######..................] 250/1000  2.0/s  0:06:15 left"
    assert bar(MemoryProgress("files", 0, 0), 0, 0.0).endswith("0/0")
