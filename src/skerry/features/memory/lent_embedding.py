"""The embedding models of agents for plugins: implements `sdk.embedding.Embeddings`."""

from collections.abc import Callable, Sequence
from operator import mul
from typing import Final

import anyio

from skerry.features.memory.late import embed, embedder_chain, query_embedding, vector_space
from skerry.model.errors import PluginError
from skerry.model.ids import AgentId
from skerry.sdk.embedding import Embedded
from skerry_recall.numbers import Floats, np

MAX_TEXTS: Final = 256
"""Limit on the texts of one call."""
SECONDS: Final = 60.0
"""Time limit of one call, in seconds."""
LOAD_SECONDS: Final = 20.0
"""Seconds that a question waits for a model that is being loaded."""


class LentEmbeddings:
    """Embeds texts of plugins, calibrated like those of the memories."""

    def __init__(self, model: "Callable[[AgentId], embedder_chain.ChainEmbedder | None]") -> None:
        self._model = model

    async def embed(
        self,
        texts: Sequence[str],
        *,
        agent: str = "main",
        is_query: bool = False,
        local_only: bool = False,
    ) -> Embedded:
        """Returns a vector for each text.

        Raises:
            PluginError: there is no such model, or it failed.
        """
        if len(texts) > MAX_TEXTS:
            raise PluginError(
                f"{len(texts)} texts cannot be embedded at once: the limit is {MAX_TEXTS}."
            )
        face = self._chosen(agent, local_only=local_only)
        model = str(face.model)
        if not texts:
            return Embedded(vector_space.space_of(model), ())
        try:
            with anyio.fail_after(SECONDS):
                rows = vector_space.calibrated(model, await _embed(face, texts, is_query=is_query))
        except TimeoutError as error:
            raise PluginError(f"{model} gave no answer within {SECONDS:g} s.") from error
        except embed.EmbeddingError as error:
            raise PluginError(f"The texts are not embedded: {error}", error.remedy) from error
        return Embedded(vector_space.space_of(model), tuple(map(tuple, rows.tolist())))

    def relevance(self, space: str, first: Sequence[float], second: Sequence[float]) -> float:
        """Returns the relevance of two vectors of a space."""
        cosine = sum(map(mul, first, second))
        return max(-1.0, min(1.0, vector_space.relevance_of(vector_space.model_of(space), cosine)))

    def _chosen(self, agent: str, *, local_only: bool) -> "embedder_chain.ChainEmbedder":
        face = self._model(AgentId(agent))
        if face is None:
            raise PluginError(
                f"The agent {agent} has no embedding model that can be used now.",
                "Show the reason: skerry memory status. Install a local model: pip install"
                " 'skerry[memory]'",
            )
        if local_only and not face.local:
            raise PluginError(
                f"{face.model} does not run on this machine, and local_only was requested.",
                "Set memorySearch.provider to local, and run: pip install 'skerry[memory]'",
            )
        return face


async def _embed(
    face: "embedder_chain.ChainEmbedder", texts: Sequence[str], *, is_query: bool
) -> Floats:
    """Returns the vectors of the texts; a query waits while the model is being loaded.

    Raises:
        EmbeddingError: the model failed.
    """
    kind = embed.Kind.QUERY if is_query else embed.Kind.PASSAGE
    some = [vector_space.cut(text, kind) for text in texts]
    model = str(face.model)
    if not is_query:
        rows = await face.embed_unlimited(some, vector_space.role_of(model, kind))
        return np.stack([embed.directed(row, model) for row in rows])
    try:
        return np.stack(
            [
                await query_embedding.ask(face, text, embedder_chain.SEARCH_SECONDS, LOAD_SECONDS)
                for text in some
            ]
        )
    except query_embedding.LoadingError as error:
        raise embed.EmbeddingTimeoutError(f"{model} is still being loaded.") from error
