"""The built-in memories of all agents. Implements `ports.memory.Memories`."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
from msgspec import Struct, field

from skerry.config.root import Config
from skerry.features.memory.index_keeper import IndexKeeper, is_empty
from skerry.features.memory.index_settings import (
    has_sessions,
    memory_paths,
    rhythm,
    settings,
    weighing,
)
from skerry.features.memory.late import builtin, file_changes, index, transcript_markdown
from skerry.infra.clock import Clock
from skerry.model.ids import AgentId
from skerry.model.memory import TrackedConversation, Utterance
from skerry.store import Store, no_fault, utterances

if TYPE_CHECKING:
    from skerry.features.memory.documents import Document
    from skerry_recall.embed import Embedder

FOLDER: Final = "memory"
"""Folder in the state directory, for `<agentId>.sqlite`."""


class BuiltinMemories(Struct):
    """One memory an agent, each with its own file; made when it is first asked for.

    `open` it for use.
    """

    config: Callable[[], Config]
    store: Store
    clock: Clock
    redact: Callable[[str], str]
    """Takes secrets out of what was said."""
    embedder: "Callable[[AgentId], Embedder | None]"
    """Returns the agent's embedding model; None where it searches by words alone."""
    reach: Callable[[str], None] = no_fault
    """Called at each named fault point."""
    _made: "dict[AgentId, builtin.BuiltinMemory]" = field(default_factory=dict)
    _glances: "dict[AgentId, file_changes.Glance]" = field(default_factory=dict)

    def of(self, agent: AgentId) -> "builtin.BuiltinMemory":
        """Returns the agent's memory."""
        if agent not in self._made:
            self._made[agent] = self._make(agent)
        return self._made[agent]

    @asynccontextmanager
    async def open(self, *, keep: bool = True) -> AsyncGenerator[None]:
        """Keeps them fresh for the block, if `keep`, and lets go of their files at its end."""
        try:
            async with anyio.create_task_group() as tasks:
                for agent in self.config().agents.ids if keep else ():
                    keeper = self._keeper(agent)
                    self.store.follow(keeper.touched.add)
                    tasks.start_soon(keeper.run)
                yield
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                for memory in self._made.values():
                    await anyio.to_thread.run_sync(memory.close)
                for glance in self._glances.values():
                    glance.close()

    def _keeper(self, agent: AgentId) -> IndexKeeper:
        def look() -> object:
            now = settings(self.config(), agent)
            glance = self._glances.setdefault(agent, file_changes.Glance())
            return glance.look(now.paths), now, has_sessions(self.config(), agent)

        return IndexKeeper(
            lambda: self.of(agent),
            look,
            lambda: is_empty(memory_paths(self.config(), agent)),
            lambda: rhythm(self.config(), agent),
        )

    def _make(self, agent: AgentId) -> "builtin.BuiltinMemory":
        path = self.config().state_dir / FOLDER / f"{agent}.sqlite"
        made = index.Index(path, settings(self.config(), agent), self.clock, self.reach)
        return builtin.BuiltinMemory(
            agent,
            made,
            self.clock,
            talks=_Conversations(self.store, agent, self.redact, self.config),
            embedder=partial(self.embedder, agent),
            weighing=lambda: weighing(self.config(), agent),
            settings=lambda: settings(self.config(), agent),
        )


class StoredTranscripts(Struct, frozen=True):
    """Conversations of one state directory. Implements `ports.memory.TranscriptSource`."""

    store: Store

    async def conversations(self, agent: AgentId, since: int) -> Sequence[TrackedConversation]:
        """Returns the agent's in which something was said since then (ms), but deleted ones."""
        return await self.store.read(lambda reader: utterances.conversations(reader, agent, since))

    async def utterances(
        self, conversation: TrackedConversation, after: int = 0
    ) -> Sequence[Utterance]:
        """Returns the texts of the person and the assistant, in order, behind entry `after`."""
        return await self.store.read(
            lambda reader: utterances.of_session(reader, conversation.session_id, after)
        )


class _Conversations(Struct, frozen=True):
    """Transcripts, for a worker thread. Implements `memory.index.Conversations`.

    They are read in that thread: a job that was abandoned at the end of the gateway goes on in its
    thread, and a coroutine that it sends to the event loop would wait there for good, in a cancel
    scope that has ended.
    """

    store: Store
    agent: AgentId
    redact: Callable[[str], str]
    config: Callable[[], Config]

    def conversations(self, since: int) -> Sequence[TrackedConversation]:
        """Returns those in which something was said since then, in ms since 1970, if any count."""
        if not has_sessions(self.config(), self.agent):
            return ()
        return self.store.read_now(
            lambda reader: utterances.conversations(reader, self.agent, since)
        )

    def document(self, conversation: TrackedConversation, after: int = 0) -> "Document":
        """Returns the transcript of a conversation behind entry `after` as a document."""
        texts = self.store.read_now(
            lambda reader: utterances.of_session(reader, conversation.session_id, after)
        )
        return transcript_markdown.document(conversation, texts, self.redact)
