"""Asks a model for the vectors of passages, so that one without a vector spoils no other."""

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
"""A text that every model takes: one that refuses it too refuses not the text but the work."""


@dataclass(frozen=True, slots=True)
class EmbeddedPassages:
    """Result of a model for passages; a place in none of the two was not answered."""

    vectors: Mapping[int, Floats] = field(default_factory=dict)
    """Vectors by the index of the text, from 0."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """Reasons for the texts that have no vector: a second attempt would not help."""
    error: EmbeddingError | None = None
    """Error after which the model was not called again."""


async def passages(embedder: Embedder, texts: Sequence[str]) -> EmbeddedPassages:
    """Returns the vectors that there are of the texts, which of them have none, and why."""
    asking = _Asking(embedder, texts)
    error = None
    try:
        await asking.ask(range(len(texts)))
    except EmbeddingError as failed:
        error = failed
    return EmbeddedPassages(asking.rows, asking.refused, error)


class _Asking:
    """Asks for some texts; where they are refused, for halves of them."""

    def __init__(self, embedder: Embedder, texts: Sequence[str]) -> None:
        self._embedder = embedder
        self._texts = texts
        self._is_able = False
        self.rows: dict[int, Floats] = {}
        self.refused: dict[int, str] = {}

    async def ask(self, places: Sequence[int]) -> None:
        """Asks for the texts of these places.

        Raises:
            EmbeddingError: the model fails, or refuses whatever it is asked.
        """
        if not places:
            return
        texts = [self._texts[row] for row in places]
        try:
            vectors = await self._embedder.embed(texts, Kind.PASSAGE)
            rows = checked(vectors, len(texts), None, str(self._embedder.model))
        except EmbeddingRefusedError as error:
            await self._take(places, error.done)
            remaining = [row for row in places if row not in self.rows and row not in self.refused]
            await self._try(error)
            if len(remaining) == 1:
                self.refused[remaining[0]] = str(error)
                return
            half = len(remaining) // 2  # they find what is refused with few questions
            await self.ask(remaining[:half])
            await self.ask(remaining[half:])
        except EmbeddingError as error:
            await self._take(places, error.done)
            raise
        else:
            await self._take(places, dict(enumerate(rows)))

    async def _take(self, places: Sequence[int], rows: Mapping[int, Floats]) -> None:
        useless: list[int] = []
        for at, row in rows.items():
            if has_direction(row):
                self.rows[places[at]] = row
            else:
                useless.append(places[at])
        if useless:
            await self._try(EmbeddingAnswerError(f"{self._embedder.model} answered {USELESS}."))
        self.refused.update(dict.fromkeys(useless, f"the model answered {USELESS}"))

    async def _try(self, error: EmbeddingError) -> None:
        """Makes sure that it is the text: raises the error where the model takes no text at all."""
        if self._is_able or self.rows:
            return
        (row,) = await self._embedder.embed([EASY], Kind.PASSAGE)
        if not has_direction(row):
            raise error
        self._is_able = True
