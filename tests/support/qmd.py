"""An agent's workspace with the fake QMD, for the tests of the memory `qmd`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from skerry.config.memory_qmd import QmdConfig
from skerry.features.memory.qmd import QmdMemory
from skerry.features.memory.qmd_daemon import QmdDaemon
from skerry.features.memory.qmd_program import QmdHome
from skerry.model.ids import agent_id
from skerry.model.memory import (
    MemoryQuestion,
)
from skerry.testing.clock import FakeClock
from tests.support.fake_qmd import FakeQmd

MINUTE = 60_000
WHERE = MemoryQuestion("Where is the harbour?")


class QmdRig:
    """One agent's workspace, its folder of QMD, and the program."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        (self.workspace / "MEMORY.md").write_text("# Facts\nThe cat is Momo.\n", "utf-8")
        (self.workspace / "memory/2026-01-01.md").write_text("The harbour opens at 7.\n", "utf-8")
        self.home = QmdHome(folder / "agents/main/qmd")
        self.fake = FakeQmd(folder / "program")
        self.clock = FakeClock()

    def memory(
        self, *, server: QmdDaemon | None = None, export: Any = None, **config: object
    ) -> QmdMemory:
        payload = {"command": str(self.fake.command)} | config
        self.config = QmdConfig.model_validate(payload)
        return QmdMemory(
            agent_id("main"),
            lambda: self.config,
            workspace=self.workspace,
            home=self.home,
            clock=self.clock,
            daemon=server,
            environ=self.fake.environ | {"OPENAI_API_KEY": "sk-secret"},
            export=export,
        )

    def with_model(self) -> None:
        self.home.models.mkdir(parents=True)
        name = "hf_ggml-org_embeddinggemma-300M-Q8_0.gguf"
        (self.home.models / name).write_bytes(b"")


async def until(happened: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not happened():  # noqa: ASYNC110 - another process does it, and tells nobody
            await anyio.sleep(0.01)


@asynccontextmanager
async def served(
    place: QmdRig, *, idle: float = 900, **config: object
) -> AsyncGenerator[tuple[QmdMemory, QmdDaemon]]:
    """Runs the memory with its server."""
    daemon = QmdDaemon(place.clock, idle_seconds=idle)
    memory = place.memory(server=daemon, limits={"timeoutMs": 60_000}, **config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.run)
        await until(lambda: place.fake.calls("update"))
        await memory.sync()
        yield memory, daemon
        tasks.cancel_scope.cancel()
