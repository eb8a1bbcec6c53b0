"""Embeds passages so that one that the model refuses does not affect the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from skerry_recall.embed import (
    USELESS,
    Embedder,
    EmbeddingAnswerError,
    EmbeddingError,
    EmbeddingRefusedError,
    Kind,
    checked,
    has_direction,
)
from skerry_recall.numbers import Floats

EASY: Final = "memory"
"""A text that every model accepts: a model that refuses it too refuses all texts."""


@dataclass(frozen=True, slots=True)
class EmbeddedPassages:
    """Result for passages. The model returned nothing for an index that is in neither mapping."""

    vectors: Mapping[int, Floats] = field(default_factory=dict)
    """Vectors by the index of the text, from 0."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """Reasons by the index of the text; a second attempt would not help."""
    error: EmbeddingError | None = None
    """Error after which the model was not called again."""


async def passages(embedder: Embedder, texts: Sequence[str]) -> EmbeddedPassages:
    """Embeds the texts; returns the vectors, the refused texts with reasons, and an error."""
    requests = _BisectedRequests(embedder, texts)
    error = None
    try:
        await requests.ask(range(len(texts)))
    except EmbeddingError as failed:
        error = failed
    return EmbeddedPassages(requests.rows, requests.refused, error)


class _BisectedRequests:
    """Requests the vectors of texts; if the model refuses some, requests each half of them."""

    def __init__(self, embedder: Embedder, texts: Sequence[str]) -> None:
        self._embedder = embedder
        self._texts = texts
        self._is_able = False
        self.rows: dict[int, Floats] = {}
        self.refused: dict[int, str] = {}

    async def ask(self, indices: Sequence[int]) -> None:
        """Requests the vectors of the texts with these indices.

        Raises:
            EmbeddingError: the model fails, or refuses every text.
        """
        if not indices:
            return
        texts = [self._texts[row] for row in indices]
        try:
            vectors = await self._embedder.embed(texts, Kind.PASSAGE)
            rows = checked(vectors, len(texts), None, str(self._embedder.model))
        except EmbeddingRefusedError as error:
            await self._take(indices, error.answered)
            remaining = [row for row in indices if row not in self.rows and row not in self.refused]
            await self._try(error)
            if len(remaining) == 1:
                self.refused[remaining[0]] = str(error)
                return
            half = len(remaining) // 2  # finds the refused text with few requests
            await self.ask(remaining[:half])
            await self.ask(remaining[half:])
        except EmbeddingError as error:
            await self._take(indices, error.answered)
            raise
        else:
            await self._take(indices, dict(enumerate(rows)))

    async def _take(self, indices: Sequence[int], rows: Mapping[int, Floats]) -> None:
        useless: list[int] = []
        for at, row in rows.items():
            if has_direction(row):
                self.rows[indices[at]] = row
            else:
                useless.append(indices[at])
        if useless:
            await self._try(EmbeddingAnswerError(f"{self._embedder.model} returned {USELESS}."))
        self.refused.update(dict.fromkeys(useless, f"the model returned {USELESS}"))

    async def _try(self, error: EmbeddingError) -> None:
        """Checks that the model accepts other texts: raises the error if it refuses `EASY` too."""
        if self._is_able or self.rows:
            return
        (row,) = await self._embedder.embed([EASY], Kind.PASSAGE)
        if not has_direction(row):
            raise error
        self._is_able = True
