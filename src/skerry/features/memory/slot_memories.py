"""The memories in the slot: the built-in ones, or QMD with them behind it."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct, field

from skerry.config.memory_qmd import QmdConfig
from skerry.config.root import Config
from skerry.infra.clock import Clock
from skerry.infra.supervise import beside
from skerry.model.ids import AgentId
from skerry.ports.memory import Memories, MemoryBackend, Transcripts

if TYPE_CHECKING:  # loaded where QMD is configured, not with each start
    from skerry.features.memory.qmd import QmdMemory
    from skerry.features.memory.slot import FallbackMemoryManager


class SlotMemories(Struct):
    """One memory an agent, as `memory.backend` says. Implements `ports.memory.Memories`.

    With `qmd`, the built-in memory answers whatever QMD does not, and indexes only then. `open` it
    for use.
    """

    config: Callable[[], Config]
    builtin: Memories
    transcripts: Transcripts
    clock: Clock
    redact: Callable[[str], str]
    """Takes secrets out of what was said."""
    environ: Mapping[str, str]
    _chains: "dict[AgentId, FallbackMemoryManager]" = field(default_factory=dict)

    @property
    def has_qmd(self) -> bool:
        """Returns whether QMD answers first; the built-in index then need not be kept fresh."""
        return self.config().memory.backend == "qmd"

    def of(self, agent: AgentId) -> MemoryBackend | None:
        """Returns the agent's memory."""
        return self._chains.get(agent) or self.builtin.of(agent)

    @asynccontextmanager
    async def open(self, *, keep: bool = True) -> AsyncGenerator[None]:
        """Keeps QMD's indexes fresh, and its servers, for the block, if `keep`."""
        if not (keep and self.has_qmd):
            yield
            return
        from skerry.features.memory.slot import FallbackMemoryManager  # noqa: PLC0415 - as said above

        def seconds() -> float:
            """Returns a little more than QMD's own limit, whose error says more."""
            return self.config().memory.qmd.limits.timeout_ms / 1000 + 1

        running: list[QmdMemory] = []

        async def run() -> None:
            async with anyio.create_task_group() as tasks:
                for memory in running:
                    tasks.start_soon(memory.run)

        for agent in self.config().agents.ids:
            qmd, behind = self._qmd(agent), self.builtin.of(agent)
            chain: list[MemoryBackend] = [qmd] if behind is None else [qmd, behind]
            self._chains[agent] = FallbackMemoryManager(chain, self.clock, seconds=seconds)
            running.append(qmd)
        async with beside(run):
            yield
        self._chains.clear()

    def _qmd(self, agent: AgentId) -> "QmdMemory":
        from skerry.features.memory.files import Places, scan  # noqa: PLC0415 - at first use
        from skerry.features.memory.qmd import QmdMemory  # noqa: PLC0415 - at first use
        from skerry.features.memory.qmd_daemon import QmdDaemon  # noqa: PLC0415 - at first use
        from skerry.features.memory.qmd_program import QmdHome  # noqa: PLC0415 - at first use
        from skerry.features.memory.qmd_sessions import SessionExport  # noqa: PLC0415 - the same

        workspace, state = self.config().workspace(agent), self.config().state_dir

        def qmd() -> QmdConfig:
            return self.config().memory.qmd

        def look() -> object:
            """Gives what is to be indexed anew where it changed: the files, and what is wanted."""
            now = qmd()
            stamps = scan(Places(workspace, tuple(Path(path.path) for path in now.paths))).found
            return stamps, now.paths, now.include_default_memory, now.sessions

        def days() -> int:
            return qmd().sessions.retention_days

        return QmdMemory(
            agent,
            qmd,
            workspace=workspace,
            home=QmdHome(state / "agents" / agent / "qmd"),
            clock=self.clock,
            daemon=QmdDaemon(self.clock),
            environ=self.environ,
            export=SessionExport(agent, self.transcripts, self.clock, self.redact, days),
            look=look,
        )
