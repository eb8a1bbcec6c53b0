"""The built-in memory: an index that is updated before each answer."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread
from msgspec.structs import replace

from skerry.features.memory.database import IndexDamagedError
from skerry.features.memory.index import Conversations, Index
from skerry.features.memory.index_keeper import ORDER
from skerry.features.memory.index_search import SearchSettings, Weighing, by_words, search
from skerry.features.memory.index_state import EACH_SECONDS, filled
from skerry.features.memory.indexer import IndexSettings, StoppedError
from skerry.features.memory.listing import listing
from skerry.features.memory.missing_vectors import has_vectors, lacking
from skerry.features.memory.passage_embedding import PassageSelection, embed, waits
from skerry.features.memory.query_embedding import LoadingError, ask
from skerry.features.memory.transcript_markdown import SESSIONS, path_of
from skerry.features.memory.wait_times import for_files, for_vector
from skerry.infra.clock import Clock
from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryDocument,
    MemoryFallback,
    MemoryFile,
    MemoryHit,
    MemoryMode,
    MemoryProgress,
    MemoryQuestion,
    MemorySource,
    MemoryStatus,
    SyncReport,
)
from skerry.model.redaction import Redaction
from skerry_recall.embed import EmbeddingError
from skerry_recall.numbers import Floats

if TYPE_CHECKING:  # numpy and the model are loaded at the first use
    from skerry_recall.embed import Embedder

logger = logging.getLogger(__name__)

T = TypeVar("T")
NAME: Final = "builtin"
MEASURED: Final = 8
"""Number of texts from which the time per text is computed; below it, loading the model costs
more than embedding."""
LOADING: Final = "its model is being loaded; ask again in a few seconds"


class BuiltinMemory:
    """The memory of one agent over its own index. A `ports.memory.MemoryBackend`.

    The first search or sync opens the index. Call `close` at the end.
    """

    def __init__(  # noqa: PLR0913 - each is a separate dependency
        self,
        agent: AgentId,
        index: Index,
        clock: Clock,
        *,
        transcripts: Conversations | None = None,
        embedder: "Callable[[], Embedder | None]" = lambda: None,
        weighing: Callable[[], Weighing] = Weighing,
        settings: Callable[[], IndexSettings] | None = None,
    ) -> None:
        """Stores its parts; `settings` returns the current settings of the index."""
        self._agent = agent
        self._index = index
        self._clock = clock
        self._transcripts = transcripts
        self._embedder = embedder
        self._weighing = weighing
        self._settings = settings
        self._embedding = anyio.Lock()
        self._dirty = True
        self.looked = False
        """True when all changes were just indexed, so that the next search skips the check."""
        self._fallback: MemoryFallback | None = None
        self._progress: MemoryProgress | None = None
        self._resized = False
        self._each = 0.0
        """Seconds per vector, as last measured; 0 before the first measurement."""

    @property
    def name(self) -> str:
        """Returns `builtin`."""
        return NAME

    @property
    def fallback(self) -> MemoryFallback | None:
        """Returns the failure of the last request to the model; None if it succeeded."""
        return self._fallback

    @property
    def resized(self) -> bool:
        """Returns whether the model returns vectors of a new size, so that all must be computed."""
        return self._resized

    @property
    def dirty(self) -> bool:
        """Returns whether a change is known that is not indexed."""
        return self._dirty

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        """Returns the best passages, after indexing the changed files.

        Raises:
            MemoryBackendError: the index can neither be read nor rebuilt.
        """
        self._configure()
        begun = anyio.current_time()
        patience = max(0.0, anyio.current_effective_deadline() - begun)
        looked, self.looked = self.looked, False
        notes = () if looked else await self._freshen(for_files(patience))
        remaining = for_vector(patience, anyio.current_time() - begun)
        vector, label, loads = await self._vector(question.text, remaining, question.patience)
        searched = await self._mended(partial(self._search, question, vector, label))
        hits, by_meaning, lacks, waiting = searched
        used = label if by_meaning else ""
        return MemoryAnswer(
            hits=hits,
            backend=NAME,
            provider=used.partition("/")[0] or "none",
            model=used.partition("/")[2],
            mode=MemoryMode.HYBRID if by_meaning else MemoryMode.TEXT,
            fallback=self._fallback or loads or lacks,
            notes=(*self._index.notes, *notes, *waiting),
        )

    async def sync(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        """Updates the index from the files; `force` rebuilds it next to the old one.

        Text is indexed first and can be searched at once, then the vectors.

        Raises:
            MemoryBackendError: the index cannot be written.
        """
        report = await self.read(force=force, progress=progress)
        return replace(report, embedded=await self.embed(progress, force=force))

    async def read(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        """Updates the index as `sync` does, without the vectors."""
        self._configure()
        self._dirty = False
        tell = partial(self._tell, progress)
        work = partial(self._index.sync, force=force, transcripts=self._transcripts, report=tell)
        try:
            return await _thread(work)
        except BaseException as error:
            self._dirty = True
            if isinstance(error, StoppedError):
                raise MemoryBackendError("The memory is closed.") from error
            raise
        finally:
            self._progress = None

    async def embed(
        self,
        progress: Callable[[MemoryProgress], None] | None = None,
        *,
        force: bool = False,
        sources: Sequence[MemorySource] = ORDER,
        seconds: float | None = None,
    ) -> int:
        """Computes the missing vectors; returns the number of texts sent to the model.

        When the model fails, the vectors so far are kept, `status` has the reason, and the next
        call continues. `force` first checks the size of the vectors of a hosted model. After
        `seconds` no further request is made.

        Raises:
            MemoryBackendError: the index cannot be written.
        """
        embedder = self._embedder()
        if embedder is None:
            return 0
        async with self._embedding:
            try:
                tell, begun = partial(self._tell, progress), anyio.current_time()
                selection = PassageSelection(sources, seconds, probes=force)
                embedded = await embed(self._index, embedder, tell, selection)
                if embedded >= MEASURED:
                    self._each = (anyio.current_time() - begun) / embedded
            except EmbeddingError as error:
                self._fallback = MemoryFallback(embedder.model.provider, str(error))
                logger.warning("the memory is searched by words: %s", error)
                return 0
            except IndexDamagedError as error:  # the next sync rebuilds it
                raise MemoryBackendError(f"The memory's index is damaged: {error}.") from error
            finally:
                self._progress = None
        self._fallback, self._resized = None, False
        return embedded

    async def waits(self) -> bool:
        """Returns whether a complete passage of a conversation has no vector yet.

        Raises:
            MemoryBackendError: the index cannot be read.
        """
        embedder = self._embedder()
        if embedder is None:
            return False
        return await self._mended(partial(waits, self._index, embedder.model))

    async def forget(self, redaction: Redaction) -> int:
        """Removes the phrases from the index; returns the number of documents that had them.

        Call it after the phrases were removed from the files and conversations.

        Raises:
            MemoryBackendError: the index cannot be written, or is closed.
        """
        try:
            report = await _thread(partial(self._index.forget, redaction, self._transcripts))
        except StoppedError as error:
            raise MemoryBackendError("The memory is closed.") from error
        return report.removed

    def touch(self) -> None:
        """Marks the index as outdated: the next search checks the files first."""
        self._dirty = True

    async def document(self, path: str) -> MemoryDocument | None:
        """Returns a conversation by the path of a hit; None if there is no such document."""
        return await _thread(partial(self._document, path))

    async def status(self) -> MemoryStatus:
        """Returns the state of the memory; raises nothing."""
        embedder = self._embedder()  # in the loop, where it may start something
        try:
            return await self._mended(partial(self._status, self._state(embedder)))
        except MemoryBackendError as error:
            return replace(self._state(embedder, str(error)), mode=MemoryMode.TEXT)

    async def listing(self) -> Sequence[MemoryFile]:
        """Returns every document of the index. Implements `ports.memory.MemoryListing`.

        Raises:
            MemoryBackendError: the index cannot be read.
        """
        return await self._mended(self._listing)

    def close(self) -> None:
        """Closes the index. Blocks until a running job has stopped."""
        self._index.close()

    def _tell(self, progress: Callable[[MemoryProgress], None] | None, now: MemoryProgress) -> None:
        self._progress = now
        if progress is not None:
            progress(now)

    def _configure(self) -> None:
        """Gives the index the current settings."""
        if self._settings is not None:
            self._index.settings = self._settings()

    async def _freshen(self, seconds: float) -> Sequence[str]:
        """Indexes changed files; returns the reasons why the answer may be incomplete."""
        try:
            with anyio.move_on_after(seconds):
                if await _thread(partial(self._index.freshen, seconds)):
                    return ()
        except (MemoryBackendError, StoppedError) as error:
            return (str(error),)  # the indexed passages can still be searched
        return ("The index is being updated; the latest changes may be missing.",)

    async def _vector(
        self, text: str, seconds: float, patience: float
    ) -> tuple[Floats | None, str, MemoryFallback | None]:
        """Returns the vector of a question and its model; None when only words can be searched.

        The third value is the fallback to report when the model was still being loaded.
        """
        embedder = self._embedder()
        if embedder is None or not text.strip():
            return None, "", None
        model, waits = embedder.model, None
        if not await self._mended(partial(has_vectors, self._index)):
            return None, str(model), None  # to embed it costs a tenth of a second
        self._fallback = None
        try:
            vector = await ask(embedder, text, seconds, patience)
        except LoadingError:
            waits = MemoryFallback(model.provider, LOADING)
        except TimeoutError:
            self._fallback = MemoryFallback(model.provider, "it did not answer in time")
        except EmbeddingError as error:
            self._fallback = MemoryFallback(model.provider, str(error))
        else:
            return vector, str(model), None
        return None, "", waits

    async def _mended(self, work: Callable[[], T]) -> T:
        """Runs the work in a thread; if the index is damaged, rebuilds it and runs it again."""
        try:
            return await _thread(work)
        except IndexDamagedError:
            await self.read()
        try:
            return await _thread(work)
        except IndexDamagedError as error:
            raise MemoryBackendError(f"The memory's index is damaged: {error}.") from error

    def _search(
        self, question: MemoryQuestion, vector: Floats | None, label: str
    ) -> "tuple[list[MemoryHit], bool, MemoryFallback | None, Sequence[str]]":
        """Returns the hits, whether vectors were compared, why not for all, and notes."""
        lacks: MemoryFallback | None = None
        notes: Sequence[str] = ()
        zone = self._index.settings.zone
        recall = self._index.recalling()
        settings = SearchSettings(self._weighing(), self._clock.now_ms(), recall, zone)
        try:
            with self._index.reading() as (tables, collection, behind):
                if collection is None:
                    return by_words(tables, question), False, MemoryFallback(NAME, behind), notes
                if label:
                    lack = lacking(tables, label, 0 if vector is None else len(vector))
                    self._resized |= lack.resized
                    vector, lacks, notes = (
                        vector if lack.is_compared else None,
                        lack.fallback,
                        lack.notes,
                    )
                notes = (*notes, behind) if behind else notes
                searched = search(tables, collection, question, vector, settings)
                return searched, vector is not None, lacks, notes
        except (
            OSError,
            ValueError,
        ) as error:  # the derived collection can be neither read nor built
            self._index.mark_lost(str(error))
            lacks = MemoryFallback(NAME, f"its search collection cannot be used: {error}")
        with self._index.tables() as tables:
            return by_words(tables, question), False, lacks, notes

    def _document(self, path: str) -> MemoryDocument | None:
        if self._transcripts is None or not path.startswith(SESSIONS):
            return None
        conversation = next(
            (each for each in self._transcripts.conversations(0) if path_of(each) == path), None
        )
        if conversation is None:
            return None
        document = self._transcripts.document(conversation)
        return MemoryDocument(document.text, document.source, document.session)

    def _listing(self) -> list[MemoryFile]:
        with self._index.tables() as tables:
            return listing(tables)

    def _status(self, state: MemoryStatus) -> MemoryStatus:
        share = self._index.settings.share
        with self._index.tables() as tables:
            return filled(state, tables, self._each or EACH_SECONDS, share)

    def _state(self, embedder: "Embedder | None", *notes: str) -> MemoryStatus:
        """Returns the part of the state that needs no tables."""
        by_meaning = embedder is not None and not self._resized and not self._fallback
        return MemoryStatus(
            agent=self._agent,
            backend=NAME,
            files=0,
            chunks=0,
            dirty=self._dirty,
            indexed_at=None,
            provider="none" if embedder is None else embedder.model.provider,
            model="" if embedder is None else embedder.model.model,
            mode=MemoryMode.HYBRID if by_meaning else MemoryMode.TEXT,
            vectors=0,
            fallback=self._fallback,
            database=str(self._index.database.path),
            notes=(*self._index.notes, *notes),
            progress=self._progress,
        )


async def _thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
