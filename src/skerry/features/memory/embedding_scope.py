"""Provides the embedding models of agents for a block; loads nothing before the first use."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from skerry.config.root import Config
from skerry.features.memory.late import embedding_models
from skerry.infra.http import HttpClient
from skerry.model.ids import AgentId
from skerry.sdk.embedding import EmbeddingProvider
from skerry.sdk.slots import Payer

if TYPE_CHECKING:
    from skerry_recall.embedder_chain import ChainEmbedder


@asynccontextmanager
async def open_embedding(
    config: Callable[[], Config],
    environ: Mapping[str, str],
    payer: Payer,
    *,
    enabled: bool = True,
    plugins: Mapping[str, EmbeddingProvider] | None = None,
) -> AsyncGenerator[Callable[[AgentId], "ChainEmbedder | None"]]:
    """Gives a function that returns an agent's embedding model; None if only words are searched.

    With `enabled=False` no agent has a model. The end of the block ends the local models.
    """
    if not enabled:
        yield lambda _: None
        return
    embedders: list[embedding_models.Embedders] = []
    async with HttpClient() as http, anyio.create_task_group() as tasks:

        def embedder(agent: AgentId) -> "ChainEmbedder | None":
            if not embedders:
                embedders.append(
                    embedding_models.Embedders(
                        config, http, environ, tasks, book=payer.book, allow=payer.allow
                    )
                )
                embedders[0].plugins = {} if plugins is None else plugins
            return embedders[0].of(agent).embedder()

        yield embedder
        tasks.cancel_scope.cancel()
