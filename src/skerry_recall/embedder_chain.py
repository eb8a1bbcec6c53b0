"""Chain of embedding models in order of preference; a model that fails cools down."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from skerry_recall.embed import (
    Embedder,
    EmbeddingError,
    EmbeddingModel,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
    Kind,
    directed,
    is_loading,
)
from skerry_recall.numbers import Floats, np

COOLDOWNS: Final = (60.0, 300.0, 1500.0)
"""Cool-down in seconds after the first, second and each later failure in a row."""
SEARCH_SECONDS: Final = 3.0
"""Time limit for the vector of a question; a search has four seconds."""
_CACHED: Final = 256
"""Number of cached vectors of questions; 0.4 MB at 384 numbers."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Cool-down of a model, with its reason."""

    model: EmbeddingModel
    reason: str
    remedy: str
    failures: int
    """Number of failures in a row."""
    until: float
    """End of the cool-down, by the monotonic clock."""


class Chain:
    """The models of one agent. Each call names its model, so that vectors are never mixed.

    `embedders` are the usable models, the preferred one first; without any, `chosen` returns None.
    """

    def __init__(
        self,
        embedders: Sequence[Embedder],
        *,
        search_seconds: float = SEARCH_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.embedders = tuple(embedders)
        self._search_seconds = search_seconds
        self._monotonic = monotonic
        self._trouble: dict[EmbeddingModel, Trouble] = {}
        self._current: EmbeddingModel | None = None
        self._questions: OrderedDict[tuple[EmbeddingModel, str], Floats] = OrderedDict()

    def chosen(self, current: EmbeddingModel | None = None) -> Embedder | None:
        """Returns the model for passages; None if there is none, for a search by words alone.

        It is the first model that does not cool down. `current` is the model of the index: after a
        single failure it stays chosen, because a minute without new vectors costs less than
        embedding all passages with another model.
        """
        for embedder in self.embedders:
            trouble = self._cooling(embedder.model)
            if trouble is None or (embedder.model == current and trouble.failures == 1):
                return embedder
        return None

    def embedder(self) -> "ChainEmbedder | None":
        """Returns the chosen model as an `Embedder` with cache and cool-down; None without a model.

        Two calls may return different models; a returned embedder keeps its model.
        """
        embedder = self.chosen(self._current)
        return ChainEmbedder(self, embedder) if embedder else None

    def trouble(self, model: EmbeddingModel | None = None) -> Trouble | None:
        """Returns the cool-down of `model`, or of the first model; None if it is in use."""
        if model is None:
            model = self.embedders[0].model if self.embedders else None
        return self._cooling(model) if model else None

    async def query(self, text: str, model: EmbeddingModel) -> Floats:
        """Returns the vector of a question by `model`, the model of the index; caches the last 256.

        Raises:
            EmbeddingError: the model is not in the chain, cools down, fails, or exceeds the time
                limit. The caller then searches by words alone.
        """
        cached = self._questions.get((model, text))
        if cached is not None:
            self._questions.move_to_end((model, text))
            return cached
        rows = await self._ask(self._usable(model), [text], Kind.QUERY, self._search_seconds)
        vector = directed(rows[0], str(model))
        self._questions[model, text] = vector
        if len(self._questions) > _CACHED:
            self._questions.popitem(last=False)
        return vector

    async def passages(self, texts: Sequence[str], model: EmbeddingModel) -> Floats:
        """Returns the vectors of passages by `model`, one per row.

        Raises:
            EmbeddingError: the model is not in the chain, cools down, fails, or refuses one of the
                texts. `chosen` then returns the next model.
        """
        return await self.texts(texts, model, Kind.PASSAGE)

    async def texts(self, texts: Sequence[str], model: EmbeddingModel, kind: Kind) -> Floats:
        """Returns the vectors of texts by `model` in a role, one per row, without a time limit.

        Raises:
            EmbeddingError: as `passages`.
        """
        return await self._ask(self._usable(model), texts, kind)

    def _usable(self, model: EmbeddingModel) -> Embedder:
        trouble = self._cooling(model)
        if trouble is not None:
            raise EmbeddingError(f"{model} cools down: {trouble.reason}", trouble.remedy)
        for embedder in self.embedders:
            if embedder.model == model:
                return embedder
        raise EmbeddingUnavailableError(f"{model} is not one of the embedding models in use.")

    def _cooling(self, model: EmbeddingModel) -> Trouble | None:
        trouble = self._trouble.get(model)
        return trouble if trouble and trouble.until > self._monotonic() else None

    async def _ask(
        self, embedder: Embedder, texts: Sequence[str], kind: Kind, seconds: float | None = None
    ) -> Floats:
        model = embedder.model
        try:
            with anyio.fail_after(seconds):
                rows = await embedder.embed(texts, kind)
        except TimeoutError as error:
            late = EmbeddingTimeoutError(f"{model} did not answer within {seconds:g} s.")
            if not embedder.local:  # a local model may be loading, and limits the time itself
                self._failed(model, late)
            raise late from error
        except EmbeddingRefusedError:
            raise
        except EmbeddingError as error:
            self._failed(model, error)
            raise
        self._trouble.pop(model, None)
        if kind is Kind.PASSAGE:
            self._current = model
        return rows

    def _failed(self, model: EmbeddingModel, error: EmbeddingError) -> None:
        before = self._trouble.get(model)
        now = self._monotonic()
        if before is not None and before.until > now:
            return  # concurrent requests that fail together count as one failure
        failures = before.failures + 1 if before else 1
        until = now + COOLDOWNS[min(failures, len(COOLDOWNS)) - 1]
        self._trouble[model] = Trouble(model, str(error), error.remedy, failures, until)


class ChainEmbedder:
    """One model of a chain, with its cache and cool-down. Implements `embed.Embedder`."""

    def __init__(self, chain: Chain, inner: Embedder) -> None:
        self._chain = chain
        self._inner = inner
        self.model = inner.model
        self.local = inner.local
        self.bulk = inner.bulk

    @property
    def dims(self) -> int | None:
        """Returns the length of its vectors; None before the first response."""
        return self._inner.dims

    @property
    def is_loading(self) -> bool:
        """Returns whether the model is being loaded."""
        return is_loading(self._inner)

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row per text; see `embed.Embedder`."""
        if kind is Kind.PASSAGE:
            return await self._chain.passages(texts, self.model)
        return np.stack([await self._chain.query(text, self.model) for text in texts])

    async def embed_unlimited(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns the vectors of texts to store, in either role, without a time limit.

        Raises:
            EmbeddingError: as `embed.Embedder`.
        """
        return await self._chain.texts(texts, self.model, kind)
