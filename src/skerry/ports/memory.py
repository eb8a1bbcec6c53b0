"""Protocols of a memory: the built-in one, QMD, or a plugin's."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryDocument,
    MemoryFile,
    MemoryHit,
    MemoryNote,
    MemoryNoted,
    MemoryProgress,
    MemoryQuestion,
    MemorySaved,
    MemoryStatus,
    MemoryText,
    MemoryUndone,
    MemoryWhole,
    SyncReport,
    TrackedConversation,
    Utterance,
)
from skerry.model.origin import Origin
from skerry.model.redaction import Redaction
from skerry.model.redaction_report import Forgotten


class MemoryBackend(Protocol):
    """The memory of one agent."""

    @property
    def name(self) -> str:
        """Returns `builtin`, `qmd`, or the id of the plugin."""
        ...

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        """Returns the passages that answer the question, best first.

        Without an embedding model the search compares words only; it does not fail.

        Raises:
            MemoryBackendError: the backend cannot answer; the caller asks the slot's next backend.
        """
        ...

    async def sync(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        """Updates the index from the files and conversations; `force` rebuilds it.

        It may take minutes; `progress` is called on the way.

        Raises:
            MemoryBackendError: the index cannot be written.
        """
        ...

    def touch(self) -> None:
        """Marks the files as changed: the next search first checks them."""
        ...

    async def status(self) -> MemoryStatus:
        """Returns the state of the memory; raises nothing. Problems are in `notes`."""
        ...


@runtime_checkable
class MemoryDocuments(Protocol):
    """A memory whose hits may also be at `qmd/...` or `sessions/...`, outside the workspace."""

    async def document(self, path: str) -> MemoryDocument | None:
        """Returns the document at the path of a hit; None if there is no such document.

        Raises:
            MemoryBackendError: the document cannot be read.
        """
        ...


@runtime_checkable
class MemoryListing(Protocol):
    """A memory that can list the documents of its index."""

    async def listing(self) -> Sequence[MemoryFile]:
        """Returns every document of the index, also those that could not be read (`error`).

        Raises:
            MemoryBackendError: the index cannot be read.
        """
        ...


@runtime_checkable
class MemoryForgets(Protocol):
    """A memory that stores copies of text, which may still contain erased phrases."""

    async def forget(self, redaction: Redaction) -> int:
        """Erases the phrases from its copies; returns the number of documents that had them.

        Call it after the phrases were erased from the indexed files and conversations.

        Raises:
            MemoryBackendError: the copies cannot be erased now.
        """
        ...


class Memories(Protocol):
    """The memories of all agents."""

    def of(self, agent: AgentId) -> MemoryBackend | None:
        """Returns the agent's memory; None if the slot is empty."""
        ...


class TranscriptSource(Protocol):
    """Source of the transcripts that a memory indexes."""

    async def conversations(self, agent: AgentId, since: int) -> Sequence[TrackedConversation]:
        """Returns the agent's conversations that changed since then, archived ones included.

        `since` is a time in milliseconds since 1970.

        Raises:
            StateError: the database cannot be read.
        """
        ...

    async def utterances(
        self, conversation: TrackedConversation, after: int = 0
    ) -> Sequence[Utterance]:
        """Returns the texts of the person and the assistant, in order, without tool results.

        Only entries with a number above `after` are read; numbers begin with 1.

        Raises:
            StateError: the database cannot be read.
        """
        ...


class Forgets(Protocol):
    """Erases statements from all data of an agent in one operation."""

    async def look(self, agent: AgentId, phrases: Sequence[str]) -> Forgotten:
        """Returns the lines and rows that `forget` would erase; changes nothing.

        Raises:
            PhraseError: a phrase is too short or too long, or there are too many.
            StateError: the database cannot be read.
        """
        ...

    async def forget(
        self, agent: AgentId, phrases: Sequence[str], *, extra: bool = False
    ) -> Forgotten:
        """Erases the statements with these phrases from all data of the agent.

        `extra` includes its extra paths. Returns the report of the erased lines and rows. If
        `waits` of the report is above 0, so many runs may still hold a phrase, and the erasure
        continues when they have ended.

        Raises:
            PhraseError: a phrase is too short or too long, or there are too many.
            StateError, MemoryBackendError: the erasure is not complete; the gateway continues it.
        """
        ...


class MemoryService(Memories, Protocol):
    """Memory service for people at the gateway, who may read all of an agent's memory."""

    async def search(self, agent: AgentId, question: MemoryQuestion) -> MemoryAnswer:
        """Searches the agent's memory.

        Raises:
            MemoryBackendError: the agent has no memory, or it did not answer in time.
        """
        ...

    async def get(
        self, agent: AgentId, path: str, start: int = 1, lines: int | None = None
    ) -> MemoryText:
        """Returns `lines` lines of a document from line `start` (1 is the first); None is all.

        Raises:
            MemoryBackendError: the path is not in the memory.
        """
        ...

    async def write(
        self, agent: AgentId, text: str, section: str | None, origin: Origin, conversation: str
    ) -> MemoryNoted:
        """Appends a note to the log of the day, or to a section of MEMORY.md.

        Args:
            agent: The agent that has the memory.
            text: The note.
            section: The heading in MEMORY.md; None is the log of the day.
            origin: The author of the text.
            conversation: The key of the conversation; `gateway` for a person at the gateway itself.

        Raises:
            MemoryBackendError: the note was not written.
        """
        ...

    async def files(self, agent: AgentId) -> Sequence[MemoryFile]:
        """Returns the present files and the indexed conversations, ordered by path.

        Raises:
            MemoryBackendError: the agent has no memory.
        """
        ...

    async def whole(self, agent: AgentId, path: str) -> MemoryWhole:
        """Returns all of a Markdown file for an editor; an empty one if it does not exist yet.

        Raises:
            MemoryBackendError: the path is not in the memory, or the file is too large or no text.
        """
        ...

    async def save(self, agent: AgentId, path: str, text: str, base: str) -> MemorySaved:
        """Replaces a Markdown file whose hash is still `base`; an empty `base` makes a new file.

        Raises:
            MemoryBackendError: the file was changed meanwhile, or it cannot be written.
        """
        ...

    async def notes(self, agent: AgentId, limit: int) -> Sequence[MemoryNote]:
        """Returns at most `limit` notes: those of MEMORY.md, then of the daily logs, newest first.

        Raises:
            MemoryBackendError: the agent has no memory.
        """
        ...

    async def undo(self, agent: AgentId, name: str) -> MemoryUndone:
        """Removes the note with the id `name`.

        Raises:
            MemoryBackendError: no note has that id, or it was changed by hand since.
        """
        ...

    async def unverified(self, agent: AgentId) -> Sequence[MemoryNote]:
        """Returns the notes that the owner has not confirmed, the newest log first.

        Raises:
            MemoryBackendError: the agent has no memory.
        """
        ...

    async def confirm(self, agent: AgentId, name: str) -> MemoryNoted:
        """Confirms an unverified note as the owner's: it moves into the log of the day.

        Raises:
            MemoryBackendError: no unverified note has the id `name`, or it cannot be written.
        """
        ...

    async def near(self, agent: AgentId, phrases: Sequence[str]) -> Sequence[MemoryHit]:
        """Returns the passages nearest to the phrases; none if no memory answers."""
        ...
