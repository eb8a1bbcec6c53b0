"""The built-in memory of a state directory that no gateway has, for a command that needs it."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
from msgspec import Struct

from skerry.app.build import open_state
from skerry.config.root import Config
from skerry.config.secrets import secrets
from skerry.features.memory.assembly import CORE, MemoryParts, open_parts
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import SystemClock
from skerry.infra.log import Redactor
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryBackendError, MemoryProgress
from skerry.runtime.usage.ledger import Ledger
from skerry.sdk.slots import MemoryHost
from skerry.store import nothing
from skerry.store.call_log import CallLog
from skerry_recall.embed import EmbeddingError, EmbeddingTimeoutError, Kind

if TYPE_CHECKING:  # loaded with the memory itself
    from skerry.features.memory.builtin import BuiltinMemory

LOAD_SECONDS: Final = 60.0
"""Seconds that the embedding model of a query may take to load: its process starts with the
command."""


class MemoryAlone(Struct, frozen=True):
    """The memories, for as long as the state directory is ours.

    An erasure of a command that dies is completed by the gateway's next start.
    """

    parts: MemoryParts

    def of(self, agent: AgentId) -> "BuiltinMemory":
        """Returns the agent's memory."""
        return self.parts.builtin.of(agent)

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns the differences to a memory with a gateway, for people."""
        if self.parts.host.config().memory.backend == "builtin":
            return ()
        return ("A running gateway asks QMD; without one the built-in index answers.",)

    async def prepare(
        self, agent: AgentId, question: str, progress: Callable[[MemoryProgress], None]
    ) -> None:
        """Indexes what changed, and loads the model of the question where there are vectors.

        Raises:
            MemoryBackendError: the index cannot be written.
        """
        memory = self.of(agent)
        await memory.read(progress=progress)
        memory.looked = True
        embedder = self.parts.builtin.embedder(agent)
        if embedder is None or not (await memory.status()).vectors:
            return
        with anyio.move_on_after(LOAD_SECONDS):
            while True:
                try:
                    await embedder.embed([question], Kind.QUERY)
                except EmbeddingTimeoutError:
                    continue  # it loads on; the answer is kept for the search
                except EmbeddingError:
                    pass  # the search finds the same, and says so
                break


@asynccontextmanager
async def open_memory(
    config: Config,
    environ: Mapping[str, str],
    *,
    ours: bool = True,
    reach: Callable[[str], None] = nothing,
) -> AsyncGenerator[MemoryAlone]:
    """Owns the state directory for the block, and gives the memories of its agents.

    Without `ours` also where another memory is in the slot, to erase what is here all the same.
    `reach` is called at each named fault point.

    Raises:
        StateLockedError: a gateway owns the directory: it is to be asked.
        StateError: the database cannot be used.
        MemoryBackendError: our memory is not the one that is configured.
    """
    async with open_state(config, reach) as (store, mirror):  # a gateway that runs is asked instead
        holder = config.plugins.slots.memory
        if ours and holder != CORE:
            error = MemoryBackendError(
                f"The memory {holder} of plugins.slots.memory needs a gateway."
            )
            error.remedy = "Start one: skerry gateway run"
            raise error
        redactor, clock = Redactor(), SystemClock()
        redactor.know(secrets(config, environ))
        ledger = Ledger(store, lambda: config, clock, CallLog(config.state_dir))
        await ledger.open()
        host = MemoryHost(
            lambda: config,
            environ,
            store,
            mirror,
            ledger,
            clock,
            redactor,
            Hooks(),
            reach=reach,
        )
        async with open_parts(host) as parts, parts.builtin.open(keep=False):
            yield MemoryAlone(parts)
