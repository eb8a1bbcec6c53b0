"""Slots that a feature claims, such as the memory: what it is given, and what it gives back."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from msgspec import Struct, field

from skerry.commands.table import Command
from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock
from skerry.lanes.active_runs import ActiveRuns
from skerry.model.errors import SandboxError
from skerry.ports.memory import Forgets, Memories, MemoryService
from skerry.ports.model_candidates import Accounts, CallTarget, ModelCallEnded
from skerry.ports.sandbox import Sandbox
from skerry.ports.tool import Tool
from skerry.ports.transcription import Transcriber
from skerry.providers.embedded_model import EmbeddedHost, EmbeddedModel, ModelParts
from skerry.runtime.conversation import ConversationCache
from skerry.sdk.embedding import EmbeddingProvider, Embeddings, NoEmbeddings
from skerry.sdk.features import Features, model_apis, registered
from skerry.sdk.memory import SlotMemory
from skerry.sdk.search import SearchProvider
from skerry.store import Store, no_fault
from skerry.store.mirror import Mirror
from skerry.workspace.prompt_builder import Prompts


class Live(Struct, frozen=True):
    """State of a running gateway's conversations in main memory, which an erasure clears."""

    running: ActiveRuns
    histories: ConversationCache
    prompts: Prompts


class Payer(Protocol):
    """Keeps the ledger of model calls."""

    def book(self, call: ModelCallEnded) -> None:
        """Records a call that somebody bills."""
        ...

    def allow(self, target: CallTarget) -> None:
        """Returns if a model may be called. Raises `BudgetError`."""
        ...


class SlotClaims(Struct):
    """Claims of the plugins that are loaded; plugins come and go."""

    memory: dict[str, SlotMemory] = field(default_factory=dict)
    """Memories by the ids of their plugins; `plugins.slots.memory` names the one that counts."""
    reason: str = ""
    """Reason why the plugin that the slot names is not loaded."""
    searches: dict[str, SearchProvider] = field(default_factory=dict)
    """Searches by the ids of their plugins."""
    embeddings: dict[str, EmbeddingProvider] = field(default_factory=dict)
    """Embedding models by the ids of their plugins."""


class MemoryHost(Struct, frozen=True):
    """Parts of a gateway, or of a command without one, that a memory works with."""

    config: Callable[[], Config]
    environ: Mapping[str, str]
    store: Store
    mirror: Mirror
    payer: Payer
    clock: Clock
    redact: Callable[[str], str]
    """Takes secrets out of text."""
    hooks: Hooks
    live: Live | None = None
    """None where no gateway runs."""
    memories: Memories | None = None
    """Takes the place of the built-in memories, in tests."""
    embeds: bool = True
    """False where no embedding model may be used."""
    reach: Callable[[str], None] = no_fault
    """Called at each named fault point."""
    claims: SlotClaims = field(default_factory=SlotClaims)
    """Claims of plugins."""


class MemoryHolder(Struct, frozen=True):
    """Parts that a memory adds to a gateway; all are empty where nothing holds the slot."""

    service: MemoryService | None = None
    """None where `plugins.slots.memory` is `none`."""
    forgets: Forgets | None = None
    tools: Callable[[], Sequence[Tool]] = tuple
    """Makes the tools at the first request; `commands` likewise."""
    commands: Callable[[], Sequence[Command]] = tuple
    keep: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Keeps the indexes fresh and completes erasures for the block."""
    embeddings: Embeddings = field(default_factory=NoEmbeddings)
    """The embedding models of agents, for plugins."""


def open_memory(
    host: MemoryHost, features: Features | None = None
) -> AbstractAsyncContextManager[MemoryHolder]:
    """Opens the feature that claims the slot for a block; without one there is no memory."""
    load = (features or registered()).slots.get("memory")
    if load is None:
        return nullcontext(MemoryHolder())
    holder: AbstractAsyncContextManager[MemoryHolder] = load()(host)
    return holder


class SandboxHost(Struct, frozen=True):
    """Parts of an installation that sandboxes work with; a command without a gateway has them."""

    config: Callable[[], Config]
    """Returns the present configuration; it is read for each command that is run."""
    environ: Mapping[str, str]
    """Environment of this process, in which the programs of the backends are looked up."""
    ask: Callable[[str, str, str, int], Awaitable[bool]] | None = None
    """Asks a person whether commands of an agent and session may reach a host on a port; None
    where nobody can be asked."""


def open_sandbox(host: SandboxHost, features: Features | None = None) -> Sandbox:
    """Returns the sandboxes of the feature that claims the slot.

    Raises:
        SandboxError: no feature claims it.
    """
    load = (features or registered()).slots.get("sandbox")
    if load is None:
        raise SandboxError("Nothing holds the slot of the sandbox, so no command can be run.")
    sandbox: Sandbox = load()(host)
    return sandbox


def model_parts(features: Features | None = None) -> ModelParts:
    """Returns the wire formats and the embedded model that features have."""
    load = (features or registered()).slots.get("embedded_model")
    if load is None:
        return ModelParts(model_apis())

    def embedded(host: EmbeddedHost) -> EmbeddedModel:
        model: EmbeddedModel = load()(host)
        return model

    return ModelParts(model_apis(), embedded)


def open_transcriber(
    config: Callable[[], Config],
    environ: Mapping[str, str],
    accounts: Accounts,
    features: Features | None = None,
) -> Transcriber | None:
    """Returns the models that make text of recordings; None where the configuration names none."""
    audio = config().tools.media.audio
    if not (audio.enabled and audio.models):
        return None
    load = (features or registered()).slots.get("transcription")
    transcriber: Transcriber | None = load()(config, environ, accounts) if load else None
    return transcriber
