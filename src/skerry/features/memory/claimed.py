"""Adapts the memory of a plugin that claims the slot to `ports.memory`."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from skerry.config.root import Config
from skerry.model.errors import SkerryError
from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryDocument,
    MemoryHit,
    MemoryMode,
    MemoryProgress,
    MemoryQuestion,
    MemorySource,
    MemoryStatus,
    SyncReport,
)
from skerry.model.redaction import Redaction
from skerry.ports.memory import Memories, MemoryForgets
from skerry.sdk.memory import Remembered, SlotMemory, SlotStatus
from skerry.sdk.slots import SlotClaims

logger = logging.getLogger(__name__)
T = TypeVar("T")

SEARCH_SECONDS: Final = 20.0
FORGET_SECONDS: Final = 60.0
STATUS_SECONDS: Final = 10.0
FOLDER: Final = "slot/"
"""Prefix of the paths of the plugin's texts."""
MAX_TEXTS: Final = 200
"""Limit on the recently found texts that can be opened by their path."""


class SlotEmptyError(MemoryBackendError):
    """The plugin that `plugins.slots.memory` names is not loaded."""

    code = "memory.slot"
    remedy = "`skerry plugins list` shows the reason; plugins.slots.memory names the memory."

    def __init__(self, plugin: str, reason: str) -> None:
        super().__init__(f"The memory {plugin} of plugins.slots.memory is not loaded: {reason}")


class ClaimedMemory:
    """The memory of one agent. Implements `ports.memory.MemoryBackend`."""

    def __init__(self, agent: AgentId, plugin: str, claims: SlotClaims, behind: Memories) -> None:
        self._agent = agent
        self._plugin = plugin
        self._claims = claims
        self._behind = behind
        """The built-in memories; an erasure also cleans their indexes."""
        self._texts: OrderedDict[str, str] = OrderedDict()

    @property
    def name(self) -> str:
        """Returns the id of the plugin."""
        return self._plugin

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        """Returns the best texts of the plugin.

        Raises:
            MemoryBackendError: the plugin is not loaded, fails, or does not answer in time.
        """
        memory = self._memory()
        hits: list[MemoryHit] = []
        if MemorySource.MEMORY in question.sources and not (question.path or question.session):

            async def ask() -> list[MemoryHit]:
                memories = await memory.search(self._agent, question.text, question.limit)
                return [self._hit(text) for text in memories]

            least = max(question.min_score or 0.0, question.sufficient_score)
            all_hits = await self._limited("search", SEARCH_SECONDS, ask)
            hits = [hit for hit in all_hits if hit.score >= least and _fits(hit, question)]
        return MemoryAnswer(hits[: question.limit], self.name, self.name, "", MemoryMode.HYBRID)

    async def sync(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        """Does nothing: the plugin has no index of files.

        Raises:
            MemoryBackendError: the plugin is not loaded.
        """
        del force, progress
        self._memory()
        return SyncReport(backend=self.name)

    def touch(self) -> None:
        """Does nothing: the plugin has no index of files."""

    async def status(self) -> MemoryStatus:
        """Returns the state; the failure of a plugin is in the notes."""
        try:
            memory = self._memory()
            state = await self._limited(
                "status", STATUS_SECONDS, lambda: memory.status(self._agent)
            )
        except MemoryBackendError as error:
            state = SlotStatus(is_ok=False, text=str(error), remedy=error.remedy)
        note = " ".join(filter(None, (state.text, state.remedy)))
        return MemoryStatus(
            agent=self._agent,
            backend=self.name,
            files=0,
            chunks=state.count or 0,
            dirty=False,
            indexed_at=None,
            provider=state.provider or "none",
            model="",
            mode=MemoryMode.HYBRID if state.is_ok else MemoryMode.NONE,
            vectors=0,
            notes=(note,),
        )

    async def document(self, path: str) -> MemoryDocument | None:
        """Returns a recently found text by its path."""
        text = self._texts.get(path)
        return None if text is None else MemoryDocument(text, MemorySource.MEMORY)

    async def forget(self, redaction: Redaction) -> int:
        """Erases the phrases in the plugin's memory and in the built-in index.

        Raises:
            MemoryBackendError: the plugin or the index failed.
        """
        behind: object = self._behind.of(self._agent)
        documents = await behind.forget(redaction) if isinstance(behind, MemoryForgets) else 0
        memory = self._memory()
        self._texts.clear()
        return documents + await self._limited(
            "forget", FORGET_SECONDS, lambda: memory.forget(self._agent, redaction.phrases)
        )

    def _memory(self) -> SlotMemory:
        memory = self._claims.memory.get(self._plugin)
        if memory is None:
            reason = self._claims.reason or "no plugin of that id has claimed the slot."
            raise SlotEmptyError(self._plugin, reason)
        return memory

    def _hit(self, remembered: Remembered) -> MemoryHit:
        path = f"{FOLDER}{remembered.id}.md"
        self._texts[path] = remembered.text
        while len(self._texts) > MAX_TEXTS:
            self._texts.popitem(last=False)
        lines = remembered.text.count("\n") + 1
        score = min(max(remembered.score, 0.0), 1.0)
        return MemoryHit(path, 1, lines, score, remembered.text, MemorySource.MEMORY, remembered.at)

    async def _limited(self, operation: str, seconds: float, call: Callable[[], Awaitable[T]]) -> T:
        """Returns the result of a call of the plugin.

        Raises:
            MemoryBackendError: the call failed, or took longer than `seconds`.
        """
        with anyio.move_on_after(seconds):
            try:
                return await call()
            except MemoryBackendError:
                raise
            except SkerryError as error:
                failed = MemoryBackendError(f"{self.name}: {error}")
                failed.remedy = error.remedy
                raise failed from error
            except Exception as error:
                # A plugin may raise any exception; the service must still answer.
                logger.exception("memory %s: %s failed", self.name, operation)
                message = f"{self.name}: {operation} raised {type(error).__name__}."
                raise MemoryBackendError(message) from error
        raise MemoryBackendError(f"{self.name}: {operation} took more than {seconds:g} s.")


def _fits(hit: MemoryHit, question: MemoryQuestion) -> bool:
    """Returns whether the date of a text is in the range of the question."""
    if hit.at is None:
        return question.since is None and question.until is None
    return (question.since is None or hit.at >= question.since) and (
        question.until is None or hit.at < question.until
    )


class ClaimedMemories:
    """The plugin's memories of all agents. Implements `ports.memory.Memories`."""

    def __init__(self, config: Callable[[], Config], claims: SlotClaims, behind: Memories) -> None:
        self._config = config
        self._claims = claims
        self._behind = behind
        self._memories: dict[tuple[AgentId, str], ClaimedMemory] = {}

    def of(self, agent: AgentId) -> ClaimedMemory:
        """Returns the agent's memory."""
        plugin = self._config().plugins.slots.memory
        memory = self._memories.get((agent, plugin))
        if memory is None:
            memory = ClaimedMemory(agent, plugin, self._claims, self._behind)
            self._memories[agent, plugin] = memory
        return memory
