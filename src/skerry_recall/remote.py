"""Embedding model over HTTP: sends batches, a few at once, and retries temporary failures."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
import httpx2
import msgspec

from skerry_recall.embed import (
    EmbeddingAnswerError,
    EmbeddingError,
    EmbeddingModel,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    Kind,
    checked,
)
from skerry_recall.embedding_apis import Wire
from skerry_recall.failed_responses import FailedResponse, failure
from skerry_recall.lengths import ModelText, answered, joined, of_size, requests, split
from skerry_recall.numbers import Floats, np

QUERY_SECONDS: Final = 60.0
BATCH_SECONDS: Final = 120.0
RETRIES: Final = 3
CONCURRENCY: Final = 4
_FIRST_DELAY: Final = 0.5
_MAX_DELAY: Final = 8.0
_MAX_HINT: Final = 60.0
"""Maximum retry delay from a provider, in seconds; a longer one fails at once."""
_ANSWER_LIMIT: Final = 64 * 1024 * 1024
_ERROR_LIMIT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Spent:
    """Usage of one request, successful or not."""

    model: EmbeddingModel
    tokens: int | None
    """Billed tokens; None if the provider did not report them."""
    seconds: float
    error: EmbeddingError | None = None
    batch: bool = False
    """True for a batch job, at half the price."""


def discard_usage(spent: Spent) -> None:
    """Discards the usage of a request."""


def allow_all() -> None:
    """Allows every request."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Address of a model, and its authentication."""

    model: EmbeddingModel
    base_url: str
    """Up to and including the version, such as `/v1`."""
    wire: Wire
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request; they override the default headers."""
    unlock: Callable[[], Awaitable[str]] | None = field(default=None, repr=False)
    """Returns the key for each request, in place of `api_key`. Raises `EmbeddingError`."""

    def all_headers(self, api_key: str) -> dict[str, str]:
        """Returns the headers of every request."""
        key = self.wire.headers(api_key) if api_key else {}
        configured = {name.lower(): value for name, value in self.headers.items()}
        return {"accept-encoding": "identity", **key, **configured}


class EmbeddingHttp:
    """Sends requests to one provider and reads the responses within a size limit.

    `http` must follow no redirect and refuse forbidden addresses; the caller closes it.
    """

    def __init__(self, http: httpx2.AsyncClient, remote: Remote) -> None:
        self._http = http
        self._remote = remote
        self._secrets = [value.split()[-1] for value in remote.headers.values() if value.strip()]

    async def ask(
        self, method: str, path: str, content: bytes = b"", *, kind: str = "application/json"
    ) -> bytes:
        """Sends a request and returns the body of a response with status 200.

        Raises:
            EmbeddingError: the provider refused or failed, or cannot be reached.
        """
        remote = self._remote
        key = remote.api_key if remote.unlock is None else await remote.unlock()
        headers = {"content-type": kind, **remote.all_headers(key)}
        url = self._remote.base_url.rstrip("/") + path
        provider = str(self._remote.model.provider)
        try:
            request = httpx2.Request(method, url, headers=headers, content=content)
            response = await self._http.send(request, stream=True)
            try:
                is_ok = response.status_code == httpx2.codes.OK
                limit = _ANSWER_LIMIT if is_ok else _ERROR_LIMIT
                body = await _read(response, limit, cut=not is_ok)
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise EmbeddingError(f"{provider} cannot be reached: {reason}") from error
        if is_ok:
            return body
        text = body.decode(errors="replace")
        for secret in (key, *self._secrets):
            if len(secret) >= 8:  # noqa: PLR2004 - a shorter one may be part of a word
                text = text.replace(secret, "***")
        raise failure(FailedResponse(provider, response.status_code, response.headers, text))


class RemoteEmbedder:
    """Embedder of a hosted model, or of a self-hosted server.

    `on_spent` is called with the usage of each request. `allow` is called before each request and
    raises `EmbeddingError` to forbid it.
    """

    local = False
    bulk = 256

    def __init__(
        self,
        http: httpx2.AsyncClient,
        remote: Remote,
        *,
        on_spent: Callable[[Spent], None] = discard_usage,
        allow: Callable[[], None] = allow_all,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.model = remote.model
        self.dims: int | None = None
        self.http = EmbeddingHttp(http, remote)
        self.wire = remote.wire
        self.on_spent = on_spent
        self.allow = allow
        self._sleep = sleep
        self._chance = chance
        self._slots = anyio.Semaphore(CONCURRENCY)

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row per text; see `embed.Embedder`."""
        parts = split(texts, self.wire.limits.text_tokens)
        rows: list[Floats | None] = []
        failed: list[EmbeddingError] = []

        async def embed_batch(batch: list[ModelText], begin: int) -> None:
            async with self._slots:
                if failed:
                    return  # requests in flight are paid and awaited; no further one is sent
                try:
                    vectors = await self._with_retries([part.text for part in batch], kind, failed)
                except EmbeddingError as error:
                    if not isinstance(error, EmbeddingRefusedError):  # it concerns these texts only
                        failed.append(error)
                    refused.append(error)
                    return
                rows[begin : begin + len(batch)] = list(vectors)

        refused: list[EmbeddingError] = []
        async with anyio.create_task_group() as tasks:
            for batch in requests(parts, self.wire.limits):
                tasks.start_soon(embed_batch, batch, len(rows))
                rows += [None] * len(batch)
        if not rows:
            return np.zeros((0, self.dims or 0), np.float32)
        if refused:
            error = (failed or refused)[0]
            error.answered = answered(rows, parts, len(texts), self.dims)
            raise error
        return joined(of_size(rows, self.dims), parts, len(texts))

    async def _with_retries(
        self, texts: list[str], kind: Kind, failed: Sequence[EmbeddingError]
    ) -> Floats:
        """Requests vectors; retries temporary failures unless another request has failed."""
        for failures in range(RETRIES + 1):
            try:
                return await self._metered(texts, kind)
            except EmbeddingError as error:
                pause = delay(failures, error, self._chance())
                if pause is None or failed:
                    raise
            await self._sleep(pause)
        raise AssertionError("the last failure is raised")

    async def _metered(self, texts: list[str], kind: Kind) -> Floats:
        """Sends one request and reports its usage to `on_spent`."""
        self.allow()
        begin = anyio.current_time()
        try:
            rows, tokens = await self._request(texts, kind)
        except EmbeddingError as error:
            self.on_spent(Spent(self.model, None, anyio.current_time() - begin, error))
            raise
        self.on_spent(Spent(self.model, tokens, anyio.current_time() - begin))
        return rows

    async def _request(self, texts: list[str], kind: Kind) -> tuple[Floats, int | None]:
        content = msgspec.json.encode(self.wire.body(self.model.model, texts, kind))
        seconds = QUERY_SECONDS if kind is Kind.QUERY else BATCH_SECONDS
        try:
            with anyio.fail_after(seconds):
                body = await self.http.ask("POST", self.wire.path(self.model.model), content)
        except TimeoutError as error:
            text = f"{self.model} did not answer within {seconds:g} s."
            raise EmbeddingTimeoutError(text) from error
        answer = self.wire.answer(body)
        rows = checked(answer.rows, len(texts), None, str(self.model))
        self.dims = rows.shape[1]  # of the last response: a server may change its model
        return rows, answer.tokens


def delay(failures: int, error: EmbeddingError, chance: float) -> float | None:
    """Returns the seconds until the next attempt after `failures` earlier ones; None to give up.

    0.5 s to 8 s, doubling, with jitter from `chance` in [0, 1). A delay that the provider requests
    replaces it; one above a minute gives up.
    """
    hint = error.retry_after
    if failures >= RETRIES or not error.passing or (hint or 0) > _MAX_HINT:
        return None
    pause = min(_MAX_DELAY, _FIRST_DELAY * 2.0**failures)
    return pause * (0.5 + chance / 2) if hint is None else hint + chance * _FIRST_DELAY


async def _read(response: httpx2.Response, limit: int, *, cut: bool) -> bytes:
    """Returns the body; one of more than `limit` bytes is cut off if `cut` is true, else raises."""
    parts: list[bytes] = []
    remaining = limit
    async for part in response.aiter_raw():
        parts.append(part[:remaining])
        remaining -= len(part)
        if remaining < 0 and not cut:
            raise EmbeddingAnswerError(f"the response has more than {limit} bytes")
        if remaining < 0:
            break
    return b"".join(parts)
