"""Slots that one feature fills, such as the memory: their arguments and results."""

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
    """Cached state of conversations in a running gateway, which an erasure clears."""

    running: ActiveRuns
    histories: ConversationCache
    prompts: Prompts


class Payer(Protocol):
    """Records model calls and enforces budgets."""

    def book(self, call: ModelCallEnded) -> None:
        """Records a call that a provider bills."""
        ...

    def allow(self, target: CallTarget) -> None:
        """Checks the budget before a call. Raises `BudgetError` when it is used up."""
        ...


class SlotClaims(Struct):
    """Claims of the loaded plugins; the dictionaries change when plugins are loaded or removed."""

    memory: dict[str, SlotMemory] = field(default_factory=dict)
    """Memories by plugin id; `plugins.slots.memory` selects one."""
    reason: str = ""
    """Reason why the selected plugin is not loaded; empty otherwise."""
    searches: dict[str, SearchProvider] = field(default_factory=dict)
    """Web searches by plugin id."""
    embeddings: dict[str, EmbeddingProvider] = field(default_factory=dict)
    """Embedding models by plugin id."""


class MemoryHost(Struct, frozen=True):
    """Parts of the program that a memory needs, in a gateway or in a command without one."""

    config: Callable[[], Config]
    """Returns the present configuration."""
    environ: Mapping[str, str]
    store: Store
    mirror: Mirror
    payer: Payer
    clock: Clock
    redact: Callable[[str], str]
    """Returns a text with its secrets replaced."""
    hooks: Hooks
    live: Live | None = None
    """None where no gateway runs."""
    memories: Memories | None = None
    """Replacement of the built-in memories, for tests."""
    embeds: bool = True
    """False where no embedding model may be called."""
    reach: Callable[[str], None] = no_fault
    """Marks a named point at which a test may kill the process."""
    claims: SlotClaims = field(default_factory=SlotClaims)


class MemoryHolder(Struct, frozen=True):
    """Parts that a memory adds to a gateway; the defaults are those of an empty slot."""

    service: MemoryService | None = None
    """None where `plugins.slots.memory` is `none`."""
    forgets: Forgets | None = None
    tools: Callable[[], Sequence[Tool]] = tuple
    """Returns the tools of the model; called at the first request."""
    commands: Callable[[], Sequence[Command]] = tuple
    """Returns the chat commands; called at the first request."""
    keep: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Updates the indexes and completes erasures during the block."""
    embeddings: Embeddings = field(default_factory=NoEmbeddings)
    """The embedding models of agents, for plugins."""


def open_memory(
    host: MemoryHost, features: Features | None = None
) -> AbstractAsyncContextManager[MemoryHolder]:
    """Opens the memory for a block; its holder is empty where no feature claims the slot."""
    load = (features or registered()).slots.get("memory")
    if load is None:
        return nullcontext(MemoryHolder())
    holder: AbstractAsyncContextManager[MemoryHolder] = load()(host)
    return holder


class SandboxHost(Struct, frozen=True):
    """Parts of an installation that a sandbox needs, in a gateway or in a command without one."""

    config: Callable[[], Config]
    """Returns the present configuration; called before each sandboxed command."""
    environ: Mapping[str, str]
    """Environment of this process; its `PATH` locates the programs of the backends."""
    ask: Callable[[str, str, str, int], Awaitable[bool]] | None = None
    """Asks a person to allow commands of an agent id and session key to reach a host and port;
    None where no person can be asked."""


def open_sandbox(host: SandboxHost, features: Features | None = None) -> Sandbox:
    """Returns the sandbox of the feature that claims the slot.

    Raises:
        SandboxError: no feature claims the slot.
    """
    load = (features or registered()).slots.get("sandbox")
    if load is None:
        raise SandboxError("Commands cannot be run: no feature fills the slot of the sandbox.")
    sandbox: Sandbox = load()(host)
    return sandbox


def model_parts(features: Features | None = None) -> ModelParts:
    """Returns the wire formats and the embedded model of the features."""
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
    """Returns the transcriber of voice messages; None where `tools.media.audio` has no model."""
    audio = config().tools.media.audio
    if not (audio.enabled and audio.models):
        return None
    load = (features or registered()).slots.get("transcription")
    transcriber: Transcriber | None = load()(config, environ, accounts) if load else None
    return transcriber
