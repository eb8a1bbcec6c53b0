"""Queries to the memory and their results."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from skerry.model.errors import SkerryError
from skerry.model.ids import SessionKey
from skerry.model.message import Message, ToolResultMessage
from skerry.model.origin import Origin

LONG_TERM: Final = frozenset({"MEMORY.md", "memory.md"})
"""Files that always count as memory; older workspaces have the second."""
FOLDER: Final = "memory"
"""Folder of the workspace for the daily logs and other notes."""
UNVERIFIED: Final = "unverified"
"""Folder in `memory/` for notes that may repeat the words of others than the owner."""


def is_memory(path: str) -> bool:
    """Returns whether a path in the workspace names a file of the memory (pure)."""
    parts = PurePosixPath(path).parts
    if ".." in parts or not path.endswith(".md"):
        return False
    return parts[:1] == (FOLDER,) if len(parts) > 1 else parts[0] in LONG_TERM


def unverified(day: str) -> str:
    """Returns the path for notes of a day that may repeat text of other people."""
    return f"{FOLDER}/{UNVERIFIED}/{day}.md"


def is_unverified(path: str) -> bool:
    """Returns whether a path in the workspace is a file of unverified notes (pure).

    They are searched, but never trusted.
    """
    parts = PurePosixPath(path.lower()).parts
    return parts[:2] == (FOLDER, UNVERIFIED)


class MemoryBackendError(SkerryError):
    """A memory cannot answer, or cannot write its index."""

    code = "memory"


class MemoryStartingError(MemoryBackendError):
    """A memory cannot answer yet, because it is starting; the next question may succeed."""

    code = "memory.starting"


class MemorySource(StrEnum):
    """Source of a remembered passage."""

    MEMORY = "memory"
    """A file of the workspace, or of an extra path."""
    SESSIONS = "sessions"
    """Transcript of a conversation."""


class MemoryMode(StrEnum):
    """Search method of an answer. If one is not available, the next one is used."""

    HYBRID = "hybrid"
    """Search by words and by vectors."""
    TEXT = "text"
    """Search by words only: there is no embedding model, or it does not answer."""
    NONE = "none"
    """No search."""


class KnownMessages(Struct, frozen=True):
    """Messages of a conversation that are already in a model's context."""

    key: str
    """Session key of the conversation."""
    since: int
    """Time of its first message, in milliseconds since 1970."""
    texts: Callable[[], Iterable[str]]
    """Returns the texts of the messages, without tool results."""

    @staticmethod
    def of(key: SessionKey, messages: Sequence[Message]) -> "KnownMessages | None":
        """Builds the value from messages of a conversation; None if there are none."""
        if not messages:
            return None

        def texts() -> Iterator[str]:
            return (
                message.text for message in messages if not isinstance(message, ToolResultMessage)
            )

        return KnownMessages(str(key), min(message.timestamp for message in messages), texts)


class MemoryQuestion(Struct, frozen=True):
    """Query of the memory, with its filters."""

    text: str
    limit: int = 6
    min_score: float | None = 0.0
    """From 0 to 1; hits below it are left out. None takes the configured value."""
    sources: frozenset[MemorySource] = frozenset(MemorySource)
    path: str | None = None
    """File to search, or folder if it ends with `/`."""
    since: int | None = None
    """Time of the oldest passage to search, in milliseconds since 1970."""
    until: int | None = None
    """Time before which passages are searched, in milliseconds since 1970."""
    session: str | None = None
    """Session key of the only conversation to search."""
    profile: str | None = None
    """Name of the weighting of words and vectors; None takes the configured one."""
    explain: bool = False
    """Adds the parts of its score to each hit."""
    patience: float = 0.0
    """Seconds to wait in addition to the usual limit for a model that is being loaded."""
    opens: Callable[[str], bool] | None = None
    """Returns whether passages of a conversation, by key, may be found; None permits all."""
    context_messages: KnownMessages | None = None
    """Messages in the asking model's context, which are left out of the hits."""
    sufficient_score: float = 0.0
    """Minimum score of the best hit, from 0 to 1; below it there are no hits. Weaker hits are kept
    with a sufficient one, because not every part of an answer has the words of the question."""


class MemoryHit(Struct, frozen=True):
    """A passage that was found."""

    path: str
    """Path relative to the workspace, `sessions/<id>.md` for a conversation, or
    `qmd/<collection>/<path>` for QMD."""
    start_line: int
    end_line: int
    score: float
    """From 0 to 1; 1 is best."""
    text: str
    """The whole passage; callers that show it shorten it."""
    source: MemorySource
    at: int | None = None
    """Date of the passage, in milliseconds since 1970."""
    session: str | None = None
    """Key of the conversation of the passage; a hit with source `sessions` and without a key is
    never shown."""
    explanation: Sequence[tuple[str, float]] = ()
    """Parts of the score by name, in the order in which they were applied."""


class MemoryFallback(Struct, frozen=True):
    """Memory that should have answered, and the reason why it did not."""

    origin: str
    """Name of a backend (`qmd`) or of an embedding provider (`openai`)."""
    reason: str


class MemoryAnswer(Struct, frozen=True):
    """Result of a search."""

    hits: Sequence[MemoryHit]
    backend: str
    """Backend that answered: `builtin` or `qmd`."""
    provider: str
    """Provider of the embeddings; `none` if only words were compared."""
    model: str
    mode: MemoryMode
    fallback: MemoryFallback | None = None
    notes: Sequence[str] = ()
    """Reasons why the answer is incomplete, for people."""


class MemoryDocument(Struct, frozen=True):
    """A document in the memory that is no file of the workspace or of an extra path."""

    text: str
    source: MemorySource
    session: str | None = None
    """Key of the conversation, if the document is one."""


class MemoryProvenance(Struct, frozen=True):
    """Origin, conversation and time of a note."""

    id: str
    line: int
    """Line on which the note ends."""
    origin: Origin
    conversation: str
    """Key of the conversation; `gateway` for a person at the gateway."""
    at: str
    """Time, such as `2026-11-22T08:24Z`."""
    is_edited: bool
    """True if the text of the note was changed later."""


class MemoryText(Struct, frozen=True):
    """The requested lines of a document."""

    path: str
    text: str
    start_line: int = 1
    next_line: int | None = None
    """First line after the text, if the text was cut; otherwise None."""
    hint: str = ""
    """Advice for the reader if there is no text."""
    notes: Sequence[MemoryProvenance] = ()
    """Provenance of the notes that are completely included."""


class MemoryNote(Struct, frozen=True):
    """A note in a file."""

    path: str
    text: str
    provenance: MemoryProvenance


class MemoryFile(Struct, frozen=True):
    """A document in the list of a memory."""

    path: str
    source: MemorySource
    size: int
    """Size in bytes."""
    changed_at: int
    """Time of the last change, in milliseconds since 1970."""
    day: str | None = None
    """Day of a daily log, such as `2026-11-22`."""
    passages: int | None = None
    """Number of indexed passages; None if the file is not indexed yet, or by another memory."""
    vectors: int | None = None
    """Number of passages that have a vector."""
    error: str = ""
    """Reason why the file is not indexed."""
    session: str | None = None
    """Key of the conversation, if the document is one."""
    encoding: str = ""
    """Encoding in which it was read, if it is not UTF-8."""


class MemoryWhole(Struct, frozen=True):
    """The whole of a file, for an editor."""

    path: str
    text: str
    hash: str
    """Hash of the content, for `save`; empty if the file does not exist yet."""
    notes: Sequence[MemoryProvenance] = ()


class MemorySaved(Struct, frozen=True):
    """A file that was saved."""

    path: str
    hash: str
    is_new: bool


class MemoryNoted(Struct, frozen=True):
    """A note that was written; `MemoryService.undo` removes it by `id`."""

    id: str
    path: str
    start_line: int
    end_line: int


class MemoryUndone(Struct, frozen=True):
    """A note that was removed."""

    id: str
    path: str
    text: str


class MemoryProgress(Struct, frozen=True):
    """Progress of an index job."""

    stage: str
    """`files`, `sessions` or `embeddings`."""
    done: int
    """Number of completed items."""
    total: int


class SyncReport(Struct, frozen=True):
    """Result of an index job."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    """Number of passages written."""
    embedded: int = 0
    """Number of texts that a model embedded; the vectors of the others were cached."""
    failed: Sequence[tuple[str, str]] = ()
    """Files that could not be indexed, each with the reason."""
    backend: str = ""
    """The memory that was synced; empty if there is only one."""
    fallback: "MemoryFallback | None" = None
    """Reason why another memory was synced than the configured one."""

    def joined(self, other: "SyncReport") -> "SyncReport":
        """Returns the sum of both reports."""
        return SyncReport(
            self.added + other.added,
            self.changed + other.changed,
            self.removed + other.removed,
            self.unchanged + other.unchanged,
            self.chunks + other.chunks,
            self.embedded + other.embedded,
            (*self.failed, *other.failed),
        )


class MemoryBacklog(Struct, frozen=True):
    """Passages without a vector yet; until then they are found by words only."""

    notes: int
    """Passages of files."""
    said: int
    """Passages of conversations."""
    seconds: float | None
    """Estimated seconds until all have a vector; None if passages of conversations get none."""


class MemoryStatus(Struct, frozen=True):
    """The state of an agent's memory."""

    agent: str
    backend: str
    """Backend that would answer a search now: `builtin` or `qmd`."""
    files: int
    chunks: int
    dirty: bool
    """True if files or conversations changed since the last indexing."""
    indexed_at: int | None
    """Time of the last indexing, in milliseconds since 1970; None before the first."""
    provider: str
    model: str
    mode: MemoryMode
    vectors: int
    """Number of passages with a vector of the present model."""
    fallback: MemoryFallback | None = None
    sources: Sequence[tuple[str, int, int]] = ()
    """Each source with its numbers of files and passages."""
    lacking: Sequence[tuple[str, int, int]] = ()
    """Each source with its number of passages without a vector, and of those that never get one."""
    backlog: MemoryBacklog | None = None
    database: str = ""
    """Path of the index."""
    notes: Sequence[str] = ()
    """Problems, each with its remedy."""
    progress: MemoryProgress | None = None
    """Progress of the index job that runs now."""


class TrackedConversation(Struct, frozen=True):
    """A session of a conversation that the memory indexes."""

    session_id: str
    key: str
    entries: int
    """Number of entries in its transcript."""
    size: int
    """Approximate size of the entries in bytes."""
    updated_at: int
    """Time of the last change, in milliseconds since 1970."""


class Utterance(Struct, frozen=True):
    """Text of the person or the assistant in a conversation."""

    by_user: bool
    """True for the person, false for the assistant."""
    text: str
    at: int
    """Time in milliseconds since 1970."""
    seq: int = 0
    """Number of its entry in the transcript, from 1; 0 if unknown."""
