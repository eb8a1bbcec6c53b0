"""Embedding models: the port of a plugin's model, and the use of the agents' models."""

from collections.abc import Sequence
from operator import mul
from typing import Protocol

from msgspec import Struct

from skerry.model.errors import PluginError


class EmbeddingProvider(Protocol):
    """An embedding model of a plugin; `PluginApi.register_embedding_provider` registers it."""

    @property
    def model(self) -> str:
        """Returns the name of the model; vectors of different models are never compared."""
        ...

    @property
    def local(self) -> bool:
        """Returns True when the model runs on this machine, so that texts do not leave it."""
        ...

    async def embed(self, texts: Sequence[str], *, is_query: bool) -> Sequence[Sequence[float]]:
        """Returns one vector for each text, in order, all of one constant length.

        Args:
            texts: At most 32 texts. A call has 60 s.
            is_query: True for questions, False for stored texts.

        Raises:
            PluginError: the model failed; the search then compares words only.
        """
        ...


class Embedded(Struct, frozen=True):
    """Unit vectors of texts."""

    space: str
    """Name of the model and of its calibration; compare only vectors of the same space."""
    vectors: tuple[tuple[float, ...], ...]
    """One vector of norm 1 for each text, in order."""


class Embeddings(Protocol):
    """Uses the embedding models that agents have in `memorySearch`; `PluginApi.embeddings`.

    For a model with a calibration, vectors are calibrated, and a text has the same vector as a
    question and as a stored text. The relayer uses the same calibrations.
    """

    async def embed(
        self,
        texts: Sequence[str],
        *,
        agent: str = "main",
        is_query: bool = False,
        local_only: bool = False,
    ) -> Embedded:
        """Returns one vector for each text, in order. Only the beginning of a long text is used.

        Args:
            texts: At most 256 texts.
            agent: Id of the agent whose model is used.
            is_query: True for a question of a person who waits.
            local_only: True to refuse a model that does not run on this machine.

        Raises:
            PluginError: the agent has no such model, or the model failed.
        """
        ...

    def relevance(self, space: str, first: Sequence[float], second: Sequence[float]) -> float:
        """Returns the relevance of two vectors of `space`, -1 to 1: a likely answer has 0.3.

        For a model without a calibration it is the cosine.
        """
        ...


class NoEmbeddings:
    """Implements `Embeddings` where no gateway runs: `embed` fails."""

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
        raise PluginError("Texts cannot be embedded: no gateway runs.")

    def relevance(self, space: str, first: Sequence[float], second: Sequence[float]) -> float:
        """Returns the cosine."""
        del space
        return float(sum(map(mul, first, second)))
