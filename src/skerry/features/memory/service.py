"""Queries the memories within a time limit, and returns only what the caller may see."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from skerry.config.memory_qmd import QmdLimits
from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.features.memory.late import context_filter, editing
from skerry.features.memory.notes import notes
from skerry.features.memory.reading import (
    NotMemoryError,
    is_elsewhere,
    locate,
    provenance_of,
    read_lines,
    window,
)
from skerry.features.memory.scope import CallerScope, may_read, may_read_session
from skerry.features.memory.writing import Notebook, NoteError
from skerry.infra.clock import Clock, day
from skerry.model.caller import Caller
from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryFile,
    MemoryHit,
    MemoryNote,
    MemoryNoted,
    MemoryQuestion,
    MemorySaved,
    MemorySource,
    MemoryText,
    MemoryUndone,
    MemoryWhole,
    is_unverified,
)
from skerry.model.origin import Origin
from skerry.model.provenance import Provenance
from skerry.model.redaction_report import Forgotten
from skerry.ports.memory import (
    Forgets,
    Memories,
    MemoryBackend,
    MemoryDocuments,
    MemoryListing,
)

PERSON_SECONDS: Final = 60.0
"""Time limit of a search for a person at the gateway."""
LOAD_SECONDS: Final = 20.0
"""Part of `PERSON_SECONDS` for loading a model: a person prefers waiting to asking twice."""

EXCERPT: Final = 1500
"""Default limit on the characters of a hit: a passage, and lines of the passages next to it
(docs/adr/0024-evidence.md)."""
MAX_NOTES: Final = 10_000
"""Limit on the notes that are searched for unverified ones."""
_NEAR: Final = 3
"""Number of near passages for each of the first `_MAX_ASKED` phrases."""
_MAX_ASKED: Final = 3

_OFF: Final = "This agent has no memory: it is switched off."
_CLOSED: Final = "Memory is not used in this conversation."


class ClosedError(MemoryBackendError):
    """Memory is not used in this conversation."""

    code = "memory.closed"


class SilentError(MemoryBackendError):
    """Only conversations were requested, and they are not searched."""

    code = "memory.silent"
    remedy = "See memory.qmd.sessions.enabled and agents.defaults.memorySearch.sources."

    def __init__(self) -> None:
        super().__init__("Conversations are not searched: that is switched off.")


class MemorySearchService(Struct, frozen=True):
    """Serves tools, hooks and methods from the memories.

    Implements `ports.memory.MemoryService`, which has the errors of its methods.
    """

    memories: Memories
    config: Callable[[], Config]
    clock: Clock
    forgets: Forgets | None = None
    """Service that erases; None if this service cannot erase."""
    is_tainted: Callable[[str], Awaitable[bool]] | None = None
    """Returns whether a session, by its id, has text of others; None if that is unknown."""

    def limits(self, agent: AgentId) -> QmdLimits:
        """Returns the limits of an answer."""
        config = self.config()
        max_results = config.memory_search(agent).query.max_results
        limits = config.memory.qmd.limits
        changes = {} if max_results is None else {"max_results": max_results}
        if "max_snippet_chars" not in limits.model_fields_set:
            changes["max_snippet_chars"] = EXCERPT
        return limits.model_copy(update=changes)

    def of(self, agent: AgentId) -> MemoryBackend | None:
        """Returns the agent's memory; None if it has none."""
        return self.memories.of(agent) if self.config().memory_search(agent).enabled else None

    @property
    def scope(self) -> CallerScope:
        """Returns the decisions on where memory is used."""
        return CallerScope(self.config)

    async def search(self, agent: AgentId, question: MemoryQuestion) -> MemoryAnswer:
        """Searches for a person at the gateway."""
        patient = replace(question, patience=LOAD_SECONDS)
        return await self._ask(agent, patient, PERSON_SECONDS)

    async def find(self, caller: Caller, question: MemoryQuestion) -> MemoryAnswer:
        """Returns the hits that may be shown to the caller.

        Raises:
            MemoryBackendError: memory is not used here, or no memory answered in time.
        """
        if not self.scope.is_open(caller):
            raise ClosedError(_CLOSED)
        allowed = replace(question, opens=partial(may_read_session, caller))
        agent = caller.key.agent
        answer = await self._ask(agent, allowed, self.limits(agent).timeout_ms / 1000)
        # Checked again, in case a backend ignored `opens`.
        hits = [hit for hit in answer.hits if may_read(caller, hit)]
        if question.context_messages is not None:
            hits = list(
                context_filter.outside_context(hits, question.context_messages, question.text)
            )
        return replace(answer, hits=hits)

    async def get(
        self,
        agent: AgentId,
        path: str,
        start: int = 1,
        lines: int | None = None,
        caller: Caller | None = None,
    ) -> MemoryText:
        """Returns lines of a document; `caller` is None for a person at the gateway.

        Raises:
            MemoryBackendError: the document is not in the memory, or not for the caller.
        """
        if caller is not None and not self.scope.is_open(caller):
            raise ClosedError(_CLOSED)
        config = self.config()
        extra = config.memory_search(agent).extra_paths
        if is_elsewhere(path):
            return await self._document(agent, path, start, lines, caller)
        root_and_name = locate(path, config.workspace(agent), extra)
        work = partial(read_lines, root_and_name, path, start, lines, gate(config))
        text = await anyio.to_thread.run_sync(work)
        return replace(text, notes=[provenance_of(note, start) for note in notes(text.text)])

    async def write(
        self, agent: AgentId, text: str, section: str | None, origin: Origin, conversation: str
    ) -> MemoryNoted:
        """Appends a note to the log of the day, or to a section of MEMORY.md."""
        now, zone = self.clock.now_ms(), self.config().agents.defaults.user_timezone
        provenance = Provenance.now(origin, conversation, now)
        work = partial(self._notebook(agent).write, text, section, provenance, day(now, zone))
        noted = await anyio.to_thread.run_sync(work)
        self._touch(agent)
        return noted

    async def files(self, agent: AgentId) -> Sequence[MemoryFile]:
        """Returns the present files and the indexed conversations, by path."""
        backend: object = self.of(agent)  # listing is optional
        if backend is None:
            raise ClosedError(_OFF)
        config = self.config()
        workspace, extra = config.workspace(agent), config.memory_search(agent).extra_paths
        indexed: Sequence[MemoryFile] = ()
        if isinstance(backend, MemoryListing):
            with suppress(MemoryBackendError):  # the files can be listed without it
                indexed = await backend.listing()
        return await anyio.to_thread.run_sync(partial(editing.listed, workspace, extra, indexed))

    async def whole(self, agent: AgentId, path: str) -> MemoryWhole:
        """Returns a whole Markdown file for editing; an empty text if it does not exist."""
        work = partial(editing.read_whole, self._location(agent, path), path, gate(self.config()))
        return await anyio.to_thread.run_sync(work)

    async def save(self, agent: AgentId, path: str, text: str, base: str) -> MemorySaved:
        """Replaces a Markdown file if its hash is still `base`; "" creates a new file."""
        work = partial(
            editing.save, self._location(agent, path), path, text, base, gate(self.config())
        )
        saved = await anyio.to_thread.run_sync(work)
        self._touch(agent)
        return saved

    async def notes(self, agent: AgentId, limit: int) -> Sequence[MemoryNote]:
        """Returns the notes of MEMORY.md, then of the daily logs, the newest log first."""
        book = self._notebook(agent)

        def read() -> list[MemoryNote]:
            entries = islice(book.all(), limit)
            return [MemoryNote(path, note.text, provenance_of(note)) for path, note in entries]

        return await anyio.to_thread.run_sync(read)

    async def undo(self, agent: AgentId, name: str) -> MemoryUndone:
        """Removes a note."""
        undone = await anyio.to_thread.run_sync(self._notebook(agent).undo, name)
        self._touch(agent)
        return undone

    async def unverified(self, agent: AgentId) -> Sequence[MemoryNote]:
        """Returns the notes that the owner has not confirmed."""
        return [note for note in await self.notes(agent, MAX_NOTES) if is_unverified(note.path)]

    async def confirm(self, agent: AgentId, name: str) -> MemoryNoted:
        """Accepts an unverified note as the owner's."""
        note = next(
            (waiting for waiting in await self.unverified(agent) if waiting.provenance.id == name),
            None,
        )
        if note is None:
            missing = NoteError(f"No unverified note has the id {name}.")
            missing.remedy = "`skerry memory unverified` lists them."
            raise missing
        # Written first: after a crash in between the note exists twice, and is not lost.
        noted = await self.write(agent, note.text, None, Origin.OWNER, note.provenance.conversation)
        await self.undo(agent, name)
        return noted

    async def forget(
        self, agent: AgentId, text: str, caller: Caller | None = None
    ) -> tuple[Forgotten, Sequence[MemoryHit]]:
        """Erases the statements with these words; returns the report and the nearest passages.

        Raises:
            PhraseError: the text is too short.
            StateError, MemoryBackendError: the erasure is not complete; it continues automatically.
        """
        if self.forgets is None:
            raise ClosedError(_OFF)
        report = await self.forgets.forget(agent, [text])
        return report, await self.near(agent, [text], caller)

    async def near(
        self, agent: AgentId, phrases: Sequence[str], caller: Caller | None = None
    ) -> Sequence[MemoryHit]:
        """Returns the passages nearest to the phrases that may be shown to the caller.

        The result is empty if no memory answers, because callers report the erasure in any case.
        """
        hits: dict[tuple[str, int], MemoryHit] = {}
        for phrase in phrases[:_MAX_ASKED]:
            question = MemoryQuestion(phrase, _NEAR)
            with suppress(MemoryBackendError):
                if caller is None:
                    answer = await self.search(agent, question)
                else:
                    answer = await self.find(caller, question)
                hits |= {(hit.path, hit.start_line): hit for hit in answer.hits}
        return list(hits.values())

    def _location(self, agent: AgentId, path: str) -> tuple[Path, str]:
        if self.of(agent) is None:
            raise ClosedError(_OFF)
        config = self.config()
        extra = config.memory_search(agent).extra_paths
        return locate(path, config.workspace(agent), extra)

    def _notebook(self, agent: AgentId) -> Notebook:
        config = self.config()
        if not config.memory_search(agent).enabled:
            raise ClosedError(_OFF)
        return Notebook(config.workspace(agent), gate(config))

    def _touch(self, agent: AgentId) -> None:
        backend = self.of(agent)
        if backend is not None:
            backend.touch()

    async def _document(
        self, agent: AgentId, path: str, start: int, lines: int | None, caller: Caller | None
    ) -> MemoryText:
        """Returns lines of a document that only the backend has."""
        backend: object = self.of(agent)  # documents are optional
        document = await backend.document(path) if isinstance(backend, MemoryDocuments) else None
        if document is None:
            return MemoryText(path, "", start, hint=f"The document {path!r} does not exist.")
        hit = MemoryHit(path, 1, 1, 0.0, "", document.source, session=document.session)
        if caller is not None and not may_read(caller, hit):
            raise NotMemoryError(f"{path!r} belongs to another conversation.")
        return window(path, iter(document.text.splitlines()), start, lines)

    async def _ask(self, agent: AgentId, question: MemoryQuestion, seconds: float) -> MemoryAnswer:
        backend = self.of(agent)
        if backend is None:
            raise ClosedError(_OFF)
        limited = self._within_settings(agent, question)
        with anyio.move_on_after(seconds):
            return await backend.search(limited)
        raise MemoryBackendError(f"Memory did not answer within {seconds:g} s.")

    def _within_settings(self, agent: AgentId, question: MemoryQuestion) -> MemoryQuestion:
        """Returns the question without conversations if these are switched off.

        Indexed conversations are removed at the next full round, but not searched from now on. A
        question without a minimal score gets the configured one.
        """
        config = self.config()
        if question.min_score is None:
            least = config.memory_search(agent).query.min_score
            question = replace(question, min_score=0.0, sufficient_score=least)
        with_sessions = MemorySource.SESSIONS in config.memory_search(agent).sources
        if with_sessions and config.memory.qmd.sessions.enabled:
            return question
        sources = question.sources - {MemorySource.SESSIONS}
        if not sources:
            raise SilentError
        return replace(question, sources=sources)
