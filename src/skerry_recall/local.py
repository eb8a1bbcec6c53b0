"""Embedding model in a separate process, which starts at first use and ends when idle."""

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
    EmbeddedVectors,
    Failed,
    Load,
    Loaded,
    OwnerMessage,
    Texts,
    WorkerMessage,
    checked_length,
    decode_worker_message,
    frame,
    matrix,
)
from skerry_recall.lengths import joined, split
from skerry_recall.numbers import Floats, np

LOAD_SECONDS: Final = 120.0
QUERY_SECONDS: Final = 300.0
"""Time limit for the texts of one question, from the start of their request."""
BATCH_SECONDS: Final = 600.0
"""Time limit for a batch of passages."""
IDLE_SECONDS: Final = 600.0
_BATCH: Final = 4
"""Texts of one request: with more, each text takes longer, and a question waits longer."""
_TEXT_TOKENS: Final = 2048
"""Tokens of one text, until the model has reported its limit."""
_CRASHES: Final = 2
"""Number of crashes with the same texts after which these texts fail."""
_MAX_STDERR: Final = 600  # characters of the end of its standard error, in an error message
_COMMAND: Final = (sys.executable, "-P", "-m", "skerry_recall.worker")
# The process needs one thread only.
_ONE_THREAD: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


class WorkerProcess(Protocol):
    """A running worker process."""

    @property
    def pid(self) -> int:
        """Returns the process id."""
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
        """Returns the end of its standard error; complete once the process has ended."""
        ...


Start = Callable[[Sequence[str], Mapping[str, str]], AbstractAsyncContextManager[WorkerProcess]]
"""Runs a command with additional environment variables; leaving the block, or the end of this
process, ends it. Raises `OSError` if it cannot be started."""


@dataclass(eq=False, slots=True)
class _Job:
    """Texts that wait for the process, or are being embedded."""

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
    """Error: the process ended, or sent an invalid frame."""


class LocalEmbedder(anyio.AsyncContextManagerMixin):
    """Starts the process with the first texts, restarts it after a crash, ends it when idle.

    Use as `async with LocalEmbedder(...)`; leaving the block ends the process. Requests wait until
    the model is loaded; questions precede passages. Cancelling a caller does not stop the process.
    `model` is a name in `skerry_recall.models`, `path` the file of a GGUF model.
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
        """Returns the id of the process; None if it does not run."""
        return self._process.pid if self._process else None

    @property
    def is_loading(self) -> bool:
        """Returns whether the process is starting and has not loaded its model yet."""
        return self._loading

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row per text; see `embed.Embedder`."""
        parts = split(texts, self._text_tokens)
        rows: list[Floats] = []
        for begin in range(0, len(parts), _BATCH):
            batch = [part.text for part in parts[begin : begin + _BATCH]]
            rows.append(await self._ask(batch, kind))
        if not rows:
            return np.zeros((0, self.dims or 0), np.float32)
        return joined(np.concatenate(rows), parts, len(texts))

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
            raise TypeError("a completed job has neither vectors nor an error")
        return job.vectors

    async def _run(self) -> None:
        """Runs one process after the other."""
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
                tail = " ".join(process.tail.split())[-_MAX_STDERR:] if process else ""
                output = f" Its error output: {tail}" if tail else ""
                self._died(f"The process of {self.model} {error}.{output}")
            except EmbeddingError as error:
                self._fail_all(error)
            except OSError as error:
                self._fail_all(EmbeddingUnavailableError(f"{self.model}: {error}"))
            finally:
                self._process, self._loading = None, False

    async def _expect(self, seconds: float) -> bool:
        """Waits up to `seconds` for a job; returns whether there is one."""
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
                raise _DiedError("sent vectors without a request")

    async def _serve(self, pipe: "_Pipe") -> None:
        """Runs jobs until there is none for `idle_seconds`."""
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
            job.fail(
                EmbeddingTimeoutError(f"{self.model} did not answer within {job.seconds:g} s.")
            )
            raise _DiedError("was ended") from error
        match answer:
            case EmbeddedVectors():
                try:
                    rows = matrix(answer)
                    job.vectors = checked(rows, len(job.texts.texts), self.dims, str(self.model))
                    job.done.set()
                except EmbeddingAnswerError as error:  # a retry with the same texts fails too
                    job.fail(EmbeddingRefusedError(str(error)))
                except ValueError as error:
                    raise _DiedError(f"sent invalid rows: {error}") from error
            case Failed(message):
                job.fail(EmbeddingRefusedError(f"{self.model} refused the texts: {message}."))
            case Loaded():
                raise _DiedError("sent `Loaded` twice")

    def _died(self, message: str) -> None:
        """Queues the present or the next job again for another process, or fails it."""
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
    """Frames to and from a process."""

    def __init__(self, process: WorkerProcess) -> None:
        self._in = process.stdin
        self._out = BufferedByteReceiveStream(process.stdout)

    async def ask(self, message: OwnerMessage) -> WorkerMessage:
        """Sends the message and returns the answer. Raises `_DiedError`."""
        try:
            await self._in.send(frame(message))
            head = await self._out.receive_exactly(HEAD.size)
            return decode_worker_message(
                await self._out.receive_exactly(checked_length(*HEAD.unpack(head)))
            )
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError) as error:
            raise _DiedError("ended") from error
        except (anyio.ClosedResourceError, OSError) as error:
            raise _DiedError(f"cannot be written to: {error}") from error
        except ValueError as error:
            raise _DiedError(f"sent an invalid frame: {error}") from error
