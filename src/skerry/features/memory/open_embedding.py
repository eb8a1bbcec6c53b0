"""Brings the embedding models to the gateway, and loads nothing of them before one is wanted."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import anyio

from skerry.config.root import Config
from skerry.infra.http import HttpClient
from skerry.model.ids import AgentId
from skerry.ports.tries import CallTarget, ModelCallEnded

if TYPE_CHECKING:
    from skerry.features.memory.embedding_models import Embedders
    from skerry_recall.embed import Embedder


class Payer(Protocol):
    """Keeps the ledger of model calls."""

    def book(self, call: ModelCallEnded) -> None:
        """Notes a call that somebody bills."""
        ...

    def allow(self, wanted: CallTarget) -> None:
        """Returns if a model may be asked. Raises `BudgetError`."""
        ...


@asynccontextmanager
async def open_embedding(
    config: Callable[[], Config],
    environ: Mapping[str, str],
    payer: Payer,
    *,
    wanted: bool = True,
) -> "AsyncGenerator[Callable[[AgentId], Embedder | None]]":
    """Gives what returns an agent's embedding model for the block; None is by words alone.

    Without `wanted` nobody has one. Leaving the block ends the processes of local models.
    """
    if not wanted:
        yield lambda _: None
        return
    made: list[Embedders] = []
    async with HttpClient() as http, anyio.create_task_group() as tasks:

        def embedder(agent: AgentId) -> "Embedder | None":
            if not made:
                from skerry.features.memory.embedding_models import Embedders  # noqa: PLC0415 - 20 ms, with a memory

                made.append(
                    Embedders(config, http, environ, tasks, book=payer.book, allow=payer.allow)
                )
            return made[0].of(agent).face()

        yield embedder
        tasks.cancel_scope.cancel()
