"""Vectors of texts for the relayer: one model, one calibration, the same on every path."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skerry_recall.calibrations import VERSION, has_calibration
from skerry_recall.embed import Embedder, EmbeddingError, EmbeddingRefusedError, Kind
from skerry_relayer.errors import DownError, RefusedError
from skerry_relayer.ports import WIDTH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MOST_CHARACTERS: Final = 8192
"""Characters of a text that are embedded. The model takes seconds of CPU for so many; a text of a
mebibyte would take minutes, in which no other owner finds anything."""

MOST_QUESTION: Final = 2048
"""Characters of a question that are embedded."""


class Vectors:
    """Embeds texts with one model. `space` names what its vectors may be compared with."""

    def __init__(self, embedder: Embedder, dims: int = 384) -> None:
        self._embedder = embedder
        self.dims = dims
        self.space = self.space_of(str(embedder.model))

    @staticmethod
    def space_of(model: str) -> str:
        """Returns the space of a model's vectors: its name and the number of its calibration."""
        return f"{model}#{VERSION if has_calibration(model) else 0}"

    async def of(self, texts: Sequence[str], kind: Kind) -> "NDArray[np.float32]":
        """Returns one row a text, of length 1 and calibrated; of a long text its beginning counts.

        Raises:
            RefusedError: the model does not take these texts.
            DownError: it does not answer now.
        """
        most = MOST_QUESTION if kind is Kind.QUERY else MOST_CHARACTERS
        some = [text[:most] for text in texts]
        is_calibrated = has_calibration(str(self._embedder.model))
        try:
            rows = await self._embedder.embed(some, Kind.QUERY if is_calibrated else kind)
        except EmbeddingRefusedError as error:
            raise RefusedError("The embedding model does not take the text.") from error
        except EmbeddingError as error:
            raise DownError(f"The embedding model does not answer: {error}") from error
        if not is_calibrated:
            return rows
        from skerry_recall.calibrate import calibration_of  # noqa: PLC0415 - numpy, at first use

        calibration = calibration_of(str(self._embedder.model))
        return rows if calibration is None else calibration.vectors(rows)

    def distance(self, cosine: float, space: str) -> float:
        """Returns the distance of a cosine of a space: 1 less its relevance, in [0, 2]."""
        if space == self.space and has_calibration(str(self._embedder.model)):
            from skerry_recall.calibrate import relevance  # noqa: PLC0415 - numpy, at first use

            cosine = relevance(cosine)
        return min(2.0, max(0.0, 1.0 - cosine))


def padded(row: "NDArray[np.float32]") -> tuple[float, ...]:
    """Returns a vector as clients get it: `WIDTH` numbers, the last of them zeros."""
    return (*row.tolist(), *([0.0] * (WIDTH - row.size)))


def placed(vector: Sequence[float], dims: int, space: str) -> tuple["NDArray[np.float32]", str]:
    """Returns a client's vector with length 1, and the space in which it is compared.

    A vector of `/api/embed` has zeros past the numbers of our model and is compared with ours. Any
    other is of a model of the client, and is compared with those of its width.

    Raises:
        RefusedError: its numbers are not finite, or it has none.
    """
    import numpy as np  # noqa: PLC0415 - at first use

    from skerry_recall.embed import normalised  # noqa: PLC0415 - beside it

    row = np.asarray(vector, np.float64)
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        raise RefusedError(f"vector must have {WIDTH} finite numbers")
    if row.size >= dims and not np.any(row[dims:]):
        return normalised(row[:dims]), space
    return normalised(row), f"client/{row.size}"
