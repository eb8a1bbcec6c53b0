"""The built-in memory: an index of our own, brought up to date before it answers."""

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

if TYPE_CHECKING:  # numpy and the model come with the first use
    from skerry_recall.embed import Embedder

logger = logging.getLogger(__name__)

T = TypeVar("T")
NAME: Final = "builtin"
MEASURED: Final = 8
"""Texts that tell what one costs; of fewer, to load the model is the larger part."""
LOADING: Final = "its model is being loaded; ask again in a few seconds"


class BuiltinMemory:
    """The memory of one agent over its own index. A `ports.memory.MemoryBackend`.

    Nothing is opened before the first search or sync. `close` it at the end.
    """

    def __init__(  # noqa: PLR0913 - each is one thing that it is given
        self,
        agent: AgentId,
        index: Index,
        clock: Clock,
        *,
        talks: Conversations | None = None,
        embedder: "Callable[[], Embedder | None]" = lambda: None,
        weighing: Callable[[], Weighing] = Weighing,
        settings: Callable[[], IndexSettings] | None = None,
    ) -> None:
        """Takes what it is given; `settings` says anew each time what the index is to hold."""
        self._agent = agent
        self._index = index
        self._clock = clock
        self._talks = talks
        self._embedder = embedder
        self._weighing = weighing
        self._settings = settings
        self._embedding = anyio.Lock()
        self._dirty = True
        self.looked = False
        """True when all changes were just indexed, so that the next search need not check."""
        self._fallback: MemoryFallback | None = None
        self._progress: MemoryProgress | None = None
        self._resized = False
        self._each = 0.0
        """Seconds that the vector of a passage took lately."""

    @property
    def name(self) -> str:
        """Returns `builtin`."""
        return NAME

    @property
    def fallback(self) -> MemoryFallback | None:
        """Returns why the model did not answer when it was asked last, or None if it did."""
        return self._fallback

    @property
    def resized(self) -> bool:
        """Returns whether vectors have another size than before, so that all want to be made."""
        return self._resized

    @property
    def dirty(self) -> bool:
        """Returns whether something changed since it was indexed, as far as is known."""
        return self._dirty

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        """Returns the passages that answer best, of the files as they are now.

        Raises:
            MemoryBackendError: the index can neither be read nor made anew.
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
        """Brings the index up to what the files say; `force` builds it anew beside the old one.

        Words first, which are searched at once, then the vectors.

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
        """Does `sync` without the vectors."""
        self._configure()
        self._dirty = False
        tell = partial(self._tell, progress)
        work = partial(self._index.sync, force=force, talks=self._talks, report=tell)
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
        """Gives passages their vectors; returns how many texts the model was asked for.

        Where the model fails, what it did stays, and `status` says why; the next call goes on.
        With `force` a server is asked first whether it still has the same model behind its name.
        After `seconds` no more is asked for.

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
                done = await embed(self._index, embedder, tell, selection)
                if done >= MEASURED:
                    self._each = (anyio.current_time() - begun) / done
            except EmbeddingError as error:
                self._fallback = MemoryFallback(embedder.model.provider, str(error))
                logger.warning("the memory is searched by words: %s", error)
                return 0
            except IndexDamagedError as error:  # the next sync makes it anew
                raise MemoryBackendError(f"The memory's index is damaged: {error}.") from error
            finally:
                self._progress = None
        self._fallback, self._resized = None, False
        return done

    async def waits(self) -> bool:
        """Returns whether a whole passage of a conversation waits for its vector.

        Raises:
            MemoryBackendError: the index cannot be read.
        """
        embedder = self._embedder()
        if embedder is None:
            return False
        return await self._mended(partial(waits, self._index, embedder.model))

    async def forget(self, redaction: Redaction) -> int:
        """Leaves nothing of the phrases in the index; returns how many documents held them.

        The files and conversations are not to hold them any more.

        Raises:
            MemoryBackendError: the index cannot be written, or is closed.
        """
        try:
            report = await _thread(partial(self._index.forget, redaction, self._talks))
        except StoppedError as error:
            raise MemoryBackendError("The memory is closed.") from error
        return report.removed

    def touch(self) -> None:
        """Notes that files changed: the next search looks at them first."""
        self._dirty = True

    async def document(self, path: str) -> MemoryDocument | None:
        """Returns a conversation by the path of a hit; None where there is no such document."""
        return await _thread(partial(self._document, path))

    async def status(self) -> MemoryStatus:
        """Returns its state; it never fails."""
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
        """Lets go of the index. Blocks until a job that runs has noticed."""
        self._index.close()

    def _tell(self, progress: Callable[[MemoryProgress], None] | None, now: MemoryProgress) -> None:
        self._progress = now
        if progress is not None:
            progress(now)

    def _configure(self) -> None:
        """Lets the index have the settings of now."""
        if self._settings is not None:
            self._index.settings = self._settings()

    async def _freshen(self, seconds: float) -> Sequence[str]:
        """Brings in files that changed; returns what keeps the answer from being complete."""
        try:
            with anyio.move_on_after(seconds):
                if await _thread(partial(self._index.freshen, seconds)):
                    return ()
        except (MemoryBackendError, StoppedError) as error:
            return (str(error),)  # what is indexed is still found
        return ("The index is being updated; the latest changes may be missing.",)

    async def _vector(
        self, text: str, seconds: float, patience: float
    ) -> tuple[Floats | None, str, MemoryFallback | None]:
        """Returns the vector of a question and its model; None where words have to do.

        With it, what is to be said where the model was being loaded all the time: that will pass.
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
        """Returns the hits, whether meaning was compared, why not for all, and what waits."""
        lacks: MemoryFallback | None = None
        notes: Sequence[str] = ()
        zone = self._index.settings.zone
        recall = self._index.recalling()
        asking = SearchSettings(self._weighing(), self._clock.now_ms(), recall, zone)
        try:
            with self._index.reading() as (tables, collection, behind):
                if collection is None:
                    return by_words(tables, question), False, MemoryFallback(NAME, behind), notes
                if label:
                    lack = lacking(tables, label, 0 if vector is None else len(vector))
                    self._resized |= lack.resized
                    vector, lacks, notes = vector if lack.meant else None, lack.fallback, lack.notes
                notes = (*notes, behind) if behind else notes
                searched = search(tables, collection, question, vector, asking)
                return searched, vector is not None, lacks, notes
        except (OSError, ValueError) as error:  # what is derived can neither be read nor made
            self._index.lost(str(error))
            lacks = MemoryFallback(NAME, f"what is derived of its tables cannot be used: {error}")
        with self._index.tables() as tables:
            return by_words(tables, question), False, lacks, notes

    def _document(self, path: str) -> MemoryDocument | None:
        if self._talks is None or not path.startswith(SESSIONS):
            return None
        conversation = next(
            (talk for talk in self._talks.conversations(0) if path_of(talk) == path), None
        )
        if conversation is None:
            return None
        made = self._talks.document(conversation)
        return MemoryDocument(made.text, made.source, made.session)

    def _listing(self) -> list[MemoryFile]:
        with self._index.tables() as tables:
            return listing(tables)

    def _status(self, state: MemoryStatus) -> MemoryStatus:
        share = self._index.settings.share
        with self._index.tables() as tables:
            return filled(state, tables, self._each or EACH_SECONDS, share)

    def _state(self, embedder: "Embedder | None", *notes: str) -> MemoryStatus:
        """Returns the state as far as it is known without the tables."""
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
