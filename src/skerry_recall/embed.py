"""Embedding models: texts to vectors, and the rules that every vector follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from skerry_recall.numbers import Doubles, Floats, np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

USELESS: Final = "no usable vector: only zeros, no numbers, or another size than the others"
_NOTHING: Final = 1e-10
"""A vector shorter than this has no direction."""


class Kind(StrEnum):
    """Role of a text; many models embed the two differently."""

    PASSAGE = "passage"
    """Text to be found."""
    QUERY = "query"
    """Question."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Model of vectors. Vectors of two models are never compared."""

    provider: str
    """`local`, `openai`, `gemini`, `voyage`; with an address of one's own `openai@host/path`."""
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class EmbeddingError(Exception):
    """Texts could not be embedded; the message says why and is for people.

    `passing`: the same request may succeed later. `remedy` says what a person can do.
    """

    passing = True

    def __init__(self, message: str, remedy: str = "", *, retry_after: float | None = None) -> None:
        self.remedy = remedy
        self.retry_after = retry_after
        """Seconds after which the provider wants to be asked again; None where it did not say."""
        self.done: Mapping[int, Floats] = {}
        """Rows that were answered, and perhaps paid, before it failed, by the place of the text."""
        super().__init__(message)


class EmbeddingUnavailableError(EmbeddingError):
    """Error that a retry does not end: no such model here, or its key is missing or refused."""

    passing = False


class EmbeddingRefusedError(EmbeddingError):
    """These texts are refused; others may be taken."""

    passing = False


class EmbeddingAnswerError(EmbeddingError):
    """Response that is no valid answer: cut off, of another size, without numbers."""


class EmbeddingTimeoutError(EmbeddingError):
    """Error: no answer in time."""


class Embedder(Protocol):
    """A model that embeds."""

    @property
    def model(self) -> EmbeddingModel:
        """Returns whose vectors they are: with the hash of a text the key of a cache."""
        ...

    @property
    def local(self) -> bool:
        """Returns whether it runs on this machine, at no cost and with nobody else reading."""
        ...

    @property
    def bulk(self) -> int:
        """Returns how many passages are best asked for at once where there are many."""
        ...

    @property
    def dims(self) -> int | None:
        """Returns the length of its vectors; None before the first answer."""
        ...

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row a text, in their order, each `normalised`; shape (texts, dims).

        Any number of texts of any length may be asked for: they are batched as the model wants it,
        and a text that is too long for it gets the mean of its pieces. Cancelling is safe. A text
        to which the model answered nothing of use has a row of zeros; see `has_direction`.

        Raises:
            EmbeddingError: one of its kinds; `done` has the rows that were answered before.
        """
        ...


@runtime_checkable
class Loads(Protocol):
    """A model that has to be loaded before it answers."""

    @property
    def is_loading(self) -> bool:
        """Returns whether it is being loaded now."""
        ...


def is_loading(embedder: object) -> bool:
    """Returns whether what is asked waits for its model to be loaded."""
    return isinstance(embedder, Loads) and embedder.is_loading


def normalised(vectors: "ArrayLike") -> Floats:
    """Returns a vector, or a matrix of them in rows, with length 1.

    Components that are no finite numbers become 0. A vector whose length is then below 1e-10 is
    returned as it is. Source: seed 002, `sanitizeAndNormalizeEmbedding`.
    """
    exact = np.asarray(vectors, dtype=np.float64)
    sound = np.where(np.isfinite(exact), exact, 0.0)
    length = np.sqrt(np.sum(sound * sound, axis=-1, keepdims=True))
    length[length < _NOTHING] = 1.0
    unit: Floats = (sound / length).astype(np.float32)
    return unit


def checked(vectors: Doubles | Floats, texts: int, dims: int | None, who: str) -> Floats:
    """Checks a model's vectors for this many texts, and normalises them.

    `dims` is the length of its earlier vectors; None is any.

    Raises:
        EmbeddingAnswerError: it is not one vector a text, or they have another length.
    """
    if vectors.ndim != 2 or vectors.shape[0] != texts or not vectors.shape[1]:  # noqa: PLR2004 - a matrix
        shape = " x ".join(map(str, vectors.shape))
        raise EmbeddingAnswerError(f"{who} answered {shape} numbers to {texts} texts.")
    if dims is not None and vectors.shape[1] != dims:
        raise EmbeddingAnswerError(
            f"{who} answered vectors of {vectors.shape[1]} numbers where they had {dims}.",
            "Its model has changed: name it anew, so that all is embedded again.",
        )
    return normalised(vectors)


def has_direction(row: Floats) -> bool:
    """Returns whether a row is a vector: a text to which nothing of use was answered has none."""
    return bool(np.isfinite(row).all() and np.abs(row).max(initial=0) > _NOTHING)


def directed(row: Floats, who: str) -> Floats:
    """Returns the row, which is a vector.

    Raises:
        EmbeddingAnswerError: it is none.
    """
    if not has_direction(row):
        raise EmbeddingAnswerError(f"{who} answered {USELESS}.")
    return row
