"""The built-in memory of a state directory without a gateway, for a command."""

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
from skerry.store import no_fault
from skerry.store.call_log import CallLog
from skerry_recall.embed import EmbeddingError, EmbeddingTimeoutError, Kind

if TYPE_CHECKING:  # loaded with the memory itself
    from skerry.features.memory.builtin import BuiltinMemory

LOAD_SECONDS: Final = 60.0
"""Time limit for loading the embedding model of a query: its process starts with the command."""


class OfflineMemory(Struct, frozen=True):
    """The memories while this process owns the state directory.

    If the process dies during an erasure, the next start of the gateway completes it.
    """

    parts: MemoryParts

    def of(self, agent: AgentId) -> "BuiltinMemory":
        """Returns the agent's memory."""
        return self.parts.builtin.of(agent)

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns the differences from a memory with a gateway, for people."""
        if self.parts.host.config().memory.backend == "builtin":
            return ()
        return ("A running gateway asks QMD; without one the built-in index answers.",)

    async def prepare(
        self, agent: AgentId, question: str, progress: Callable[[MemoryProgress], None]
    ) -> None:
        """Indexes changed files, and loads the model of the question if there are vectors.

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
                    continue  # it is still loading; the vector is cached for the search
                except EmbeddingError:
                    pass  # the search gets the same error, and reports it
                break


@asynccontextmanager
async def open_memory(
    config: Config,
    environ: Mapping[str, str],
    *,
    requires_slot: bool = True,
    reach: Callable[[str], None] = no_fault,
) -> AsyncGenerator[OfflineMemory]:
    """Owns the state directory for the block, and gives the memories of its agents.

    `requires_slot=False` opens it also when another memory is in the slot, so that an erasure
    covers the built-in index too. `reach` is called at each named fault point.

    Raises:
        StateLockedError: a gateway owns the directory; ask that gateway.
        StateError: the database cannot be used.
        MemoryBackendError: another memory is configured.
    """
    async with open_state(config, reach) as (store, mirror):  # raises if a gateway owns it
        holder = config.plugins.slots.memory
        if requires_slot and holder != CORE:
            error = MemoryBackendError(
                f"The memory {holder} of plugins.slots.memory needs a running gateway."
            )
            error.remedy = "Start it: skerry gateway run"
            raise error
        redactor, clock = Redactor(), SystemClock()
        redactor.set_secrets(secrets(config, environ))
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
            yield OfflineMemory(parts)
