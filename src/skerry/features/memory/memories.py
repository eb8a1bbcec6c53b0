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
from skerry.model.ids import AgentId, SessionId
from skerry.model.memory import TrackedConversation, Utterance
from skerry.runtime.foreign_entries import ForeignEntries
from skerry.store import Store, no_fault, utterances

if TYPE_CHECKING:
    from skerry.features.memory.documents import Document
    from skerry_recall.embed import Embedder

FOLDER: Final = "memory"
"""Folder in the state directory, for `<agentId>.sqlite`."""


class BuiltinMemories(Struct):
    """One memory per agent, each with its own file; created at the first use.

    Enter `open` before use.
    """

    config: Callable[[], Config]
    store: Store
    clock: Clock
    redact: Callable[[str], str]
    """Removes secrets from messages."""
    embedder: "Callable[[AgentId], Embedder | None]"
    """Returns the agent's embedding model; None if only words are searched."""
    reach: Callable[[str], None] = no_fault
    """Called at each named fault point."""
    _memories: "dict[AgentId, builtin.BuiltinMemory]" = field(default_factory=dict)
    _glances: "dict[AgentId, file_changes.FileChangeDetector]" = field(default_factory=dict)

    def of(self, agent: AgentId) -> "builtin.BuiltinMemory":
        """Returns the agent's memory."""
        if agent not in self._memories:
            self._memories[agent] = self._make(agent)
        return self._memories[agent]

    @asynccontextmanager
    async def open(self, *, keep: bool = True) -> AsyncGenerator[None]:
        """Keeps the indexes up to date for the block, if `keep`; closes their files at its end."""
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
                for memory in self._memories.values():
                    await anyio.to_thread.run_sync(memory.close)
                for glance in self._glances.values():
                    glance.close()

    def _keeper(self, agent: AgentId) -> IndexKeeper:
        def look() -> object:
            now = settings(self.config(), agent)
            glance = self._glances.setdefault(agent, file_changes.FileChangeDetector())
            return glance.look(now.paths), now, has_sessions(self.config(), agent)

        return IndexKeeper(
            lambda: self.of(agent),
            look,
            lambda: is_empty(memory_paths(self.config(), agent)),
            lambda: rhythm(self.config(), agent),
        )

    def _make(self, agent: AgentId) -> "builtin.BuiltinMemory":
        path = self.config().state_dir / FOLDER / f"{agent}.sqlite"
        agent_index = index.Index(path, settings(self.config(), agent), self.clock, self.reach)
        return builtin.BuiltinMemory(
            agent,
            agent_index,
            self.clock,
            transcripts=_Conversations(self.store, agent, self.redact, self.config),
            embedder=partial(self.embedder, agent),
            weighing=lambda: weighing(self.config(), agent),
            settings=lambda: settings(self.config(), agent),
        )


class StoredTranscripts(Struct, frozen=True):
    """Conversations of one state directory. Implements `ports.memory.TranscriptSource`."""

    store: Store
    _foreign: ForeignEntries = field(default_factory=ForeignEntries)

    async def is_tainted(self, session_id: str) -> bool:
        """Returns whether a session has text of others that the owner has not cleared."""
        name = SessionId(session_id)
        return await self.store.read(lambda reader: self._foreign.is_tainted(reader, name))

    async def conversations(self, agent: AgentId, since: int) -> Sequence[TrackedConversation]:
        """Returns the agent's conversations with a message since then (ms); no deleted ones."""
        return await self.store.read(lambda reader: utterances.conversations(reader, agent, since))

    async def utterances(
        self, conversation: TrackedConversation, after: int = 0
    ) -> Sequence[Utterance]:
        """Returns the texts of the person and the assistant after entry `after`, in order."""
        return await self.store.read(
            lambda reader: utterances.of_session(reader, conversation.session_id, after)
        )


class _Conversations(Struct, frozen=True):
    """Transcripts, read in the calling thread. Implements `memory.index.Conversations`.

    They are read in that thread, because an abandoned job continues in its thread after the end of
    the gateway: a coroutine that it sends to the event loop would never finish.
    """

    store: Store
    agent: AgentId
    redact: Callable[[str], str]
    config: Callable[[], Config]

    def conversations(self, since: int) -> Sequence[TrackedConversation]:
        """Returns the conversations with a message since then (ms); () if none are indexed."""
        if not has_sessions(self.config(), self.agent):
            return ()
        return self.store.read_now(
            lambda reader: utterances.conversations(reader, self.agent, since)
        )

    def document(self, conversation: TrackedConversation, after: int = 0) -> "Document":
        """Returns the transcript of a conversation after entry `after` as a document."""
        texts = self.store.read_now(
            lambda reader: utterances.of_session(reader, conversation.session_id, after)
        )
        return transcript_markdown.document(conversation, texts, self.redact)
