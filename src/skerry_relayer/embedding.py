"""Vectors of texts for the relayer, which all routes compute with one model and calibration."""

from collections.abc import Sequence

from skerry_recall.embed import Embedder, EmbeddingError, EmbeddingRefusedError, Kind, normalised
from skerry_recall.numbers import Floats, np
from skerry_recall.vector_space import calibrated, cut, relevance_of, role_of, space_of
from skerry_relayer.errors import DownError, RefusedError
from skerry_relayer.ports import WIDTH


class TextVectors:
    """Embeds texts with one model. Only vectors of the same `space` can be compared."""

    def __init__(self, embedder: Embedder, dims: int = 384) -> None:
        self._embedder = embedder
        self._model = str(embedder.model)
        self.dims = dims
        self.space = self.space_of(self._model)

    @staticmethod
    def space_of(model: str) -> str:
        """Returns the space of a model's vectors: its name and the version of its calibration."""
        return space_of(model)

    async def of(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one calibrated row of length 1 per text; of long texts only the beginning counts.

        Raises:
            RefusedError: the model refuses these texts.
            DownError: the model does not answer.
        """
        some = [cut(text, kind) for text in texts]
        try:
            rows = await self._embedder.embed(some, role_of(self._model, kind))
        except EmbeddingRefusedError as error:
            raise RefusedError("The embedding model refuses the text.") from error
        except EmbeddingError as error:
            raise DownError(f"The embedding model does not answer: {error}") from error
        return calibrated(self._model, rows)

    def distance(self, cosine: float, space: str) -> float:
        """Returns the distance for a cosine in a space: 1 minus its relevance, in [0, 2]."""
        if space == self.space:
            cosine = relevance_of(self._model, cosine)
        return min(2.0, max(0.0, 1.0 - cosine))


def padded(row: Floats) -> tuple[float, ...]:
    """Returns a vector padded with zeros to `WIDTH` numbers, for clients."""
    return (*row.tolist(), *([0.0] * (WIDTH - row.size)))


def placed(vector: Sequence[float], dims: int, space: str) -> tuple[Floats, str]:
    """Returns a client's vector scaled to length 1, and the space in which it is compared.

    A vector from `/api/embed` is padded with zeros after the dimensions of the relayer's model and
    belongs to its space. Any other vector is from a model of the client and has a space of its own.

    Raises:
        RefusedError: the vector is empty, or a number is not finite.
    """
    row = np.asarray(vector, np.float64)
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        raise RefusedError(f"vector must have {WIDTH} finite numbers")
    if row.size >= dims and not np.any(row[dims:]):
        return normalised(row[:dims]), space
    return normalised(row), f"client/{row.size}"
