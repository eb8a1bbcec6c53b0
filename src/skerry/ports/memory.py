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
        """Returns the passages that answer best; an answer that needs nothing fails never.

        Raises:
            MemoryBackendError: it cannot answer at all; the next backend of the slot is asked.
        """
        ...

    async def sync(
        self,
        *,
        force: bool = False,
        progress: Callable[[MemoryProgress], None] | None = None,
    ) -> SyncReport:
        """Brings the index up to what the files say; `force` builds it anew.

        Raises:
            MemoryBackendError: the index cannot be written.
        """
        ...

    def touch(self) -> None:
        """Notes that files changed: the next search looks at them first."""
        ...

    async def status(self) -> MemoryStatus:
        """Returns its state; it never fails."""
        ...


@runtime_checkable
class MemoryDocuments(Protocol):
    """A memory that finds more than files of the workspace: `qmd/...`, `sessions/...`."""

    async def document(self, path: str) -> MemoryDocument | None:
        """Returns the document at a hit's path; None if there is no such document.

        Raises:
            MemoryBackendError: it cannot be read.
        """
        ...


@runtime_checkable
class MemoryListing(Protocol):
    """A memory that can tell what it has indexed."""

    async def listing(self) -> Sequence[MemoryFile]:
        """Returns every document of its index, those that it could not read too.

        Raises:
            MemoryBackendError: the index cannot be read.
        """
        ...


@runtime_checkable
class MemoryForgets(Protocol):
    """A memory with files of its own, which may still have what was forgotten."""

    async def forget(self, redaction: Redaction) -> int:
        """Leaves nothing of the phrases in them; returns how many documents held them.

        The files and conversations that it remembers do not hold them any more.

        Raises:
            MemoryBackendError: it cannot be done now.
        """
        ...


class Memories(Protocol):
    """The memories of all agents."""

    def of(self, agent: AgentId) -> MemoryBackend | None:
        """Returns the agent's memory; None where the slot is empty."""
        ...


class TranscriptSource(Protocol):
    """Source of the transcripts for the memory that indexes them."""

    async def conversations(self, agent: AgentId, since: int) -> Sequence[TrackedConversation]:
        """Returns the agent's, archived ones too, in which something was said since then (ms).

        Raises:
            StateError: they cannot be read.
        """
        ...

    async def utterances(
        self, conversation: TrackedConversation, after: int = 0
    ) -> Sequence[Utterance]:
        """Returns the texts of the person and the assistant, in order, without tool results.

        Those of the entries behind number `after`.

        Raises:
            StateError: it cannot be read.
        """
        ...


class Forgets(Protocol):
    """Erases statements in all places at once."""

    async def look(self, agent: AgentId, phrases: Sequence[str]) -> Forgotten:
        """Returns the lines and rows that would be erased, without changing anything.

        Raises:
            PhraseError: a phrase is too short, or there are too many.
            StateError: the database cannot be read.
        """
        ...

    async def forget(
        self, agent: AgentId, phrases: Sequence[str], *, extra: bool = False
    ) -> Forgotten:
        """Takes the statements with these phrases out of all that the agent has.

        With `extra` also out of its extra paths. Returns what was taken out; where `waits` of it is
        above 0, the rest is done when so many runs have ended.

        Raises:
            PhraseError: a phrase is too short, or there are too many.
            StateError, MemoryBackendError: it is not done yet; it is gone on with by itself.
        """
        ...


class MemoryService(Memories, Protocol):
    """Memory service for people at the gateway, who may read all of an agent's memory."""

    async def search(self, agent: AgentId, question: MemoryQuestion) -> MemoryAnswer:
        """Searches the agent's memory.

        Raises:
            MemoryBackendError: the agent has no memory, or none that answers in time.
        """
        ...

    async def get(
        self, agent: AgentId, path: str, start: int = 1, lines: int | None = None
    ) -> MemoryText:
        """Returns lines of a document.

        Raises:
            MemoryBackendError: it is none of the memory's.
        """
        ...

    async def write(
        self, agent: AgentId, text: str, section: str | None, origin: Origin, conversation: str
    ) -> MemoryNoted:
        """Appends a note to the log of the day, or to a section of MEMORY.md.

        Args:
            agent: Whose memory it is.
            text: What is noted.
            section: The heading in MEMORY.md; None is the log of the day.
            origin: Who said it.
            conversation: The key of the conversation; `gateway` for a person at the gateway itself.

        Raises:
            MemoryBackendError: it is not written.
        """
        ...

    async def files(self, agent: AgentId) -> Sequence[MemoryFile]:
        """Returns the files as they are now, and the conversations that are indexed, by path.

        Raises:
            MemoryBackendError: the agent has no memory.
        """
        ...

    async def whole(self, agent: AgentId, path: str) -> MemoryWhole:
        """Returns all of a Markdown file, to be edited; an empty one where there is none yet.

        Raises:
            MemoryBackendError: it is none of the memory's, too large, or no text.
        """
        ...

    async def save(self, agent: AgentId, path: str, text: str, base: str) -> MemorySaved:
        """Replaces a Markdown file whose `hash` is still `base`; empty, it is a new one.

        Raises:
            MemoryBackendError: somebody changed it meanwhile, or it cannot be written.
        """
        ...

    async def notes(self, agent: AgentId, limit: int) -> Sequence[MemoryNote]:
        """Returns the notes of MEMORY.md, then of the daily logs, the newest log first.

        Raises:
            MemoryBackendError: the agent has no memory.
        """
        ...

    async def undo(self, agent: AgentId, name: str) -> MemoryUndone:
        """Takes a note out again.

        Raises:
            MemoryBackendError: it is not there, or was changed by hand since.
        """
        ...

    async def unverified(self, agent: AgentId) -> Sequence[MemoryNote]:
        """Returns the notes that wait for the owner's word, the newest log first.

        Raises:
            MemoryBackendError: the agent has no memory.
        """
        ...

    async def confirm(self, agent: AgentId, name: str) -> MemoryNoted:
        """Makes an unverified note the owner's: it moves into the log of the day.

        Raises:
            MemoryBackendError: no unverified note has that id, or it cannot be written.
        """
        ...

    async def near(self, agent: AgentId, phrases: Sequence[str]) -> Sequence[MemoryHit]:
        """Returns the passages that are nearest to the phrases; none where no memory answers."""
        ...
