"""Erases text from the database, the mirrors, the files and the indexes.

The job is stored first and deleted last: after a crash the next start continues it. Active runs,
also the one that requested the erasure, may still have the text in memory. When they have ended,
everything is searched again.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.late import (
    file_eraser,
    holding_backups,
    media,
    orphan_mirrors,
    qmd_program,
)
from skerry.infra.backoff import Backoff
from skerry.infra.clock import Clock
from skerry.lanes.active_runs import ActiveRun
from skerry.model.errors import SkerryError, StateError
from skerry.model.ids import AgentId
from skerry.model.redaction import Redaction
from skerry.model.redaction_report import Forgotten
from skerry.ports.memory import Memories, MemoryForgets
from skerry.sdk.slots import Live
from skerry.store import Reader, Store, no_fault, recovered_lines
from skerry.store.forgetting import Forgetting, begin, count_matches, finish, incomplete, redact
from skerry.store.mirror import Mirror
from skerry.store.redaction_counts import RedactionCounts
from skerry.store.session_listing import SessionFilter, recent
from skerry.workspace.prompt_files import ORDER

logger = logging.getLogger(__name__)

RETRIES: Final = Backoff(base=1.0, cap=60.0)
"""Waits after a failure, such as a full disk or another reader of the database."""
ROUNDS: Final = 20
"""Limit on the sweeps after runs that wrote the text again."""


class Forgetter(Struct):
    """Erases phrases. Implements `ports.memory.Forgets`. `run` must be running."""

    config: Callable[[], Config]
    store: Store
    mirror: Mirror
    memories: Memories
    clock: Clock
    reach: Callable[[str], None] = no_fault
    """Called at each named fault point."""
    live: Live | None = None
    """The running gateway; None without one: QMD's files are then not in use."""
    _ending: set[int] = field(default_factory=set)
    """Serial numbers of the jobs in progress."""
    _wake: anyio.Event = field(default_factory=anyio.Event)
    _sweeping: anyio.Lock = field(default_factory=anyio.Lock)

    async def look(self, agent: AgentId, phrases: Sequence[str]) -> Forgotten:
        """Returns the lines and rows that would be erased, without changing anything.

        Raises:
            PhraseError: a phrase is too short, or there are too many.
            StateError: the database cannot be read.
        """
        redaction = Redaction(phrases)
        rows = await self.store.scan(lambda reader: count_matches(reader, agent, redaction))
        cleaning = await anyio.to_thread.run_sync(self._files(agent).find, redaction)
        files = await anyio.to_thread.run_sync(self._media().holding, redaction)
        report = replace(
            _counted(rows), lines=cleaning.lines, left=cleaning.remaining, media=len(files)
        )
        return await self._with_backups(report, redaction)

    async def forget(
        self, agent: AgentId, phrases: Sequence[str], *, extra: bool = False
    ) -> Forgotten:
        """Erases the statements in all data of the agent, and returns the erased matches.

        `waits` of the report is the number of active runs; the erasure is completed when they have
        ended. `extra` also cleans the extra paths, in a later process too.

        Raises:
            PhraseError: a phrase is too short, or there are too many.
            StateError, MemoryBackendError: the erasure is not complete yet; it is retried
                automatically.
        """
        redaction, now = Redaction(phrases), self.clock.now_ms()
        phrases = redaction.phrases
        serial = await self.store.write(lambda unit: begin(unit, agent, phrases, now, extra=extra))
        self.reach("forget.begun")
        job = Forgetting(serial, agent, phrases, extra)
        finished = False
        try:
            during = self._active(agent)
            report = await self._sweep(job, redaction)
            waits = len({run.request.run_id for run in (*during, *self._active(agent))})
            if not waits:
                remaining = await self.store.scan(
                    lambda reader: count_matches(reader, agent, redaction)
                )
                finished = not remaining.rows and await self._finished(job)
        finally:
            self._ending.discard(serial)
            if not finished:
                self._wake.set()
        return await self._with_backups(replace(report, waits=waits, done=finished), redaction)

    async def run(self) -> None:
        """Completes all stored jobs, also of an earlier process, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                for job in await self._begun():
                    if job.serial not in self._ending:
                        self._ending.add(job.serial)
                        tasks.start_soon(self._see_through, job)
                await self._wake.wait()
                self._wake = anyio.Event()

    async def _begun(self) -> list[Forgetting]:
        waits = map(RETRIES.delay, count(1))
        while True:
            try:
                return await self.store.read(incomplete)
            except SkerryError as error:
                logger.warning("the text to be erased cannot be read: %s", error)
            await anyio.sleep(next(waits))

    async def _see_through(self, job: Forgetting) -> None:
        waits = map(RETRIES.delay, count(1))
        while True:
            try:
                await self._end(job)
            except (SkerryError, OSError) as error:
                logger.warning("the erasure is not complete; it is tried again: %s", error)
                await anyio.sleep(next(waits))
            else:
                self._ending.discard(job.serial)
                return

    async def _end(self, job: Forgetting) -> None:
        """Sweeps after the active runs have ended, until a sweep finds nothing."""
        for _ in range(ROUNDS if job.phrases else 0):
            for run in self._active(job.agent):
                await run.ended.wait()
            swept = await self._sweep(job, Redaction(job.phrases))
            if not (swept.rows or swept.lines):
                break
        await self._finish(job)

    async def _finished(self, job: Forgetting) -> bool:
        """Finishes the job; returns False if it cannot, as when another process reads the file."""
        try:
            await self._finish(job)
        except StateError as error:
            logger.warning("the database is not rewritten yet; it is tried again: %s", error)
            return False
        return True

    async def _finish(self, job: Forgetting) -> None:
        self.reach("forget.finishing")
        await finish(self.store, job.serial)
        self.reach("forget.finished")
        logger.info("text was erased for agent %s", job.agent)

    async def _sweep(self, job: Forgetting, redaction: Redaction) -> Forgotten:
        """Erases the text everywhere once; the indexes last, since they derive from the rest.

        It can be stopped and started again at any point.
        """
        async with self._sweeping:
            media = self._media()
            deleted = await anyio.to_thread.run_sync(media.clean, redaction)
            rows = await redact(self.store, job.agent, redaction, media.discard)
            rows += RedactionCounts(media=deleted)
            self.reach("forget.redacted")
            if self.live is not None:
                self.live.histories.clear()
                self.live.prompts.forget()
            sessions = await self.store.read(partial(_sessions, agent=job.agent))
            await self.mirror.rewrite(self.store, sessions)
            self.reach("forget.mirrored")
            files = self._files(job.agent, extra=job.extra)
            cleaning = await anyio.to_thread.run_sync(files.clean, redaction)
            await anyio.to_thread.run_sync(partial(self._strays, job.agent, sessions, redaction))
            self.reach("forget.cleaned")
            memory: object = self.memories.of(job.agent)
            documents = await memory.forget(redaction) if isinstance(memory, MemoryForgets) else 0
            self.reach("forget.swept")
        report = replace(_counted(rows), lines=cleaning.lines, left=cleaning.remaining)
        return replace(report, documents=documents)

    def _active(self, agent: AgentId) -> list[ActiveRun]:
        runs = self.live.running.of() if self.live is not None else []
        return [run for run in runs if run.request.key.agent == agent]

    def _files(self, agent: AgentId, *, extra: bool = False) -> "file_eraser.FileEraser":
        config = self.config()
        paths = list(config.memory_search(agent).extra_paths)
        if config.memory.backend == "qmd":
            paths += [path.path for path in config.memory.qmd.paths]
        memory_paths = MemoryPaths(config.workspace(agent), tuple(map(Path, paths)))
        return file_eraser.FileEraser(memory_paths, ORDER, gate(config), extra)

    def _media(self) -> "media.MediaCopies":
        return media.MediaCopies(self.config().state_dir)

    def _strays(self, agent: AgentId, sessions: Sequence[str], redaction: Redaction) -> None:
        """Cleans files that no memory and no mirror manages any more."""
        config = self.config()
        folder = config.state_dir / "agents" / agent
        if self.live is None or config.memory.backend != "qmd":
            qmd_program.QmdHome(folder / "qmd").forget(redaction)
        orphan_mirrors.clean(folder / "sessions", frozenset(sessions), redaction)
        orphan_mirrors.clean(config.state_dir / recovered_lines.FOLDER / agent, (), redaction)

    async def _with_backups(self, report: Forgotten, redaction: Redaction) -> Forgotten:
        look = partial(holding_backups.holding, self.config().state_dir, redaction)
        return replace(report, backups=await anyio.to_thread.run_sync(look))


def _counted(rows: RedactionCounts) -> Forgotten:
    return Forgotten(
        messages=rows.entries,
        summaries=rows.summaries,
        runs=rows.runs,
        replies=rows.replies,
        answers=rows.answers,
        labels=rows.labels,
        records=rows.records,
        media=rows.media,
        conversations=len(rows.sessions),
    )


def _sessions(reader: Reader, agent: AgentId) -> list[str]:
    sessions = recent(reader, SessionFilter(agent, archived=None), limit=-1)
    return [session.session_id for session in sessions]
