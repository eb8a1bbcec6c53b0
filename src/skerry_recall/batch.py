"""Embeds many passages as one job of OpenAI's Batch API, at half the price."""

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
from skerry_recall.lengths import answered, of_size, split
from skerry_recall.numbers import Floats
from skerry_recall.remote import RemoteEmbedder, Spent

T = TypeVar("T")

MIN_TEXTS: Final = 200
"""Minimum number of texts of a job; for fewer the wait is too long."""
MAX_TEXTS: Final = 5_000
"""Maximum number of texts of a job; OpenAI accepts 50,000, but a response is read as a whole."""
_REQUEST_SECONDS: Final = 120.0
_FAILURES: Final = 2
"""Number of failures in a row after which no further job is started."""
_LISTED: Final = 20
"""Number of listed jobs that are searched for one from before a restart."""


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
    """Embeds many passages as jobs; `inner` embeds all other texts, and those that a job omits.

    A job carries the hash of its texts: after a restart the job is found by the hash and awaited,
    not paid twice. After two failures in a row `inner` embeds all texts.
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
        """Returns the length of its vectors; None before the first response."""
        return self._inner.dims

    @property
    def bulk(self) -> int:
        """Returns the number of passages of a job."""
        return MAX_TEXTS if self._failures < _FAILURES else self._inner.bulk

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row per text; see `embed.Embedder`. A job may take an hour."""
        is_job = MIN_TEXTS <= len(texts) <= MAX_TEXTS and kind is not Kind.QUERY
        if not is_job or self._failures >= _FAILURES:
            return await self._inner.embed(texts, kind)
        try:
            vectors = await self._by_job(texts)
        except EmbeddingError:
            self._failures += 1
            return await self._inner.embed(texts, kind)
        self._failures = 0
        missing = [row for row in range(len(texts)) if row not in vectors]
        if missing:
            vectors |= await self._at_once(texts, missing, vectors)
        return of_size([vectors[row] for row in range(len(texts))], self.dims)

    async def _at_once(
        self,
        texts: Sequence[str],
        missing: Sequence[int],
        vectors: Mapping[int, Floats],
    ) -> dict[int, Floats]:
        """Embeds the texts that the job omitted; an error contains the job's paid vectors too."""
        try:
            rows = await self._inner.embed([texts[row] for row in missing], Kind.PASSAGE)
        except EmbeddingError as error:
            answered_rows = {missing[at]: row for at, row in error.answered.items()}
            error.answered = {**vectors, **answered_rows}
            raise
        return dict(zip(missing, rows, strict=True))

    async def _by_job(self, texts: Sequence[str]) -> dict[int, Floats]:
        """Returns the vectors of the texts that the job answered, by the index of the text."""
        parts = split(texts, self._inner.wire.limits.text_tokens)
        lines = b"\n".join(
            _line(row, self._inner.wire.body(self.model.model, [part.text], Kind.PASSAGE))
            for row, part in enumerate(parts)
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
            rows, tokens = self._answer(output, len(parts))
            self._inner.on_spent(
                Spent(self.model, tokens, anyio.current_time() - begin, batch=True)
            )
            return answered(rows, parts, len(texts), self.dims)
        raise EmbeddingTimeoutError(f"{self.model}: the job did not end in time.")

    async def _job(self, lines: bytes) -> _Job:
        """Returns the job for these lines: one from before a restart, or a new one."""
        digest = hashlib.sha256(lines).hexdigest()
        jobs = self._read(await self._ask("GET", f"/batches?limit={_LISTED}"), _Jobs).data
        for job in jobs:
            is_same = (job.metadata or {}).get("texts") == digest
            if is_same and (job.open or job.status == "completed"):
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
            return await self._inner.http.ask(method, path, content, kind=kind)
        raise EmbeddingTimeoutError(f"{self.model} did not answer within {_REQUEST_SECONDS:g} s.")

    def _answer(self, output: bytes, count: int) -> tuple[Sequence[Floats | None], int]:
        """Returns the rows of the job, None for a failed line, and the number of billed tokens."""
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
            raise EmbeddingAnswerError(f"{self.model}: the job returned no vector.")
        job_rows = checked(matrix(vectors), len(vectors), None, str(self.model))
        self._inner.dims = job_rows.shape[1]
        rows: list[Floats | None] = [None] * count
        for index, row in zip(indices, job_rows, strict=True):
            rows[index] = row
        return rows, tokens

    def _read(self, body: bytes, shape: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=shape)
        except (ValueError, RecursionError) as error:
            raise EmbeddingAnswerError(f"{self.model}: the response cannot be parsed.") from error


def _line(row: int, body: dict[str, Any]) -> bytes:
    line = {"custom_id": str(row), "method": "POST", "url": "/v1/embeddings", "body": body}
    return msgspec.json.encode(line)


def _form(lines: bytes, boundary: str) -> bytes:
    """Returns the file as a multipart form (RFC 7578)."""
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="texts.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return head.encode() + lines + f"\r\n--{boundary}--\r\n".encode()
