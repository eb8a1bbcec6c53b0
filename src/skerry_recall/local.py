"""An embedding model in a process of its own, which lives as long as it is used."""

import math
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from skerry_recall.embed import (
    EmbeddingAnswerError,
    EmbeddingError,
    EmbeddingModel,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
    Kind,
    checked,
)
from skerry_recall.frames import (
    HEAD,
    Asked,
    EmbeddedVectors,
    Failed,
    Load,
    Loaded,
    Texts,
    Told,
    checked_length,
    frame,
    matrix,
    told,
)
from skerry_recall.lengths import joined, pieces
from skerry_recall.numbers import Floats, np

LOAD_SECONDS: Final = 120.0
QUERY_SECONDS: Final = 300.0
"""Seconds for the texts of one question, from the moment of their turn."""
BATCH_SECONDS: Final = 600.0
"""Seconds for a few passages."""
IDLE_SECONDS: Final = 600.0
_BATCH: Final = 4
"""Texts that the process takes at once: more cost more time a text, and keep a question waiting."""
_TEXT_TOKENS: Final = 2048
"""Tokens of one text, until the model has reported its limit."""
_CRASHES: Final = 2
"""Crashes of the process over the same texts, until they are given up."""
_MAX_STDERR: Final = 600  # characters of the process's last words
_COMMAND: Final = (sys.executable, "-P", "-m", "skerry_recall.worker")
# It needs no more than one thread.
_ONE_THREAD: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


class WorkerProcess(Protocol):
    """The process, as whoever starts it hands it over."""

    @property
    def pid(self) -> int:
        """Returns its process id."""
        ...

    @property
    def stdin(self) -> anyio.abc.ByteSendStream:
        """Returns its standard input."""
        ...

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        """Returns its standard output."""
        ...

    @property
    def tail(self) -> str:
        """Returns the last of its standard error, complete once it has ended."""
        ...


Start = Callable[[Sequence[str], Mapping[str, str]], AbstractAsyncContextManager[WorkerProcess]]
"""Runs a command for the block with variables beside those that a Python program needs; raises
`OSError` where it cannot be started. The end of the block, or of this process, ends it."""


@dataclass(eq=False, slots=True)
class _Job:
    """Texts that wait for the process, or are in it."""

    texts: Texts
    seconds: float
    done: anyio.Event = field(default_factory=anyio.Event)
    vectors: Floats | None = None
    error: EmbeddingError | None = None
    crashes: int = 0
    abandoned: bool = False

    def fail(self, error: EmbeddingError) -> None:
        self.error = error
        self.done.set()


class _DiedError(Exception):
    """The process ended, or says nonsense."""


class LocalEmbedder(anyio.AsyncContextManagerMixin):
    """Starts the process with the first texts, again after it died, ends it when it was idle.

    Use as `async with LocalEmbedder(...)`; leaving the block ends the process. What is asked before
    waits for it. Questions come
    before passages, and a caller that is cancelled leaves the process as it is. `model` is one of
    `skerry_recall.models`, `path` the file of one that is given by its file.
    """

    local = True
    bulk = 32

    def __init__(
        self,
        model: str,
        path: str = "",
        *,
        start: Start,
        idle_seconds: float = IDLE_SECONDS,
        command: Sequence[str] = _COMMAND,
    ) -> None:
        self.model = EmbeddingModel("local", model)
        self.dims: int | None = None
        self._path = path
        self._start = start
        self._idle_seconds = idle_seconds
        self._command = command
        self._text_tokens = _TEXT_TOKENS
        self._waiting: dict[Kind, deque[_Job]] = {Kind.QUERY: deque(), Kind.PASSAGE: deque()}
        self._news = anyio.Event()
        self._process: WorkerProcess | None = None
        self._job: _Job | None = None
        self._ended = False
        self._loading = False

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run)
            try:
                yield self
            finally:
                self._ended = True
                self._fail_all(EmbeddingUnavailableError(f"{self.model} is ending."))
                tasks.cancel_scope.cancel()

    @property
    def process_id(self) -> int | None:
        """Returns the id of the process, if there is one."""
        return self._process.pid if self._process else None

    @property
    def is_loading(self) -> bool:
        """Returns whether the process was started and has not read its model yet."""
        return self._loading

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row a text; see `embed.Embedder`."""
        all_pieces = pieces(texts, self._text_tokens)
        rows: list[Floats] = []
        for begin in range(0, len(all_pieces), _BATCH):
            batch = [piece.text for piece in all_pieces[begin : begin + _BATCH]]
            rows.append(await self._ask(batch, kind))
        if not rows:
            return np.zeros((0, self.dims or 0), np.float32)
        return joined(np.concatenate(rows), all_pieces, len(texts))

    async def _ask(self, texts: list[str], kind: Kind) -> Floats:
        if self._ended:
            raise EmbeddingUnavailableError(f"{self.model} has ended.")
        job = _Job(Texts(kind.value, texts), QUERY_SECONDS if kind is Kind.QUERY else BATCH_SECONDS)
        self._waiting[kind].append(job)
        self._news.set()
        try:
            await job.done.wait()
        finally:
            job.abandoned = True
        if job.error is not None:
            raise job.error
        if job.vectors is None:
            raise TypeError("a job that is done has vectors or an error")
        return job.vectors

    async def _run(self) -> None:
        """Owns one process after the other."""
        while True:
            await self._expect(math.inf)
            self._loading = True
            process: WorkerProcess | None = None
            try:
                starting = self._start(self._command, dict.fromkeys(_ONE_THREAD, "1"))
                async with starting as process:
                    self._process = process
                    pipe = _Pipe(process)
                    await self._load(pipe)
                    self._loading = False
                    await self._serve(pipe)
            except _DiedError as error:
                words = " ".join(process.tail.split())[-_MAX_STDERR:] if process else ""
                output = f" It said: {words}" if words else ""
                self._died(f"The process of {self.model} {error}.{output}")
            except EmbeddingError as error:
                self._fail_all(error)
            except OSError as error:
                self._fail_all(EmbeddingUnavailableError(f"{self.model}: {error}"))
            finally:
                self._process, self._loading = None, False

    async def _expect(self, seconds: float) -> bool:
        """Waits until there is a job; returns whether there is one within the time."""
        while not any(self._waiting.values()):
            self._news = anyio.Event()
            with anyio.move_on_after(seconds) as limit:
                await self._news.wait()
            if limit.cancelled_caught:
                return False
        return True

    async def _load(self, pipe: "_Pipe") -> None:
        try:
            with anyio.fail_after(LOAD_SECONDS):
                answer = await pipe.ask(Load(self.model.model, self._path))
        except TimeoutError as error:
            raise EmbeddingTimeoutError(
                f"{self.model} was not loaded after {LOAD_SECONDS:g} s."
            ) from error
        match answer:
            case Loaded(dims, text_tokens):
                self.dims, self._text_tokens = dims, text_tokens
            case Failed(message, remedy):
                raise EmbeddingUnavailableError(message, remedy)
            case EmbeddedVectors():
                raise _DiedError("answered before it was asked")

    async def _serve(self, pipe: "_Pipe") -> None:
        """Answers jobs until there was none for a while."""
        while await self._expect(self._idle_seconds):
            self._job = (self._waiting[Kind.QUERY] or self._waiting[Kind.PASSAGE]).popleft()
            if not self._job.abandoned:
                await self._answer(pipe, self._job)
            self._job = None

    async def _answer(self, pipe: "_Pipe", job: _Job) -> None:
        try:
            with anyio.fail_after(job.seconds):
                answer = await pipe.ask(job.texts)
        except TimeoutError as error:
            job.fail(EmbeddingTimeoutError(f"{self.model} needed more than {job.seconds:g} s."))
            raise _DiedError("was ended") from error
        match answer:
            case EmbeddedVectors():
                try:
                    rows = matrix(answer)
                    job.vectors = checked(rows, len(job.texts.texts), self.dims, str(self.model))
                    job.done.set()
                except EmbeddingAnswerError as error:  # the same comes of the same texts here
                    job.fail(EmbeddingRefusedError(str(error)))
                except ValueError as error:
                    raise _DiedError(f"answered no rows: {error}") from error
            case Failed(message):
                job.fail(EmbeddingRefusedError(f"{self.model} refused the texts: {message}."))
            case Loaded():
                raise _DiedError("loaded twice")

    def _died(self, message: str) -> None:
        """Gives the job in hand, or the next one, to another process; or give it up."""
        queues = [queue for queue in self._waiting.values() if queue]
        job, self._job = self._job or (queues[0].popleft() if queues else None), None
        if job is None or job.done.is_set():
            return
        job.crashes += 1
        if job.crashes >= _CRASHES:
            job.fail(EmbeddingError(message))
        else:
            self._waiting[Kind(job.texts.kind)].appendleft(job)

    def _fail_all(self, error: EmbeddingError) -> None:
        jobs = [self._job] if self._job else []
        for queue in self._waiting.values():
            jobs += queue
            queue.clear()
        for job in jobs:
            job.fail(error)


class _Pipe:
    """The frames of a process."""

    def __init__(self, process: WorkerProcess) -> None:
        self._in = process.stdin
        self._out = BufferedByteReceiveStream(process.stdout)

    async def ask(self, message: Asked) -> Told:
        """Sends the message and returns the answer. Raises `_DiedError`."""
        try:
            await self._in.send(frame(message))
            head = await self._out.receive_exactly(HEAD.size)
            return told(await self._out.receive_exactly(checked_length(*HEAD.unpack(head))))
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError) as error:
            raise _DiedError("ended") from error
        except (anyio.ClosedResourceError, OSError) as error:
            raise _DiedError(f"does not listen: {error}") from error
        except ValueError as error:
            raise _DiedError(f"says nonsense: {error}") from error
