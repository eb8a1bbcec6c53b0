"""Interface of embedding models, their errors, and the rules for every vector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from skerry_recall.numbers import Doubles, Floats, np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

USELESS: Final = "no usable vector: only zeros, no numbers, or another size than the others"
_MIN_LENGTH: Final = 1e-10
"""A shorter vector has no direction."""


class Kind(StrEnum):
    """Role of a text; many models embed passages and questions differently."""

    PASSAGE = "passage"
    """Text to search in."""
    QUERY = "query"
    """Question."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Embedding model. Vectors of two models are never compared."""

    provider: str
    """`local`, `openai`, `gemini`, `voyage`; with a configured address `openai@host/path`."""
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class EmbeddingError(Exception):
    """Error: texts were not embedded. The message is for people.

    `passing` is true if the same request may succeed later. `remedy` is an instruction for people.
    """

    passing = True

    def __init__(self, message: str, remedy: str = "", *, retry_after: float | None = None) -> None:
        self.remedy = remedy
        self.retry_after = retry_after
        """Delay in seconds that the provider requested; None without one."""
        self.answered: Mapping[int, Floats] = {}
        """Rows received, and perhaps paid, before the failure, by the index of the text."""
        super().__init__(message)


class EmbeddingUnavailableError(EmbeddingError):
    """Permanent error: the model is not installed, or its key is missing or refused."""

    passing = False


class EmbeddingRefusedError(EmbeddingError):
    """Error: the model refuses these texts; it may accept others."""

    passing = False


class EmbeddingAnswerError(EmbeddingError):
    """Error: the response is not valid: cut off, of another size, without numbers."""


class EmbeddingTimeoutError(EmbeddingError):
    """Error: no response within the time limit."""


class Embedder(Protocol):
    """An embedding model."""

    @property
    def model(self) -> EmbeddingModel:
        """Returns the model of its vectors; with the hash of a text it is the key of a cache."""
        ...

    @property
    def local(self) -> bool:
        """Returns whether the model runs on this machine: at no cost, and no text is sent."""
        ...

    @property
    def bulk(self) -> int:
        """Returns the best number of passages per call when there are many."""
        ...

    @property
    def dims(self) -> int | None:
        """Returns the length of its vectors; None before the first response."""
        ...

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row per text, in their order, each `normalised`; shape (texts, dims).

        Accepts any number of texts of any length: they are divided into requests of the model, and
        a text beyond its limit gets the mean of the vectors of its parts. Cancelling is safe. A
        text without a usable vector has a row of zeros; see `has_direction`.

        Raises:
            EmbeddingError: or a subclass; `answered` has the rows received before the failure.
        """
        ...


@runtime_checkable
class Loads(Protocol):
    """A model that is loaded before its first response."""

    @property
    def is_loading(self) -> bool:
        """Returns whether the model is being loaded."""
        ...


def is_loading(embedder: object) -> bool:
    """Returns whether requests wait until the model of the embedder is loaded."""
    return isinstance(embedder, Loads) and embedder.is_loading


def normalised(vectors: "ArrayLike") -> Floats:
    """Returns a vector, or a matrix of vectors in rows, with length 1.

    Components that are not finite become 0. A vector whose length is then below 1e-10 is not
    scaled. Source: seed 002, `sanitizeAndNormalizeEmbedding`.
    """
    exact = np.asarray(vectors, dtype=np.float64)
    sound = np.where(np.isfinite(exact), exact, 0.0)
    length = np.sqrt(np.sum(sound * sound, axis=-1, keepdims=True))
    length[length < _MIN_LENGTH] = 1.0
    unit: Floats = (sound / length).astype(np.float32)
    return unit


def checked(vectors: Doubles | Floats, texts: int, dims: int | None, model: str) -> Floats:
    """Checks a model's vectors for this number of texts, and normalises them.

    `dims` is the length of its earlier vectors; None allows any length.

    Raises:
        EmbeddingAnswerError: there is not one vector per text, or their length is not `dims`.
    """
    if vectors.ndim != 2 or vectors.shape[0] != texts or not vectors.shape[1]:  # noqa: PLR2004 - a matrix
        shape = " x ".join(map(str, vectors.shape))
        raise EmbeddingAnswerError(f"{model} returned {shape} numbers for {texts} texts.")
    if dims is not None and vectors.shape[1] != dims:
        raise EmbeddingAnswerError(
            f"{model} returned vectors of {vectors.shape[1]} numbers; earlier ones had {dims}.",
            "Its model has changed: give it another name, so that all texts are embedded again.",
        )
    return normalised(vectors)


def has_direction(row: Floats) -> bool:
    """Returns whether a row is a usable vector; the row of a text without one is all zeros."""
    return bool(np.isfinite(row).all() and np.abs(row).max(initial=0) > _MIN_LENGTH)


def directed(row: Floats, model: str) -> Floats:
    """Returns the row of a model if it is a usable vector.

    Raises:
        EmbeddingAnswerError: it is not.
    """
    if not has_direction(row):
        raise EmbeddingAnswerError(f"{model} returned {USELESS}.")
    return row
