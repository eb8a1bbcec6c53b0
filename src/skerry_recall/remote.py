"""An embedding model that is asked over HTTP: in batches, a few at once, again where that helps."""

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
from skerry_recall.lengths import ModelText, answered, joined, of_size, pieces, requests
from skerry_recall.numbers import Floats, np

QUERY_SECONDS: Final = 60.0
BATCH_SECONDS: Final = 120.0
RETRIES: Final = 3
CONCURRENCY: Final = 4
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 8.0
_LONGEST_HINT: Final = 60.0
"""Seconds that a provider's own wish is waited for; a longer one fails at once."""
_ANSWER_LIMIT: Final = 64 * 1024 * 1024
_ERROR_LIMIT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Spent:
    """One request that was answered, or given up."""

    model: EmbeddingModel
    tokens: int | None
    """Billed tokens; None if the provider did not report them."""
    seconds: float
    error: EmbeddingError | None = None
    batch: bool = False
    """True for a batch job, at half the price."""


def nobody(spent: Spent) -> None:
    """Keeps no book."""


def anything() -> None:
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
    """Headers sent with every request; they override ours."""
    unlock: Callable[[], Awaitable[str]] | None = field(default=None, repr=False)
    """Gives the key for each request, where that takes time. Raises `EmbeddingError`."""

    def all_headers(self, api_key: str) -> dict[str, str]:
        """Returns the headers of every request."""
        key = self.wire.headers(api_key) if api_key else {}
        own = {name.lower(): value for name, value in self.headers.items()}
        return {"accept-encoding": "identity", **key, **own}


class Asking:
    """Sends requests to one provider and reads the answers, with limits on both.

    `http` follows no redirect and refuses what it must; it is the caller's.
    """

    def __init__(self, http: httpx2.AsyncClient, remote: Remote) -> None:
        self._http = http
        self._remote = remote
        self._named = [value.split()[-1] for value in remote.headers.values() if value.strip()]

    async def ask(
        self, method: str, path: str, content: bytes = b"", *, kind: str = "application/json"
    ) -> bytes:
        """Returns the body of a good answer.

        Raises:
            EmbeddingError: what the refusal means, or that nobody answers.
        """
        remote = self._remote
        key = remote.api_key if remote.unlock is None else await remote.unlock()
        headers = {"content-type": kind, **remote.all_headers(key)}
        url = self._remote.base_url.rstrip("/") + path
        who = str(self._remote.model.provider)
        try:
            request = httpx2.Request(method, url, headers=headers, content=content)
            response = await self._http.send(request, stream=True)
            try:
                good = response.status_code == httpx2.codes.OK
                body = await _read(response, _ANSWER_LIMIT if good else _ERROR_LIMIT, cut=not good)
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise EmbeddingError(f"{who} cannot be reached: {reason}") from error
        if good:
            return body
        text = body.decode(errors="replace")
        for secret in (key, *self._named):
            if len(secret) >= 8:  # noqa: PLR2004 - a shorter one is found in words
                text = text.replace(secret, "***")
        raise failure(FailedResponse(who, response.status_code, response.headers, text))


class RemoteEmbedder:
    """Asks a hosted model, or a server of one's own. `on_spent` hears of each request.

    `allow` raises `EmbeddingError` where none may be sent.
    """

    local = False
    bulk = 256

    def __init__(
        self,
        http: httpx2.AsyncClient,
        remote: Remote,
        *,
        on_spent: Callable[[Spent], None] = nobody,
        allow: Callable[[], None] = anything,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.model = remote.model
        self.dims: int | None = None
        self.asking = Asking(http, remote)
        self.wire = remote.wire
        self.on_spent = on_spent
        self.allow = allow
        self._sleep = sleep
        self._chance = chance
        self._slots = anyio.Semaphore(CONCURRENCY)

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row a text; see `embed.Embedder`."""
        all_pieces = pieces(texts, self.wire.limits.text_tokens)
        rows: list[Floats | None] = []
        failed: list[EmbeddingError] = []

        async def one(batch: list[ModelText], begin: int) -> None:
            async with self._slots:
                if failed:
                    return  # what is on its way is paid, and waited for; nothing more is sent
                try:
                    vectors = await self._patiently([piece.text for piece in batch], kind, failed)
                except EmbeddingError as error:
                    if not isinstance(error, EmbeddingRefusedError):  # that is about these texts
                        failed.append(error)
                    refused.append(error)
                    return
                rows[begin : begin + len(batch)] = list(vectors)

        refused: list[EmbeddingError] = []
        async with anyio.create_task_group() as tasks:
            for batch in requests(all_pieces, self.wire.limits):
                tasks.start_soon(one, batch, len(rows))
                rows += [None] * len(batch)
        if not rows:
            return np.zeros((0, self.dims or 0), np.float32)
        if refused:
            error = (failed or refused)[0]
            error.done = answered(rows, all_pieces, len(texts), self.dims)
            raise error
        return joined(of_size(rows, self.dims), all_pieces, len(texts))

    async def _patiently(
        self, texts: list[str], kind: Kind, failed: Sequence[EmbeddingError]
    ) -> Floats:
        """Asks, and again after what may pass, unless another request failed for good meanwhile."""
        for failures in range(RETRIES + 1):
            try:
                return await self._booked(texts, kind)
            except EmbeddingError as error:
                pause = delay(failures, error, self._chance())
                if pause is None or failed:
                    raise
            await self._sleep(pause)
        raise AssertionError("the last failure is raised")

    async def _booked(self, texts: list[str], kind: Kind) -> Floats:
        self.allow()
        begin = anyio.current_time()
        try:
            rows, tokens = await self._once(texts, kind)
        except EmbeddingError as error:
            self.on_spent(Spent(self.model, None, anyio.current_time() - begin, error))
            raise
        self.on_spent(Spent(self.model, tokens, anyio.current_time() - begin))
        return rows

    async def _once(self, texts: list[str], kind: Kind) -> tuple[Floats, int | None]:
        content = msgspec.json.encode(self.wire.body(self.model.model, texts, kind))
        seconds = QUERY_SECONDS if kind is Kind.QUERY else BATCH_SECONDS
        try:
            with anyio.fail_after(seconds):
                body = await self.asking.ask("POST", self.wire.path(self.model.model), content)
        except TimeoutError as error:
            text = f"{self.model} needed more than {seconds:g} s."
            raise EmbeddingTimeoutError(text) from error
        answer = self.wire.answer(body)
        rows = checked(answer.rows, len(texts), None, str(self.model))
        self.dims = rows.shape[1]  # of the last answer: a server may have another model by now
        return rows, answer.tokens


def delay(failures: int, error: EmbeddingError, chance: float) -> float | None:
    """Returns the seconds until the next try after so many failed before; None is to give up.

    0.5 s to 8 s, doubling, with full jitter (`chance` is in [0, 1)); a provider's own wish counts
    instead where it is at most a minute.
    """
    hint = error.retry_after
    if failures >= RETRIES or not error.passing or (hint or 0) > _LONGEST_HINT:
        return None
    pause = min(_LONGEST_DELAY, _FIRST_DELAY * 2.0**failures)
    return pause * (0.5 + chance / 2) if hint is None else hint + chance * _FIRST_DELAY


async def _read(response: httpx2.Response, limit: int, *, cut: bool) -> bytes:
    """Returns the body; of one that is too long the begin, where it may be cut."""
    parts: list[bytes] = []
    remaining = limit
    async for part in response.aiter_raw():
        parts.append(part[:remaining])
        remaining -= len(part)
        if remaining < 0 and not cut:
            raise EmbeddingAnswerError(f"the answer has more than {limit} bytes")
        if remaining < 0:
            break
    return b"".join(parts)
