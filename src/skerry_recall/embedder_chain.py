"""The embedding models in the order in which they are used; one that fails rests for a while."""

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

RESTS: Final = (60.0, 300.0, 1500.0)
"""Seconds after the first, second and each later failure in a row."""
SEARCH_SECONDS: Final = 3.0
"""Seconds for the vector of a question: a search has four."""
_KEPT: Final = 256
"""Vectors of questions; 0.4 MB at 384 numbers."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Reason why a model is not used now."""

    model: EmbeddingModel
    reason: str
    remedy: str
    failures: int
    """Number of failures in a row."""
    until: float
    """Time at which it is tried again, by the monotonic clock."""


class Chain:
    """Asks the models of one agent. Vectors of two models are never mixed: each answer says whose.

    `embedders` are those that can be used, the wanted one first; without any, `chosen` is None.
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
        """Returns the model with which passages are embedded; None is by words alone.

        It is the first that does not rest. `current` is that of the index: after one failure it is
        waited for, as embedding all again costs more than a minute without new vectors.
        """
        for embedder in self.embedders:
            trouble = self._resting(embedder.model)
            if trouble is None or (embedder.model == current and trouble.failures == 1):
                return embedder
        return None

    def face(self) -> "Face | None":
        """Returns the chosen model, asked with all that this chain knows; None is by words alone.

        What it is may change between two calls; what is returned stays.
        """
        embedder = self.chosen(self._current)
        return Face(self, embedder) if embedder else None

    def trouble(self, model: EmbeddingModel | None = None) -> Trouble | None:
        """Returns why `model`, or the first of the chain, is not used now; None where it is."""
        if model is None:
            model = self.embedders[0].model if self.embedders else None
        return self._resting(model) if model else None

    async def query(self, text: str, model: EmbeddingModel) -> Floats:
        """Returns the vector of a question in the space of `model`, that of the index.

        The last few hundred are remembered.

        Raises:
            EmbeddingError: the model is not in the chain, rests, fails, or is too slow. Words alone
                then answer.
        """
        cached = self._questions.get((model, text))
        if cached is not None:
            self._questions.move_to_end((model, text))
            return cached
        rows = await self._ask(self._awake(model), [text], Kind.QUERY, self._search_seconds)
        vector = directed(rows[0], str(model))
        self._questions[model, text] = vector
        if len(self._questions) > _KEPT:
            self._questions.popitem(last=False)
        return vector

    async def passages(self, texts: Sequence[str], model: EmbeddingModel) -> Floats:
        """Returns the vectors of passages by `model`, a row each.

        Raises:
            EmbeddingError: the model is not in the chain, rests, fails, or refuses one of the
                texts. `chosen` says what next.
        """
        return await self.texts(texts, model, Kind.PASSAGE)

    async def texts(self, texts: Sequence[str], model: EmbeddingModel, kind: Kind) -> Floats:
        """Returns the vectors of texts by `model` in a role, a row each, however long it takes.

        Raises:
            EmbeddingError: as `passages`.
        """
        return await self._ask(self._awake(model), texts, kind)

    def _awake(self, model: EmbeddingModel) -> Embedder:
        trouble = self._resting(model)
        if trouble is not None:
            raise EmbeddingError(f"{model} is not asked now: {trouble.reason}", trouble.remedy)
        for embedder in self.embedders:
            if embedder.model == model:
                return embedder
        raise EmbeddingUnavailableError(f"{model} is not among the embedding models in use.")

    def _resting(self, model: EmbeddingModel) -> Trouble | None:
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
            late = EmbeddingTimeoutError(f"{model} gave no answer within {seconds:g} s.")
            if not embedder.local:  # that one may just be loading; it has limits of its own
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
            return  # it was asked by several at once: that is one failure
        failures = before.failures + 1 if before else 1
        until = now + RESTS[min(failures, len(RESTS)) - 1]
        self._trouble[model] = Trouble(model, str(error), error.remedy, failures, until)


class Face:
    """One model of a chain, for those who want one. Implements `embed.Embedder`."""

    def __init__(self, chain: Chain, inner: Embedder) -> None:
        self._chain = chain
        self._inner = inner
        self.model = inner.model
        self.local = inner.local
        self.bulk = inner.bulk

    @property
    def dims(self) -> int | None:
        """Returns the length of its vectors; None before the first answer."""
        return self._inner.dims

    @property
    def is_loading(self) -> bool:
        """Returns whether it is being loaded now."""
        return is_loading(self._inner)

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row a text; see `embed.Embedder`."""
        if kind is Kind.PASSAGE:
            return await self._chain.passages(texts, self.model)
        return np.stack([await self._chain.query(text, self.model) for text in texts])

    async def kept(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns the vectors of texts to keep, in either role; nobody waits for an answer.

        Raises:
            EmbeddingError: as of `embed.Embedder`.
        """
        return await self._chain.texts(texts, self.model, kind)
