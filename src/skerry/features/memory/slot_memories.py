"""The memories in the slot: the built-in ones, or QMD with the built-in ones as fallback."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec import Struct, field

from skerry.config.memory_qmd import QmdConfig
from skerry.config.root import Config
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.late import (
    markdown_files,
    qmd,
    qmd_daemon,
    qmd_program,
    qmd_sessions,
    slot,
)
from skerry.infra.clock import Clock
from skerry.infra.supervise import in_background
from skerry.model.ids import AgentId
from skerry.ports.memory import Memories, MemoryBackend, TranscriptSource


class SlotMemories(Struct):
    """One memory per agent, as `memory.backend` selects. Implements `ports.memory.Memories`.

    With `qmd`, the built-in memory answers when QMD fails, and indexes only then. Enter `open`
    before use.
    """

    config: Callable[[], Config]
    builtin: Memories
    transcripts: TranscriptSource
    clock: Clock
    redact: Callable[[str], str]
    """Removes secrets from messages."""
    environ: Mapping[str, str]
    _chains: "dict[AgentId, slot.FallbackMemoryManager]" = field(default_factory=dict)

    @property
    def has_qmd(self) -> bool:
        """Returns whether QMD answers first; the built-in index is then not kept up to date."""
        return self.config().memory.backend == "qmd"

    def of(self, agent: AgentId) -> MemoryBackend | None:
        """Returns the agent's memory."""
        return self._chains.get(agent) or self.builtin.of(agent)

    @asynccontextmanager
    async def open(self, *, keep: bool = True) -> AsyncGenerator[None]:
        """Keeps QMD's indexes up to date, and its servers running, for the block, if `keep`."""
        if not (keep and self.has_qmd):
            yield
            return

        def seconds() -> float:
            """Returns a little more than QMD's own limit, whose error is more specific."""
            return self.config().memory.qmd.limits.timeout_ms / 1000 + 1

        running: list[qmd.QmdMemory] = []

        async def run() -> None:
            async with anyio.create_task_group() as tasks:
                for backend in running:
                    tasks.start_soon(backend.run)

        for agent in self.config().agents.ids:
            memory, behind = self._qmd(agent), self.builtin.of(agent)
            chain: list[MemoryBackend] = [memory] if behind is None else [memory, behind]
            self._chains[agent] = slot.FallbackMemoryManager(chain, self.clock, seconds=seconds)
            running.append(memory)
        async with in_background(run):
            yield
        self._chains.clear()

    def _qmd(self, agent: AgentId) -> "qmd.QmdMemory":
        workspace, state = self.config().workspace(agent), self.config().state_dir

        def section() -> QmdConfig:
            return self.config().memory.qmd

        def look() -> object:
            """Returns the state of files and settings; a change requires a new index run."""
            now = section()
            stamps = markdown_files.scan(
                MemoryPaths(workspace, tuple(Path(path.path) for path in now.paths))
            ).stamps
            return stamps, now.paths, now.include_default_memory, now.sessions

        def days() -> int:
            return section().sessions.retention_days

        return qmd.QmdMemory(
            agent,
            section,
            workspace=workspace,
            home=qmd_program.QmdHome(state / "agents" / agent / "qmd"),
            clock=self.clock,
            daemon=qmd_daemon.QmdDaemon(self.clock),
            environ=self.environ,
            export=qmd_sessions.SessionExport(
                agent, self.transcripts, self.clock, self.redact, days
            ),
            look=look,
        )
