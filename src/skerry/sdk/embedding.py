"""Embedding models: those that a plugin provides, and those that it may use."""

from collections.abc import Sequence
from operator import mul
from typing import Protocol

from msgspec import Struct

from skerry.model.errors import PluginError


class EmbeddingProvider(Protocol):
    """One model. A call has 60 s, and gets at most 32 texts."""

    @property
    def model(self) -> str:
        """Returns the name of the model; vectors of two names are never compared."""
        ...

    @property
    def local(self) -> bool:
        """Returns whether it runs on this machine, where nobody else reads the texts."""
        ...

    async def embed(self, texts: Sequence[str], *, is_query: bool) -> Sequence[Sequence[float]]:
        """Returns a vector for each text, in their order, always of the same length.

        Raises:
            PluginError: it cannot answer now; words alone are compared meanwhile.
        """
        ...


class Embedded(Struct, frozen=True):
    """Vectors of texts, each of length 1."""

    space: str
    """Name of the model and of its calibration; vectors of two spaces are never compared."""
    vectors: tuple[tuple[float, ...], ...]


class Embeddings(Protocol):
    """The embedding models of agents, as `memorySearch` names them; `PluginApi.embeddings`.

    Where there is a calibration for the model, vectors are calibrated, and a text has the same
    vector as a question and as a text to be found. The relayer has the same calibrations.
    """

    async def embed(
        self,
        texts: Sequence[str],
        *,
        agent: str = "main",
        is_query: bool = False,
        local_only: bool = False,
    ) -> Embedded:
        """Returns a vector for each text, in their order; of a long text its beginning counts.

        Args:
            texts: At most 256.
            agent: Whose model is asked.
            is_query: True for a question that somebody waits for.
            local_only: Refuses a model that does not run on this machine.

        Raises:
            PluginError: there is no such model, or it does not answer.
        """
        ...

    def relevance(self, space: str, first: Sequence[float], second: Sequence[float]) -> float:
        """Returns the relevance of two vectors of a space, -1 to 1: 0.3 is a likely answer.

        For a model without a calibration it is their cosine.
        """
        ...


class NoEmbeddings:
    """Implements `Embeddings` where no gateway runs."""

    async def embed(
        self,
        texts: Sequence[str],
        *,
        agent: str = "main",
        is_query: bool = False,
        local_only: bool = False,
    ) -> Embedded:
        """Raises `PluginError`."""
        del texts, agent, is_query, local_only
        raise PluginError("No text is embedded here: no gateway runs.")

    def relevance(self, space: str, first: Sequence[float], second: Sequence[float]) -> float:
        """Returns the cosine."""
        del space
        return float(sum(map(mul, first, second)))
