"""OpenAI's Batch API: many passages as one job, at half the price, when there is time."""

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio
import msgspec

from skerry_recall.embed import (
    EmbeddingAnswerError,
    EmbeddingError,
    EmbeddingTimeoutError,
    Kind,
    checked,
)
from skerry_recall.embedding_apis import OpenAiAnswer, matrix
from skerry_recall.lengths import answered, of_size, pieces
from skerry_recall.numbers import Floats
from skerry_recall.remote import RemoteEmbedder, Spent

T = TypeVar("T")

LEAST: Final = 200
"""Texts for which a job is worth its wait."""
MOST: Final = 5_000
"""Texts of one job; OpenAI takes 50,000, but an answer is read as a whole."""
_REQUEST_SECONDS: Final = 120.0
_FAILURES: Final = 2
"""Number of failures after which no job is started any more."""
_KEPT: Final = 20
"""Jobs that are looked through for one of an earlier life."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Interval and time limit of the wait for a job, in seconds."""

    poll: float = 2.0
    timeout: float = 3600.0


class _Job(msgspec.Struct):
    id: str
    status: str
    output_file_id: str | None = None
    metadata: dict[str, str] | None = None

    @property
    def open(self) -> bool:
        return self.status in {"validating", "in_progress", "finalizing"}


class _Jobs(msgspec.Struct):
    data: list[_Job]


class _File(msgspec.Struct):
    id: str


class _Response(msgspec.Struct):
    status_code: int
    body: OpenAiAnswer | None = None


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None


class BatchEmbedder:
    """Embeds many passages by jobs, all else at once by `inner`, which also has what a job fails.

    A job carries the hash of its texts: one that was begun before a restart is found again and
    waited for, not paid twice. After two failures it is `inner` alone.
    """

    local = False

    def __init__(
        self,
        inner: RemoteEmbedder,
        settings: BatchSettings | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.model = inner.model
        self._inner = inner
        self._settings = settings or BatchSettings()
        self._sleep = sleep
        self._failures = 0

    @property
    def dims(self) -> int | None:
        """Returns the length of its vectors; None before the first answer."""
        return self._inner.dims

    @property
    def bulk(self) -> int:
        """Returns how many passages make a job."""
        return MOST if self._failures < _FAILURES else self._inner.bulk

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row a text; see `embed.Embedder`. A job may take an hour."""
        few = len(texts) < LEAST or len(texts) > MOST
        if few or kind is Kind.QUERY or self._failures >= _FAILURES:
            return await self._inner.embed(texts, kind)
        try:
            done = await self._by_job(texts)
        except EmbeddingError:
            self._failures += 1
            return await self._inner.embed(texts, kind)
        self._failures = 0
        open_rows = [row for row in range(len(texts)) if row not in done]
        if open_rows:
            done |= await self._at_once(texts, open_rows, done)
        return of_size([done[row] for row in range(len(texts))], self.dims)

    async def _at_once(
        self,
        texts: Sequence[str],
        open_rows: Sequence[int],
        done: Mapping[int, Floats],
    ) -> dict[int, Floats]:
        """Embeds the rest that the job left out; on failure, the job's paid results are kept."""
        try:
            rows = await self._inner.embed([texts[row] for row in open_rows], Kind.PASSAGE)
        except EmbeddingError as error:
            error.done = {**done, **{open_rows[at]: row for at, row in error.done.items()}}
            raise
        return dict(zip(open_rows, rows, strict=True))

    async def _by_job(self, texts: Sequence[str]) -> dict[int, Floats]:
        """Returns the vectors of the texts that the job has, by place."""
        all_pieces = pieces(texts, self._inner.wire.limits.text_tokens)
        lines = b"\n".join(
            _line(row, self._inner.wire.body(self.model.model, [piece.text], Kind.PASSAGE))
            for row, piece in enumerate(all_pieces)
        )
        begin = anyio.current_time()
        with anyio.move_on_after(self._settings.timeout):
            job = await self._job(lines)
            while job.open:
                await self._sleep(self._settings.poll)
                job = self._read(await self._ask("GET", f"/batches/{job.id}"), _Job)
            if job.status != "completed" or job.output_file_id is None:
                raise EmbeddingError(f"{self.model}: the job is {job.status}.")
            output = await self._ask("GET", f"/files/{job.output_file_id}/content")
            rows, tokens = self._answer(output, len(all_pieces))
            self._inner.on_spent(
                Spent(self.model, tokens, anyio.current_time() - begin, batch=True)
            )
            return answered(rows, all_pieces, len(texts), self.dims)
        raise EmbeddingTimeoutError(f"{self.model}: the job was not done in time.")

    async def _job(self, lines: bytes) -> _Job:
        """Returns the job for these lines: an earlier one, or one that begins."""
        digest = hashlib.sha256(lines).hexdigest()
        jobs = self._read(await self._ask("GET", f"/batches?limit={_KEPT}"), _Jobs).data
        for job in jobs:
            mine = (job.metadata or {}).get("texts") == digest
            if mine and (job.open or job.status == "completed"):
                return job
        self._inner.allow()
        boundary = uuid.uuid4().hex
        upload = self._read(
            await self._ask("POST", "/files", _form(lines, boundary), boundary), _File
        )
        request = {
            "input_file_id": upload.id,
            "endpoint": "/v1/embeddings",
            "completion_window": "24h",
            "metadata": {"texts": digest},
        }
        return self._read(await self._ask("POST", "/batches", msgspec.json.encode(request)), _Job)

    async def _ask(self, method: str, path: str, content: bytes = b"", boundary: str = "") -> bytes:
        kind = f"multipart/form-data; boundary={boundary}" if boundary else "application/json"
        with anyio.move_on_after(_REQUEST_SECONDS):
            return await self._inner.asking.ask(method, path, content, kind=kind)
        raise EmbeddingTimeoutError(f"{self.model} needed more than {_REQUEST_SECONDS:g} s.")

    def _answer(self, output: bytes, count: int) -> tuple[Sequence[Floats | None], int]:
        """Returns the rows that the job has, None for a line that failed, and what they cost."""
        indices: list[int] = []
        vectors: list[list[float | None] | None] = []
        tokens = 0
        for raw in output.splitlines():
            line = self._read(raw, _Line)
            body = line.response.body if line.response else None
            index = int(line.custom_id) if line.custom_id.isdecimal() else count
            if body is None or len(body.data) != 1 or index >= count:
                continue
            indices.append(index)
            vectors.append(body.data[0].embedding)
            tokens += body.usage.total_tokens or 0
        if not vectors:
            raise EmbeddingAnswerError(f"{self.model}: the job has no vector.")
        rows_given = checked(matrix(vectors), len(vectors), None, str(self.model))
        self._inner.dims = rows_given.shape[1]
        rows: list[Floats | None] = [None] * count
        for index, row in zip(indices, rows_given, strict=True):
            rows[index] = row
        return rows, tokens

    def _read(self, body: bytes, shape: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=shape)
        except (ValueError, RecursionError) as error:
            raise EmbeddingAnswerError(f"{self.model}: the answer cannot be read.") from error


def _line(row: int, body: dict[str, Any]) -> bytes:
    line = {"custom_id": str(row), "method": "POST", "url": "/v1/embeddings", "body": body}
    return msgspec.json.encode(line)


def _form(lines: bytes, boundary: str) -> bytes:
    """Returns the file as a form (RFC 7578)."""
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="texts.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return head.encode() + lines + f"\r\n--{boundary}--\r\n".encode()
