"""Claims the memory slot: builds the parts of the memory for a gateway, or for a command."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.commands.table import Command
from skerry.features.memory.embedding_scope import open_embedding
from skerry.features.memory.erasure import Forgetter
from skerry.features.memory.late import (
    chat_commands,
    claimed,
    recall_hook,
    slot_fallback,
    tools,
)
from skerry.features.memory.lent_embedding import LentEmbeddings
from skerry.features.memory.memories import BuiltinMemories, StoredTranscripts
from skerry.features.memory.service import MemorySearchService
from skerry.features.memory.slot_memories import SlotMemories
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.infra.supervise import in_background
from skerry.ports.tool import Tool
from skerry.sdk.hooks import PromptChange, PromptDraft
from skerry.sdk.slots import MemoryHolder, MemoryHost

if TYPE_CHECKING:
    from skerry.ports.memory import Memories

CORE: Final = "memory-core"
"""Value of `plugins.slots.memory` for the memory of this package."""
NONE: Final = "none"
NON_PLUGIN_VALUES: Final = frozenset({CORE, NONE})
"""Values of `plugins.slots.memory` that name no plugin."""


class MemoryParts(Struct, frozen=True):
    """The memory of one state directory."""

    host: MemoryHost
    builtin: BuiltinMemories
    chains: SlotMemories
    forgets: Forgetter
    service: MemorySearchService
    embeddings: LentEmbeddings

    @property
    def has_slot(self) -> bool:
        """Returns whether the configuration gives the slot to this memory."""
        return self.host.config().plugins.slots.memory == CORE

    @property
    def falls_back(self) -> bool:
        """Returns whether this memory answers when the memory of a plugin fails."""
        slots = self.host.config().plugins.slots
        return slots.memory not in NON_PLUGIN_VALUES and slots.memory_fallback

    @asynccontextmanager
    async def keep(self) -> AsyncGenerator[None]:
        """Keeps the indexes up to date and completes erasures for the block."""
        keeps = self.has_slot or self.falls_back
        async with (
            self.builtin.open(keep=keeps and not self.chains.has_qmd),
            self.chains.open(keep=keeps),
            in_background(self.forgets.run),
        ):
            yield


@asynccontextmanager
async def open_parts(host: MemoryHost) -> AsyncGenerator[MemoryParts]:
    """Gives the parts for the block; its end also ends the processes of embedding models."""
    config, store, clock = host.config, host.store, host.clock
    async with open_embedding(
        config,
        host.environ,
        host.payer,
        enabled=host.embeds,
        plugins=host.claims.embeddings,
    ) as embedder:
        builtin = BuiltinMemories(config, store, clock, host.redact, embedder, host.reach)
        behind, transcripts = host.memories or builtin, StoredTranscripts(store)
        chains = SlotMemories(config, behind, transcripts, clock, host.redact, host.environ)
        memories: Memories = chains
        if config().plugins.slots.memory not in NON_PLUGIN_VALUES:
            plugin = claimed.ClaimedMemories(config, host.claims, chains)
            memories = plugin
            if config().plugins.slots.memory_fallback:
                memories = slot_fallback.FallbackMemories(config, plugin, chains, clock)
        forgets = Forgetter(config, store, host.mirror, memories, clock, host.reach, host.live)
        yield MemoryParts(
            host,
            builtin,
            chains,
            forgets,
            MemorySearchService(memories, config, clock, forgets, transcripts.is_tainted),
            LentEmbeddings(embedder),
        )


@asynccontextmanager
async def open_memory(host: MemoryHost) -> AsyncGenerator[MemoryHolder]:
    """Gives the service, tools and commands that the memory adds to a gateway.

    When a plugin has the slot, there are no tools and no index: the service asks the plugin, and
    notes in files of the workspace are read and written as before. With `none` it only erases.
    """
    async with open_parts(host) as parts:
        holder = MemoryHolder(forgets=parts.forgets, keep=parts.keep, embeddings=parts.embeddings)
        if parts.has_slot:
            add_recall(parts.service, host.hooks)
            made_tools = cache(partial(make_tools, parts.service))
            commands = cache(partial(make_commands, parts.service))
            holder = replace(holder, service=parts.service, tools=made_tools, commands=commands)
        elif host.config().plugins.slots.memory != NONE:
            commands = cache(partial(make_commands, parts.service))
            holder = replace(holder, service=parts.service, commands=commands)
        yield holder


def add_recall(service: MemorySearchService, hooks: Hooks) -> None:
    """Adds the hook that puts passages into the prompts of conversations that were summarised."""

    async def recalled(draft: PromptDraft) -> PromptChange | None:
        return await recall_hook.recall(service, draft)

    handler: Handler[Any, Any] = Handler(CORE, recalled, 0, service.scope.is_recall_due)
    handler.after_compaction = True
    hooks.points["before_prompt_build"].add(handler)


def make_tools(service: MemorySearchService) -> tuple[Tool, ...]:
    """Returns the tools."""
    kinds: list[Callable[[MemorySearchService], Tool]] = [
        tools.MemorySearch,
        tools.MemoryGet,
        tools.MemoryWrite,
    ]
    if service.forgets is not None:
        kinds.append(tools.MemoryForget)
    return tuple(kind(service) for kind in kinds)


def make_commands(service: MemorySearchService) -> tuple[Command, ...]:
    """Returns `/remember` and `/forget`."""
    return chat_commands.commands(service, CORE)
