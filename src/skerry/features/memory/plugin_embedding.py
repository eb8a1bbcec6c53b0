"""Adapts the embedding model of a plugin to `skerry_recall.embed.Embedder`."""

from collections.abc import Sequence
from typing import Final

from skerry.model.errors import PluginError
from skerry.sdk.embedding import EmbeddingProvider
from skerry_recall.embed import EmbeddingError, EmbeddingModel, Kind, checked
from skerry_recall.numbers import Floats, np

BATCH: Final = 32
"""Number of texts per call."""
MAX_CHARACTERS: Final = 32_000
"""Limit on the embedded characters of a text."""


class PluginEmbedder:
    """The embedding model of a plugin. Implements `skerry_recall.embed.Embedder`."""

    bulk: Final = 4 * BATCH

    def __init__(self, plugin: str, provider: EmbeddingProvider) -> None:
        self.model = EmbeddingModel(plugin, provider.model)
        self.local = provider.local
        self.dims: int | None = None
        self._provider = provider

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row per text.

        Raises:
            EmbeddingError: the plugin failed, or returned no valid vectors.
        """
        rows: dict[int, Floats] = {}
        for begin in range(0, len(texts), BATCH):
            some = [text[:MAX_CHARACTERS] for text in texts[begin : begin + BATCH]]
            try:
                answer = await self._provider.embed(some, is_query=kind is Kind.QUERY)
                rectangle = answer if len({len(row) for row in answer}) == 1 else []
                matrix = np.asarray(rectangle, np.float64)
                vectors = checked(matrix, len(some), self.dims, str(self.model))
            except PluginError as error:
                raise self._failed(EmbeddingError(str(error), error.remedy), rows) from error
            except EmbeddingError as error:
                raise self._failed(error, rows) from error
            self.dims = int(vectors.shape[1])
            rows |= dict(enumerate(vectors, begin))
        return np.stack([rows[index] for index in range(len(texts))])

    def _failed(self, error: EmbeddingError, rows: dict[int, Floats]) -> EmbeddingError:
        error.answered = rows
        return error
