"""The memory `qmd`: runs and supervises the program QMD, which indexes and searches the files."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio

from skerry.config.memory_qmd import QmdConfig
from skerry.features.memory.qmd_collections import QmdCollection, configured
from skerry.features.memory.qmd_commands import QmdCommands, QmdUnknownError
from skerry.features.memory.qmd_cycles import Cycle
from skerry.features.memory.qmd_daemon import QmdDaemon
from skerry.features.memory.qmd_filter import fits, wide
from skerry.features.memory.qmd_process import QmdError, QmdFailedError
from skerry.features.memory.qmd_program import QmdHome, find_program
from skerry.features.memory.qmd_query import QmdQuery, query_of
from skerry.features.memory.qmd_results import (
    Result,
    file_text,
    hits,
    located,
)
from skerry.features.memory.qmd_search import ask_qmd
from skerry.infra.clock import Clock
from skerry.model.errors import SkerryError
from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryDocument,
    MemoryHit,
    MemoryMode,
    MemoryProgress,
    MemoryQuestion,
    MemorySource,
    MemoryStartingError,
    MemoryStatus,
    SyncReport,
)
from skerry.model.redaction import Redaction

logger = logging.getLogger(__name__)

Export = Callable[[Path], Awaitable[Mapping[str, str]]]
"""Writes the agent's conversations into a folder as Markdown, and removes those that are too old;
returns the session keys by file name."""

LOOK_SECONDS: Final = 3.0
"""Seconds between two checks of the files."""
_WAIT_SECONDS: Final = 0.5
"""Seconds that a search waits for a running update (openclaw-behaviour 10.10)."""
_EMPTY: Final = "QMD has not indexed the files yet"
_NO_MODELS: Final = (
    "QMD searches words only: its embedding model is not installed. Download it: qmd pull"
)


class QmdMemory:
    """One agent's QMD. A `ports.memory.MemoryBackend`.

    `run` keeps the index up to date and the server alive; without it only `sync` indexes, and each
    search starts a process.
    """

    name = "qmd"

    def __init__(  # noqa: PLR0913 - each is a separate dependency
        self,
        agent: AgentId,
        config: Callable[[], QmdConfig],
        *,
        workspace: Path,
        home: QmdHome,
        clock: Clock,
        daemon: QmdDaemon | None,
        environ: Mapping[str, str],
        export: Export | None = None,
        look: Callable[[], object] | None = None,
    ) -> None:
        """Stores its parts.

        Args:
            agent: Owner of the memory.
            config: Returns the present section `memory.qmd`.
            workspace: The agent's workspace.
            home: The agent's folder of QMD.
            clock: The time.
            daemon: QMD's server for this agent; None starts a process for each query.
            environ: Environment to find the program; only some variables are passed to it.
            export: Writes conversations; without it they are not searched.
            look: Returns the state of the files, equal if nothing changed. Blocks.
        """
        self._agent = agent
        self._read = config
        self._workspace = workspace
        self._home = home
        self._clock = clock
        self._daemon = daemon if config().daemon else None
        self._environ = environ
        self._export = export
        self._look = look
        self._cycle = Cycle(clock.now_ms())
        self._changed = anyio.Event()
        self._working = anyio.Lock()
        self._begun, self._embeds = 0, False
        self._report = SyncReport()
        self._commands: QmdCommands | None = None
        self._collections: dict[str, QmdCollection] = {}
        self._refused: Sequence[str] = ()
        self._sessions: Mapping[str, str] = {}
        self._bound = False
        self._suspect = False
        """True when QMD failed in a way that a damaged index may have caused."""
        self._damage = ""
        """Damage of an index that was rebuilt."""
        self._error: QmdError | None = None
        """Reason why the last index job failed."""
        self._indexed_at: int | None = None
        self._counts = (0, 0)

    @property
    def _config(self) -> QmdConfig:
        return self._read()

    async def run(self) -> None:
        """Does due work until cancelled; runs QMD's server meanwhile."""
        async with anyio.create_task_group() as tasks:
            if self._daemon is not None:
                tasks.start_soon(self._daemon.run)
            if self._look is not None:
                tasks.start_soon(self._watch, self._look)
            while True:
                await self.work()
                with anyio.move_on_after(
                    self._cycle.seconds_until_due(self._clock.now_ms(), self._config.update)
                ):
                    await self._changed.wait()
                self._changed = anyio.Event()

    async def _watch(self, look: Callable[[], object]) -> None:
        """Checks the files periodically, for at most a thousandth of the time."""
        stamps = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
        while True:
            begin = anyio.current_time()
            present = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
            if present != stamps:
                stamps = present
                self.touch()
            await anyio.sleep(max(LOOK_SECONDS, 1000 * (anyio.current_time() - begin)))

    async def work(self) -> None:
        """Does the due work; a failure is logged, and raised by the next search."""
        due = self._cycle.due(self._clock.now_ms(), self._config.update)
        if due.update:
            try:
                await self._sync(embed=due.embed)
            except MemoryBackendError as error:
                logger.warning("QMD's index of agent %s: %s %s", self._agent, error, error.remedy)

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        """Returns QMD's hits, with the present text of the files.

        QMD's word scores are not comparable across questions: `min_score` is then ignored. In a
        small collection the right passage may have 0.00.

        Raises:
            MemoryStartingError: it has not indexed yet.
            QmdError: it did not answer in time, or its output is invalid.
        """
        await self._wait_until_ready()
        sources, every = question.sources, self._collections
        collections = {name: every[name] for name in every if every[name].source in sources}
        models = self._home.has_model()
        limit = question.limit
        ask = query_of(
            question.text,
            list(collections),
            wide(question, limit),
            mode=self._config.search_mode,
            models=models,
            rerank=self._config.rerank and self._home.has_model("rerank"),
        )
        notes = [*self._refused, *(() if models else (_NO_MODELS,))]
        matches: Sequence[MemoryHit] = ()
        if ask is not None and collections:
            results = await self._ask(ask)
            matches = await anyio.to_thread.run_sync(
                lambda: [
                    hit
                    for hit in hits(results, collections, self._sessions)
                    if fits(question, hit, scored=ask.semantic)
                ]
            )
        semantic = ask is not None and ask.semantic
        return MemoryAnswer(
            list(matches[:limit]),
            backend=self.name,
            provider=self.name if semantic else "none",
            model="",
            mode=MemoryMode.HYBRID if semantic else MemoryMode.TEXT,
            notes=notes,
        )

    async def sync(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        """Updates QMD's index, with `force` also its vectors.

        One job runs at a time; callers share the report of a job that began after their call.

        Raises:
            QmdError: QMD cannot be run, or fails.
        """
        return await self._sync(embed=force, progress=progress)

    async def forget(self, redaction: Redaction) -> int:
        """Deletes QMD's index and the exports, which the next cycle rebuilds.

        QMD keeps the text of deleted documents, so the whole index must be deleted. Returns the
        number of exports that contained the phrases.

        Raises:
            MemoryBackendError: they cannot be deleted.
        """
        async with self._working:
            self._bound = False
            if self._daemon is not None:
                await self._daemon.stop()
            exports = await anyio.to_thread.run_sync(self._home.forget, redaction)
        self.touch()
        return exports

    def touch(self) -> None:
        """Records that files changed: they are indexed after the configured pause (15 s)."""
        self._cycle = replace(self._cycle, changed=self._clock.now_ms())
        self._changed.set()

    async def status(self) -> MemoryStatus:
        """Returns the state, without asking QMD."""
        semantic = self._home.has_model()
        notes = [*self._refused, *(() if semantic else (_NO_MODELS,))]
        if self._damage:
            notes.insert(0, self._damage)
        if self._error is not None:
            notes.insert(0, " ".join(filter(None, (str(self._error), self._error.remedy))))
        if self._daemon is not None and self._daemon.reason:
            notes.append(
                f"QMD's server: {self._daemon.reason} A process is started for each query."
            )
        return MemoryStatus(
            agent=self._agent,
            backend=self.name,
            files=self._counts[0],
            chunks=self._counts[0],
            dirty=self._cycle.changed is not None or self._indexed_at is None,
            indexed_at=self._indexed_at,
            provider=self.name if semantic else "none",
            model="",
            mode=MemoryMode.HYBRID if semantic else MemoryMode.TEXT,
            vectors=0,
            database=str(self._home.index),
            notes=notes,
        )

    async def document(self, path: str) -> MemoryDocument | None:
        """Returns the Markdown file at `qmd/<collection>/<path>`; None if there is none.

        Links, and paths out of the collection, return None.
        """
        location = located(path, self._collections)
        if location is None:
            return None
        text = await anyio.to_thread.run_sync(file_text, location)
        source = location.collection.source
        key = self._sessions.get(location.relative) if source is MemorySource.SESSIONS else None
        return None if text is None else MemoryDocument(text, source, key)

    async def _wait_until_ready(self) -> None:
        """Waits a moment for a running index job.

        Raises:
            MemoryStartingError: QMD has not indexed yet.
            QmdError: the last job failed, and no index exists.
        """
        if self._working.locked():
            with anyio.move_on_after(_WAIT_SECONDS):
                async with self._working:
                    pass
        if self._bound:
            return
        if self._error is not None:
            raise self._error
        if self._cycle.changed is None:
            self.touch()
        raise MemoryStartingError(_EMPTY)

    async def _ask(self, ask: QmdQuery) -> list[Result]:
        """Returns QMD's hits."""
        if self._commands is None:
            raise MemoryStartingError(_EMPTY)
        seconds = self._config.limits.timeout_ms / 1000
        try:
            return await ask_qmd(self._commands, self._daemon, ask, seconds)
        except (QmdUnknownError, QmdFailedError) as error:
            if isinstance(error, QmdUnknownError):
                self._bound = False  # its index was removed: the next cycle rebuilds it
            self._suspect = True  # or it is damaged: the next cycle checks it
            self.touch()
            raise

    async def _sync(
        self, *, embed: bool, progress: Callable[[MemoryProgress], None] | None = None
    ) -> SyncReport:
        before = self._begun
        async with self._working:
            # A job that began after this call has seen the same files.
            if self._begun > before and (self._embeds or not embed):
                if self._error is not None:
                    raise self._error
                return self._report
            self._begun, self._embeds = self._begun + 1, embed
            now = self._clock.now_ms()
            self._cycle = replace(self._cycle, updated=now, changed=None)
            try:
                try:
                    await self._mend()
                    self._report = await self._index(embed=embed, progress=progress)
                except QmdFailedError:
                    self._suspect = True
                    if not await self._mend():
                        raise
                    self._report = await self._index(embed=embed, progress=progress)
            except (SkerryError, OSError) as error:
                # Reading conversations and writing files raise other errors.
                failure = error if isinstance(error, QmdError) else QmdError(str(error))
                self._error = failure
                self._bound = self._bound and self._home.index.exists()
                raise failure from error
            self._error, self._indexed_at = None, now
            return self._report

    async def _mend(self) -> bool:
        """Deletes a damaged index; returns whether it was damaged. `_working` is held."""
        if not self._suspect:
            return False
        damage = await anyio.to_thread.run_sync(self._home.mend)
        self._suspect = False
        if damage is None:
            return False
        self._bound = False
        self._damage = f"QMD's index was damaged ({damage}); it was rebuilt from the files."
        logger.warning("%s", self._damage)
        if self._daemon is not None:
            await self._daemon.stop()
        return True

    async def _index(
        self, *, embed: bool, progress: Callable[[MemoryProgress], None] | None
    ) -> SyncReport:
        tell = progress or (lambda _: None)
        await anyio.to_thread.run_sync(self._home.prepare, self._environ)
        program = await find_program(self._config.command, self._environ, self._home)
        self._commands = commands = QmdCommands(program, self._home)
        if self._export is not None and self._config.sessions.enabled:
            tell(MemoryProgress("sessions", 0, 1))
            self._sessions = await self._export(self._home.sessions)
        await self._bind(commands)
        tell(MemoryProgress("files", 0, 1))
        seconds = self._config.update.timeout_ms / 1000
        report = await commands.update(seconds)
        tell(MemoryProgress("files", 1, 1))
        self._counts = (report.added + report.changed + report.unchanged, 0)
        if embed:
            self._cycle = replace(self._cycle, embedded=self._clock.now_ms())
            if self._home.has_model():
                tell(MemoryProgress("embeddings", 0, 1))
                await commands.run(["embed"], seconds)
        return report

    async def _bind(self, commands: QmdCommands) -> None:
        """Registers exactly the agent's collections in QMD, with their folders and patterns."""
        collections, self._refused = await anyio.to_thread.run_sync(
            configured,
            self._config,
            self._workspace,
            self._home.sessions if self._export is not None else None,
        )
        by_name = {collection.name: collection for collection in collections}
        if self._bound and by_name == self._collections and self._home.index.exists():
            return
        self._bound = False
        await commands.bind(collections)
        self._collections, self._bound = by_name, True
